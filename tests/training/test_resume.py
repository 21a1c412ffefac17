"""The same request resumes a run exactly. Kills: tests/cli/test_kills.py."""

import pytest
import torch

from telic.storage.layout import RunFolder
from telic.training.folder import status_of
from telic.training.run import execute
from tests.training.small import small_job, train_here
from tests.training.test_population import numbers, weights


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


def test_locked_run_is_not_touched(tmp_path):
    from telic.storage.locks import RunLock

    job = small_job(steps=256)
    stopped = RunFolder(execute(job, tmp_path, confined=False, should_stop=lambda: True).path)
    with RunLock(stopped.lock, stopped.name):
        other = train_here(job, tmp_path)
    assert other.path != stopped.path


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
