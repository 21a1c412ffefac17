"""Recorded transitions, and a plain reading of the per-step contract to compare with."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.envs.vector import Info
from telic.rewards.contract import RewardFunction
from telic.rewards.recording import TransitionRecording, collect

REFERENCE = Path(__file__).parent / "reference_style"
WITH_MEMORY = Path(__file__).parent / "backflip_memory.py"
RUN_FORWARD = Path(__file__).parent / "run_forward.py"


@pytest.fixture(scope="session")
def recording():
    """96 transitions of HalfCheetah; some episodes end early in single environments."""
    torch.set_num_threads(1)
    env = make("HalfCheetah-v5", num_envs=8, seed=0)
    whole = collect(env, transitions=96)
    env.close()
    return with_ends(whole, {(2, 1), (3, 6), (7, 1)})


@pytest.fixture(scope="session")
def small(recording):
    """The first four steps of it, for tests of messages."""
    return TransitionRecording(recording.transitions[:4])


def with_ends(recording, places):
    """Let single environments end at (step, row): the next step is then an episode's first."""
    changed = []
    for time, moment in enumerate(recording.transitions):
        ended = moment.ended.clone()
        values = {name: moment.info.exact(name) for name in moment.info}
        begins = values["episode_start"].clone()
        for step, row in places:
            ended[row] |= step == time
            begins[row] |= step + 1 == time
        values["episode_start"] = begins
        info = Info.of(values, moment.info.schema)
        changed.append(moment._replace(ended=ended, info=info))
    return TransitionRecording(changed)


def plain_evaluation(text, recording):
    """Reward row by row in plain Python, one fresh module per environment and episode.

    Written without the code under test: this is what the per-step contract means.
    """
    # What is not offered elsewhere (an import of the base class) is taken out as text.
    text = "\n".join(
        line for line in text.splitlines() if not line.startswith("from prompt2policy")
    )

    def build():
        scope = {"np": np, "numpy": np, "RewardFunction": RewardFunction, "__name__": "plain"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LaTeX in ordinary strings
            exec(compile(text, "plain", "exec"), scope)
        kinds = [v for v in scope.values() if isinstance(v, type) and v is not RewardFunction]
        kinds = [v for v in kinds if hasattr(v, "compute")]
        return kinds[-1]().compute if kinds else scope["reward_fn"]

    functions = [build() for _ in range(recording.num_envs)]
    totals, terms = [], []
    for moment in recording.transitions:
        for row in range(recording.num_envs):
            info = plain_info(moment.info, row)
            given = [
                part[row].double().numpy() for part in (moment.obs, moment.action, moment.next_obs)
            ]
            result = functions[row](*given, info)
            totals.append(float(result[0]))
            terms.append({name: float(value) for name, value in result[1].items()})
            if moment.ended[row]:
                functions[row] = build()
    names = list(dict.fromkeys(name for each in terms for name in each))
    shape = (len(recording.transitions), recording.num_envs)
    columns = {name: np.reshape([each.get(name, 0.0) for each in terms], shape) for name in names}
    return np.reshape(totals, shape), columns


def plain_info(info, row):
    values = {}
    for name in (*info, "_episode_start"):
        value = info.exact(name)[row].numpy()
        values[name] = value.copy() if value.ndim else value.item()
    return values


def run(reward, recording):
    """Reward a whole recording as the trainer would; (T, N) totals and terms."""
    reward.start(recording.num_envs, "cpu")
    totals, terms = [], []
    for moment in recording.transitions:
        step = reward(moment.obs, moment.action, moment.next_obs, moment.info)
        assert tuple(step.terms) == reward.term_names
        totals.append(step.total)
        terms.append(step.terms)
        reward.reset(moment.ended)
    columns = {name: torch.stack([each[name] for each in terms]) for name in reward.term_names}
    return torch.stack(totals).numpy(), {name: each.numpy() for name, each in columns.items()}
