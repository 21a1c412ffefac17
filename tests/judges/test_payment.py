"""Recorded episodes are paid by rewards that they were not played with."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.judges import payment
from telic.judges.payment import PaidOrder, pay_for, pay_here
from telic.judges.recorder import PlayOrder, play
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.sandbox import host
from telic.storage.trajectories import Trajectory, read_trajectory, write_trajectory
from tests.training.small import SPEED

ENV, ARGS = "Hopper-v5", {"max_episode_steps": 40}
COUNT = 3


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    """Return an order of episodes of different lengths."""
    folder = tmp_path_factory.mktemp("played")
    paths = tuple(str(folder / f"episode_{index:02d}.npz") for index in range(COUNT))

    def policy(obs):
        return torch.sin(7.0 * obs[:, :3]) * torch.tensor([[0.2], [0.9], [-1.0]])

    play(policy, PlayOrder(policy="", env=ENV, env_args=ARGS, seed=5, paths=paths))
    return PaidOrder(env=ENV, env_args=ARGS, paths=paths)


def paying():
    reward = load_reward(SPEED)
    env = make(ENV, num_envs=4)
    reward.decide(collect(env, 16))
    env.close()
    return reward


def test_an_episode_is_paid_as_if_the_reward_had_been_there(episodes):
    pays = pay_here(paying(), episodes)
    for path, paid in zip(episodes.paths, pays, strict=True):
        tape = read_trajectory(Path(path))
        cost = -0.1 * float(np.square(tape["action"]).sum())
        way = float(tape["qpos"][-1, 0] - 0.0)
        assert paid.terms["control"] == pytest.approx(cost, rel=1e-4)
        assert paid.terms["speed"] * 0.008 == pytest.approx(way, abs=0.02)  # steps of 8 ms
        assert paid.total == pytest.approx(sum(paid.terms.values()), rel=1e-4)
    assert len({paid.total for paid in pays}) == COUNT


def test_an_episode_that_does_not_come_out_as_it_was_recorded_is_left_out(episodes, tmp_path):
    paths = [str(tmp_path / f"{index}.npz") for index in range(COUNT)]
    for index, path in enumerate(episodes.paths):
        tape = read_trajectory(Path(path))
        if index == 1:
            columns = {**tape.columns, "action": -tape["action"]}
            tape = Trajectory(columns, tape.facts)
        write_trajectory(tmp_path / f"{index}.npz", tape)
    pays = pay_here(paying(), episodes.model_copy(update={"paths": tuple(paths)}))
    assert [paid is None for paid in pays] == [False, True, False]
    only = episodes.model_copy(update={"paths": episodes.paths[1:]})  # other starts than its own
    assert pay_here(paying(), only) == [None, None]


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"total": "1", "terms": {}},
        {"total": 1.0, "terms": {"a": float("nan")}},
        {"total": float("inf"), "terms": {}},
        {"total": True, "terms": {}},
        {"total": 1.0},
    ],
    ids=repr,
)
def test_numbers_of_a_confined_process_are_believed_if_they_are_some(told):
    assert payment._checked(told) is None


def test_the_worker_pays_every_order(episodes, tmp_path, monkeypatch):
    def here(entry, payload, **_):
        channel = SimpleNamespace(heartbeat=lambda *_: None)
        return payment.run(None, payload, channel)

    monkeypatch.setattr(host, "run_worker", here)
    both = pay_for(SPEED, [episodes, episodes], tmp_path)
    assert both[0] == both[1] and len(both[0]) == COUNT and None not in both[0]
