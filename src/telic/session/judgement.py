"""Judge trained policies on fresh episodes, by code, and by eye where a model can see; and decide.

Episodes begin where training and its own evaluations never did. A policy that sees its reward's
memory needs the reward beside it. That is foreign code, so such episodes are played in a confined
worker, which does not judge them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from telic.authors.candidate import MemberScore, RewardCandidate, Selection, SessionIteration
from telic.core.seeds import derive
from telic.envs import make
from telic.envs.vector import VecEnv
from telic.errors import TelicError
from telic.judges.code import judge_files, judge_too
from telic.judges.verdict import Verdict, together, unknown
from telic.rewards.load import load_reward
from telic.rewards.recording import collect
from telic.rewards.reward import Reward
from telic.session.budget import iteration_steps, last_step
from telic.session.control import SessionWork
from telic.session.records import SessionConfig
from telic.storage.files import read_json
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.training.policy import Policy, load_policy
from telic.training.run import Run

Purpose = Literal["judge", "trial"]
JUDGE: Purpose = "judge"
TRIAL: Purpose = "trial"
"""what episodes are for: to decide whether a policy passes, or which variant is trained on"""
_RECORDED = ("qpos", "qvel", "xpos", "xquat", "cvel", "cfrc_ext", "subtree_com")
_UNLIMITED = 1000
_PLAYING_S = 300.0


class TrainedCandidate(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    files = work.folder.iteration(number)
    scores, seconds = judge_policies(work, number, candidate, run, config.episodes, JUDGE)
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    began = time.monotonic()
    scores = [_watched(work, files, score) for score in scores]
    seconds += time.monotonic() - began
    training_s = run.summary["training_time_s"]
    iteration = decide(config, number, candidate, scores, training_s, seconds)
    return _with_trials(iteration, trained.selection) if trained.selection else iteration


def decide(
    config: SessionConfig,
    number: int,
    candidate: RewardCandidate,
    scores: list[MemberScore],
    training_s: float,
    judging_s: float,
) -> SessionIteration:
    """Return what a candidate's policies prove together."""
    proving = sum(score.low >= config.threshold for score in scores)
    best = max(scores, key=lambda score: score.low)
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=proving >= config.needed,
        score=mean_score(scores),
        variant=best.variant,
        best=best.member,
        tags=best.judgement.tags,
        members=tuple(scores),
        steps=sum(score.step for score in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def mean_score(scores: Sequence[MemberScore]) -> float | None:
    """Return the mean score of policies; None when none could be judged."""
    values = [score.judgement.score for score in scores if score.judgement.score is not None]
    return sum(values) / len(values) if values else None


def untrained(
    work: SessionWork, number: int, candidate: RewardCandidate, error: TelicError, seconds: float
) -> SessionIteration:
    """Return the iteration of a candidate whose training failed: nothing to judge, and why."""
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=False,
        score=None,
        variant=0,
        best=None,
        tags=(),
        members=(),
        steps=iteration_steps(work.folder.iteration(number)),
        training_s=seconds,
        judging_s=0.0,
        failure=str(error),
    )


def _with_trials(iteration: SessionIteration, selection: Selection) -> SessionIteration:
    """Return the iteration with what the short trials took and showed."""
    return iteration.model_copy(
        update={
            "trials": selection.members,
            "steps": iteration.steps + sum(score.step for score in selection.members),
            "training_s": iteration.training_s + selection.training_s,
            "judging_s": iteration.judging_s + selection.judging_s,
        }
    )


def judge_policies(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    run: Run,
    episodes: int,
    purpose: Purpose,
) -> tuple[list[MemberScore], float]:
    """Play fresh episodes with every policy of a run, let the judge's code score them.

    Returns the scores and the seconds it took. Each purpose has starts and a folder of its own.
    """
    began = time.monotonic()
    files, members = work.folder.iteration(number), RunFolder(run.path).members()
    folder = files.judged_dir if purpose == JUDGE else files.path / "trial_judged"
    env, played = work.config.env, dict[str, list[Path]]()
    for member in members:
        work.control.check()
        if policy := newest_policy(member):
            own = [folder / member.name / f"episode_{index:02d}.npz" for index in range(episodes)]
            reward = member.reward_code.read_text()
            played[member.name] = play(policy, reward, env, candidate.env_args, own, purpose)
    paths = [path for own in played.values() for path in own]
    judged = judge_files(work.folder.judge.read_text(), paths, folder)
    if work.config.judge is not None:
        judged = judge_too(work.config.judge, work.config.intent, paths, judged)
    verdicts = dict(zip(paths, judged, strict=True))
    scores = [
        _score(member, [verdicts[path] for path in played[member.name]])
        if member.name in played
        else _score(member, [_broke_off(member)] * episodes)
        for member in members
    ]
    return scores, time.monotonic() - began


def newest_policy(member: MemberFolder) -> Path | None:
    """Return the latest policy; None when training broke off before there was one."""
    checkpoints = member.checkpoints()
    return checkpoints[-1].path if checkpoints else None


