"""Fresh episodes are played with the policy as it was trained, its reward's memory included."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from telic.authors.candidate import RewardCandidate
from telic.authors.request import SessionConfig
from telic.errors import ResourceError, RewardError, TelicError, UsageError, WorkerDied
from telic.judges import recorder
from telic.judges.criteria import score
from telic.judges.recorder import RecordedFile, RolloutSpec, is_unchanged, record, record_each
from telic.judges.verdict import judged
from telic.session import _judgment as judgment
from telic.session._judgment import newest, of_recording, play_out
from telic.storage.files import read_record, write_text
from telic.storage.layout import RunFolder
from telic.storage.trajectories import read_trajectory
from telic.training.plan import plan
from telic.training.policy import load_policy
from telic.training.run import execute
from tests.judges.playing import record as record_here
from tests.session.sessions import add_iteration, make_session

PHASES = """
import torch
from telic import RewardFunction, quantities

class Phases(RewardFunction):
    memory = {"late": 0.0}
    memory_to = "actor"

    def compute(self, obs, action, next_obs, info):
        self.memory["late"] = self.memory["late"] + 1.0
        terms = {"speed": quantities.forward_velocity(info)}
        return sum(terms.values()), terms
"""
ARGS = {"max_episode_steps": 10}


def order_of(policy, paths):
    return RolloutSpec(
        policy=str(policy),
        env="HalfCheetah-v5",
        env_args=ARGS,
        seed=0,
        paths=tuple(map(str, paths)),
        reward=PHASES,
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    small = {"num_envs": 4, "horizon": 8, "minibatch_size": 32, "hidden": (8,), "overlap": False}
    job = plan(
        "HalfCheetah-v5",
        reward=[PHASES],
        steps=32,
        settings=small,
        evaluations=1,
        eval_episodes=2,
        env_args=ARGS,
        threads=1,
    )
    run = execute(job, tmp_path_factory.mktemp("runs"), name="run")
    return RunFolder(run.path).members()[0].checkpoints()[-1].path


def test_policy_that_observes_reward_memory_is_played_with_its_reward(checkpoint, tmp_path):
    paths = [tmp_path / "own" / f"{index}.npz" for index in range(2)]
    order = order_of(checkpoint, paths)
    files = record(order, tmp_path)
    assert [file.path for file in files] == paths and all(map(is_unchanged, files))
    policy, episode = load_policy(checkpoint), read_trajectory(paths[0])
    assert len(episode) == 10 and "subtree_com" in episode
    # It is judged by what it does: the trained reward is not there, the task's own by its name.
    assert "reward" not in episode and "env_reward" in episode
    for step in (0, 7):  # the memory of each moment is what the reward had counted by then
        action = policy(episode["obs"][step], [float(step)])
        assert action == pytest.approx(episode["action"][step], abs=1e-5)
    assert policy(episode["obs"][7], [0.0]) != pytest.approx(episode["action"][7], abs=1e-5)


def test_every_session_iteration_purpose_and_look_has_starts_of_its_own(monkeypatch, tmp_path):
    seeds = []

    def noted(orders, folder):
        seeds.append({order.seed for order in orders.values()})
        return {}, {}

    monkeypatch.setattr(judgment, "record_each", noted)
    monkeypatch.setattr(judgment, "judge_files", lambda *_: [])
    candidate = RewardCandidate(reward=PHASES, env_args=ARGS, steps=1)

    def seed(name, number, purpose, moment=(), **config):
        folder = make_session(tmp_path / str(len(seeds)), name, **config)
        add_iteration(folder, number)
        work = SimpleNamespace(config=read_record(folder.config, SessionConfig), folder=folder)
        write_text(folder.iteration(number).run.members()[0].reward_code, PHASES)
        policies = newest(candidate, folder.iteration(number).run)
        play_out(work, number, policies, purpose, 4, moment)
        return seeds[-1].pop()

    once = [
        seed("session_a", 1, "confirm"),
        seed("session_b", 1, "confirm"),
        seed("session_a", 2, "confirm"),
        seed("session_a", 1, "choose"),
        seed("session_a", 1, "trial"),
        seed("session_a", 1, "confirm", (1, 0)),
        seed("session_a", 1, "confirm", (1, 4)),
    ]
    assert len(set(once)) == len(once)
    assert seed("session_a", 1, "confirm") == once[0]  # a rerun is the same
    asked = [seed(name, 1, "confirm", start_seed=3) for name in ("session_a", "session_b")]
    assert asked[0] == asked[1] != once[0]


def test_a_verdict_on_a_changed_recording_is_unknown(tmp_path):
    paths = [tmp_path / f"{index}.npz" for index in range(2)]
    record_here(lambda obs: torch.zeros(len(obs), 1), "InvertedPendulum-v5", {}, paths)
    files = [RecordedFile(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
    paths[1].write_bytes(paths[0].read_bytes())
    passing = judged([score("x", 1.0, zero=0.0, goal=1.0)], 1.0)
    kept, changed = (of_recording(file, passing) for file in files)
    assert (kept.score, kept.recording) == (1.0, files[0].sha256)
    assert changed.score is None and "was modified after it was recorded" in (changed.reason or "")


@pytest.mark.parametrize("fault", [TelicError("torn"), WorkerDied("torn"), RewardError("torn")])
def test_one_that_cannot_be_recorded_costs_the_others_no_evidence(tmp_path, monkeypatch, fault):
    tries = []

    def record_well(order, folder, log):
        tries.append(Path(order.policy).name)
        assert log.parent == folder
        if "torn" in order.policy:
            raise fault
        return [RecordedFile(Path(path), "0") for path in order.paths]

    monkeypatch.setattr(recorder, "record", record_well)
    orders = {
        name: order_of(tmp_path / name, [tmp_path / f"{name}.npz"])
        for name in ("whole", "torn", "other")
    }
    recorded = record_each(orders, tmp_path)
    assert list(recorded.files) == ["whole", "other"] and recorded.why == {"torn": "torn"}
    assert recorded.files["other"][0].path == tmp_path / "other.npz"
    assert sorted(tries) == ["other", "torn", "torn", "whole"]
    assert record_each({}, tmp_path) == ({}, {})
    fault = ResourceError("the disk is full")
    with pytest.raises(ResourceError):
        record_each(orders, tmp_path)


def test_without_its_reward_it_is_refused(checkpoint, tmp_path):
    order = order_of(checkpoint, [tmp_path / "x.npz"])
    with pytest.raises(UsageError, match="its reward, but the reward is missing"):
        record(order.model_copy(update={"reward": None}), tmp_path)
