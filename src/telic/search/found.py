"""Store a found policy as a run of one member, so that it is exported and played like any other."""

from __future__ import annotations

import json
import shlex
from typing import Any

import numpy as np
import torch

from telic import __version__
from telic.core.request import command_words
from telic.core.seeds import derive
from telic.envs.factory import make
from telic.errors import UnknownName, UsageError
from telic.search.records import SearchConfig, SearchRunSummary
from telic.search.runner import Result
from telic.storage.files import write_json, write_text
from telic.storage.keys import is_own_folder
from telic.storage.layout import MemberFolder, RunFolder
from telic.storage.trajectories import Trajectory, write_trajectory
from telic.training.evaluate import LABELS, evaluation_record
from telic.training.networks import Networks, Shape
from telic.training.policy import FORMAT, load_policy, play_episode, store_policy
from telic.training.population import CLIP

_EPISODES = 10


def store_found(result: Result, name: str | None) -> tuple[RunFolder, str]:
    """Store and evaluate the best policy of one run of a search. Returns the run and its member.

    Args:
        result: search with the policy.
        name: member of a run of the search, e.g. "default_seed_2" of run 2. Defaults to the best.

    Raises UsageError for policies without an environment and for actions that are not clipped.
    """
    members = {f"default_seed_{one.run}": one for one in result.summary.runs}
    name = name or max(members, key=lambda each: members[each].fresh.mean)
    if name not in members:
        raise UnknownName("member", name, list(members))
    run, found = RunFolder(result.folder.path / "policies"), members[name]
    member, step = MemberFolder(run.path / name), found.steps
    # A folder of another user may contain another policy with forged returns.
    if not (member.summary.exists() and is_own_folder(result.folder.path)):
        words = command_words(SearchConfig, dict(result.plan.config))
        command = shlex.join(["telic", "search", *words])
        about = {"command": command, "versions": result.summary.versions, "trainer": "search"}
        write_json(run.manifest, about)
        saved = _saved(result, found)
        write_text(member.reward_code, "# The environment's built-in reward.\n")
        store_policy(run, name, saved, {"policy": result.plan.protocol.policy})
        row = _evaluate(member, step, result.plan.task.id)
        write_text(member.scalars, json.dumps({"type": "eval", **row}) + "\n")
        about = {"algorithm": found.proposer, "status": found.outcome, "total_timesteps": step}
        write_json(member.summary, {"best": row, "best_step": step, **about})
    return run, name


def _saved(result: Result, found: SearchRunSummary) -> dict[str, Any]:
    """Return the content of a policy file for the best parameters of a run."""
    plan, task = result.plan.of_run(found.run), result.plan.task
    if task.is_continuous and not plan.switches.clip_actions:
        raise UsageError(
            f"Policies of {result.folder.name} do not clip their actions, but exported ones do.",
            hint="Search with --switch clip_actions=true.",
        )
    try:
        env = make(task.id, num_envs=1)
    except UnknownName:
        raise UsageError(
            f"{task.id} is only simulated by telic search, so its policies cannot be exported.",
            hint=f"See the evaluated policies: telic report {result.folder.name}",
        ) from None
    env.close()
    spec, network = env.spec, plan.policy.network(found.best)
    arrays, inputs = list(network.layers), len(spec.obs_names)
    # Policy files clip normalized observations to +-CLIP, and scale outputs from [-1, 1].
    factor = network.limit / CLIP
    arrays[0] = arrays[0][0] * factor, arrays[0][1]
    if task.action_low is not None and task.action_high is not None:
        half, (weight, bias) = (task.action_high - task.action_low) / 2.0, arrays[-1]
        arrays[-1] = weight / half, (bias - task.action_low) / half - 1.0
    *hidden, outputs = (len(bias) for _, bias in arrays)
    shape = Shape(inputs, inputs, outputs, spec.num_actions is not None, tuple(hidden), "tanh")
    networks = Networks(shape)
    flat = torch.zeros(1, networks.size)
    for layer, (weight, bias) in zip(networks.views(flat).actor, arrays, strict=True):
        layer.weight.copy_(torch.as_tensor(weight))
        layer.bias.copy_(torch.as_tensor(bias))
    facts = {
        **{"telic": __version__, "env": task.id, "env_args": {}, "step": found.steps},
        **{"obs_names": list(spec.obs_names), "action_names": list(spec.action_names)},
        "dt_s": spec.dt_s,
    }
    return {
        **{"format": FORMAT, "facts": facts, "shape": shape._asdict(), "flat": flat[0]},
        "shift": torch.as_tensor(network.shift).float(),
        "scale": torch.as_tensor(network.scale / factor).float(),
        "mask": None,
        "action_low": torch.tensor(spec.action_low),
        "action_high": torch.tensor(spec.action_high),
    }


def _evaluate(member: MemberFolder, step: int, env: str) -> dict[str, Any]:
    """Play new episodes of a stored policy, record three of them, and return the statistics."""
    policy = load_policy(member.path)
    seeds = (derive("evaluation", env, number) for number in range(_EPISODES))
    episodes = [play_episode(policy, seed, (env, {})) for seed in seeds]
    episodes.sort(key=lambda each: each.facts.total_return or 0.0)
    for label, share in LABELS.items():
        episode = episodes[int(share * _EPISODES)]
        facts = episode.facts.model_copy(update={"label": label})
        write_trajectory(member.trajectory(step, label), Trajectory(episode.columns, facts))
    returns = np.array([each["reward"].sum() for each in episodes])
    record = evaluation_record(
        step,
        returns,
        episode_length=float(np.mean([len(each) for each in episodes])),
        terminated_share=float(np.mean([each["terminated"].any() for each in episodes])),
        env_return=float(returns.mean()),
        reward_terms={},
    )
    return record.model_dump(mode="json")