def _score(member: MemberFolder, verdicts: list[Verdict]) -> MemberScore:
    config, _, seed = member.name.rpartition("_seed_")
    digits = config.removeprefix("reward")
    variant = int(digits) - 1 if digits.isdigit() else 0
    checkpoints = member.checkpoints()
    step = checkpoints[-1].step if checkpoints else last_step(member.scalars)
    return MemberScore(
        member=member.name, variant=variant, seed=int(seed), step=step, judgement=together(verdicts)
    )


def _broke_off(member: MemberFolder) -> Verdict:
    """Return the verdict on a policy that is none: training ended before one was saved."""
    reasons: list[str] = []
    if member.summary.exists():
        reasons = [finding["message"] for finding in read_json(member.summary)["findings"]]
    return unknown("code", f"there is no policy. {reasons[-1] if reasons else ''}")


def _watched(work: SessionWork, files: IterationFolder, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    watched = work.author.watch(paths, verdicts)
    return score.model_copy(update={"judgement": together(watched)})


# --------------------------------------------------------------------------------------- episodes


def play(
    checkpoint: Path,
    reward: str,
    env_id: str,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    purpose: Purpose = JUDGE,
) -> list[Path]:
    """Play one fresh episode per path with a policy, and write them.

    Args:
        checkpoint: the policy's file.
        reward: text of the reward it was trained with, run only if the policy sees its memory.
        env_id: environment to play in.
        env_args: its arguments.
        paths: where the episodes go, all in one folder.
        purpose: what they are for; each purpose has starts of its own.
    """
    policy = load_policy(checkpoint)
    if not policy.memory_size:
        return record(policy, env_id, env_args, paths, purpose=purpose)
    from telic.sandbox.host import run_worker

    folder = paths[0].absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    payload = {
        "policy": str(checkpoint.absolute()),
        "reward": reward,
        "env": env_id,
        "env_args": env_args,
        "paths": [str(path.absolute()) for path in paths],
        "purpose": purpose,
    }
    readable = [checkpoint.absolute().parent]
    run_worker("telic.session.judgement", payload, writable=[folder], readable=readable)
    return list(paths)


def prepare(payload: dict[str, Any], channel: Any) -> None:
    """Nothing to open before the worker confines itself."""


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Play in the confined worker."""
    channel.heartbeat(_PLAYING_S, "playing episodes")
    reward = load_reward(payload["reward"], label="reward_fn.py")
    tried = make(payload["env"], num_envs=8, seed=0, **payload["env_args"])
    reward.decide(collect(tried, 64))
    tried.close()
    paths = [Path(path) for path in payload["paths"]]
    policy = load_policy(Path(payload["policy"]))
    record(policy, payload["env"], payload["env_args"], paths, reward, payload["purpose"])
    return {}


def record(
    policy: Policy,
    env_id: str,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    reward: Reward | None = None,
    purpose: Purpose = JUDGE,
) -> list[Path]:
    """Play one episode per path with the most likely actions, and write them."""
    seed = derive(purpose, env_id)
    env = make(env_id, num_envs=len(paths), seed=seed, **env_args)
    spec = env.spec
    columns, lengths = _tape(policy, env, reward)
    env.close()
    for index, path in enumerate(paths):
        facts = TrajectoryFacts(
            env_id=env_id,
            env_kwargs=env_args,
            dt_s=spec.dt_s,
            seed=seed,
            label=f"judge{index}",
            obs_names=spec.obs_names,
            action_names=spec.action_names,
            body_names=spec.body_names,
            joint_names=spec.joint_names,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = {
            name: np.ascontiguousarray(value[: lengths[index], index])
            for name, value in columns.items()
        }
        write_trajectory(path, Trajectory(cut, facts))
    return list(paths)


def _tape(
    policy: Policy, env: VecEnv, reward: Reward | None
) -> tuple[dict[str, np.ndarray[Any, Any]], list[int]]:
    """Return every step of all environments at once, and the length of each one's episode."""
    fields = [name for name in _RECORDED if name in env.spec.info_keys]
    obs = env.reset()
    live = torch.ones(env.num_envs, dtype=torch.bool)
    lengths = torch.zeros(env.num_envs, dtype=torch.long)
    tape: dict[str, list[torch.Tensor]] = {}
    if reward is not None:
        reward.start(env.num_envs, "cpu")
    for _ in range(env.max_episode_steps or _UNLIMITED):
        seen = (obs,) if reward is None else (obs, reward.memory())
        action = torch.as_tensor(policy(*seen))
        step = env.step(action)
        if reward is not None:
            reward(obs, action, step.final_obs, step.info, step.reward)
            reward.reset(step.terminated | step.truncated)
        row = {
            "obs": obs,
            "action": action,
            "next_obs": step.final_obs,
            "env_reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            **{name: step.info[name] for name in fields},
        }
        for name, value in row.items():
            tape.setdefault(name, []).append(value)
        lengths += live
        live = live & ~(step.terminated | step.truncated)
        obs = step.obs
        if not live.any():
            break
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    return columns, [int(length) for length in lengths]
