"""A run may die at any line, and the same command resumes it exactly."""

import multiprocessing
import os
import random
import signal
import time

import pytest
import torch

from telic.storage.layout import RunFolder, list_runs
from telic.training.folder import status_of
from telic.training.run import execute
from tests.training.small import SPEED, small_job, train_here
from tests.training.test_population import numbers, weights

MEMORY = """
from telic import RewardFunction

class Distance(RewardFunction):
    memory = {"traveled": 0.0}

    def compute(self, obs, action, next_obs, info):
        self.memory["traveled"] = self.memory["traveled"] + info["x_velocity"] * info["dt"]
        terms = {"distance": self.memory["traveled"]}
        return terms["distance"], terms
"""


def long_job():
    """Two rewards (one with memory), two seeds, episodes that end at different times."""
    return small_job(
        "Hopper-v5",
        steps=20_480,
        seeds=(1, 2),
        reward=[SPEED, MEMORY],
        env_args={},
        evaluations=3,
    )


def _train(folder) -> None:
    torch.set_num_threads(1)
    execute(long_job(), folder, confined=False)


def rows_written(folder) -> int:
    """Count the metric rows of the first member so far."""
    files = sorted(folder.glob("*/*/metrics/scalars.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_kills_at_random_moments_change_nothing(tmp_path, kills):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["telic.training._worker", "telic.training.run"])

    def start(folder):
        process = context.Process(target=_train, args=(folder,))
        process.start()
        return process

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    uninterrupted = start(whole)
    chance = random.Random(0)
    for _ in range(kills):
        process = start(broken)
        # From the very start of a session to a few updates on, at any point within an update.
        goal = rows_written(broken) + chance.randint(0, 5)
        while process.is_alive() and rows_written(broken) < goal:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.5))
        assert process.is_alive(), "the run was over before it could be killed so often"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    for process in (uninterrupted, start(broken)):
        process.join()
        assert process.exitcode == 0

    (first,) = list_runs(whole)
    (second,) = list_runs(broken)
    assert status_of(second) == "completed"
    assert len(second.members()) == 4
    for one, other in zip(first.members(), second.members(), strict=True):
        assert torch.equal(weights(one), weights(other))
        assert numbers(one) == numbers(other)
        assert len(one.trajectories()) == len(other.trajectories()) == 9


def test_a_stopped_run_ends_with_the_numbers_of_an_uninterrupted_one(tmp_path):
    job = small_job(seeds=(1, 2))
    whole = train_here(job, tmp_path / "whole")
    calls = iter(range(100))
    run = execute(job, tmp_path / "parts", confined=False, should_stop=lambda: next(calls) >= 2)
    assert run.status == "stopped"
    resumed = train_here(job, tmp_path / "parts")
    assert resumed.path == run.path
    for one, other in zip(whole.members(), resumed.members(), strict=True):
        assert torch.equal(weights(one), weights(other))
        assert numbers(one) == numbers(other)


@pytest.mark.slow
def test_a_finished_job_starts_a_new_run_and_another_job_is_not_confused_with_it(tmp_path):
    first = train_here(small_job(steps=256), tmp_path)
    second = train_here(small_job(steps=256), tmp_path)
    third = train_here(small_job(steps=256, seeds=(5,)), tmp_path)
    assert len({first.path, second.path, third.path}) == 3


@pytest.mark.slow
def test_fresh_starts_from_scratch_despite_a_resumable_run(tmp_path):
    job = small_job()
    stopped = execute(job, tmp_path, confined=False, should_stop=lambda: True)
    fresh = train_here(job, tmp_path, fresh=True)
    assert fresh.path != stopped.path
    assert status_of(RunFolder(stopped.path)) == "stopped"


def test_locked_run_is_not_touched(tmp_path):
    from telic.storage.locks import RunLock

    job = small_job(steps=256)
    stopped = RunFolder(execute(job, tmp_path, confined=False, should_stop=lambda: True).path)
    with RunLock(stopped.lock, stopped.name):
        other = train_here(job, tmp_path)
    assert other.path != stopped.path
