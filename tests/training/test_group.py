"""Several processes that share the environments of a member learn what one process learns."""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib import import_module

import pytest
import torch

from telic.core.events import TrainProgress
from telic.errors import ConfigError, TrainingFailed, WorkerDied
from telic.rewards.probe import probe
from telic.sandbox import host, nursery
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_rows
from telic.training import group as group_module
from telic.training.folder import create
from telic.training.group import SharedMemory, TrainingGroup
from telic.training.job import by_process, member_groups
from telic.training.loop import (
    _own,
    _save,
    collecting,
    restore_state,
    save_state,
)
from telic.training.ppo import LearningResult, PpoLearner
from telic.training.recorder import Progress
from telic.training.run import LocalChannel, execute
from telic.training.setup import Setup, build, load_rewards, make_environments
from tests.training.small import SPEED, small_job
from tests.training.test_population import numbers, weights


@pytest.fixture(autouse=True)
def _impatience(monkeypatch):
    """A fault shall fail a test, not keep it waiting."""
    monkeypatch.setattr(group_module, "_PATIENCE_S", 30.0)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(
        1e-4
    )  # processes are threads here, which wait for each other all the time
    yield
    sys.setswitchinterval(usual)


def together(folder, size, work, **options):
    """Do something as each of several processes at once; they are threads here."""
    SharedMemory.make(folder, size)
    groups = [TrainingGroup(r, size, SharedMemory(folder, r, size, **options)) for r in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, groups))


def test_who_waits_for_one_that_is_gone_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(group_module, "_LOOK_S", 0.01)
    monkeypatch.setattr(group_module, "_PATIENCE_S", 0.05)
    looks = []
    SharedMemory.make(tmp_path, 2)
    alone = TrainingGroup(0, 2, SharedMemory(tmp_path, 0, 2, lambda: looks.append(1)))
    with pytest.raises(TrainingFailed, match="waited"):
        alone.meet()
    assert len(looks) > 1


UPDATES = 3


def learn(setup: Setup) -> list[LearningResult]:
    """Learn from a few batches, each collected one update ago; returns how each went."""
    learner, results = PpoLearner(setup.population), []
    setup.collector.start(stagger=True)
    following = collecting(setup, 0)()
    for iteration in range(UPDATES):
        batch, following = following, collecting(setup, iteration + 1)()
        results.append(learner.learn(batch, iteration))
    return results


def as_one(whole: Setup, parts: list[Setup]) -> None:
    """Let one process meet what several meet: the same starts and noise, the same minibatches."""
    members, size = whole.population.size, len(parts)
    rows = [part.env._seed.view(members, -1) for part in parts]
    whole.env._plant(torch.cat(rows, dim=1).flatten())
    populations = [part.population for part in parts]
    share, piece = parts[0].population.settings.num_envs, populations[0].settings.minibatch_size

    def noise(iteration):
        return torch.cat([each.noise(iteration) for each in populations], dim=2)

    def shuffles(iteration, samples):
        for orders in zip(
            *(each.shuffles(iteration, samples // size) for each in populations), strict=True
        ):
            places = [
                order // share * share * size + rank * share + order % share
                for rank, order in enumerate(orders)
            ]
            cut = [place.view(members, -1, piece) for place in places]
            yield torch.cat(cut, dim=2).flatten(1)

    whole.population.noise, whole.population.shuffles = noise, shuffles


@pytest.mark.parametrize("schedule", ["constant", pytest.param("adaptive", marks=pytest.mark.slow)])
def test_processes_learn_what_one_learns_from_the_same_samples(tmp_path, schedule):
    """Each minibatch has as many samples of every process; that is all the freedom they take."""
    settings = {"horizon": 16, "schedule": schedule, "target_kl": 0.005, "learning_rate": 3e-3}
    job = small_job(reward=SPEED, seeds=(1, 2), settings=settings)

    def made(group=None) -> Setup:
        rewards = load_rewards(job)
        envs = make_environments(job, group)
        probe(rewards[0], envs.probe)
        return build(job, rewards, envs.training, group)

    parts: dict[int, Setup] = {}

    def work(group):
        parts[group.rank] = made(group)
        return learn(parts[group.rank])

    told = together(tmp_path, 2, work)
    first, second = parts[0].population, parts[1].population
    assert torch.equal(first.flat, second.flat), "every process takes the same step"
    assert torch.equal(first.moments.var, second.moments.var)

    whole = made()
    begun = whole.population.flat.clone()
    as_one(whole, [parts[0], parts[1]])
    results = learn(whole)
    one = whole.population
    assert (one.flat - begun).abs().max() > 1e-2
    torch.testing.assert_close(first.flat, one.flat, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(first.learning_rate, one.learning_rate)
    for name in ("count", "mean", "var"):
        own, other = getattr(first.moments, name), getattr(one.moments, name)
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
    for own, other, result in zip(*told, results, strict=True):
        assert all(map(torch.equal, own.stats, other.stats))
        assert torch.equal(own.stats.steps, result.stats.steps)
        for a, b in zip(own.stats, result.stats, strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(
            own.explained_variance, result.explained_variance, atol=1e-4, rtol=1e-3
        )
    if schedule == "constant":  # the limit on KL is that of all samples
        assert any(result.stats.steps.min() < 6 for result in results)


# ------------------------------------------------------------------ whole runs


class WorkerHere:
    """A worker that is a thread of this process; one may end after so many batches."""

    ends_after: int | None = None
    """batches after which the second one does"""

    def __init__(self, entry, payload, **_) -> None:
        self._entry, self._payload = import_module(entry), payload

    def run(self, on_message, should_stop, should_wait):
        left = self.ends_after

        class Mortal(LocalChannel):
            def heartbeat(self, seconds: float, doing: str = "") -> None:
                nonlocal left
                should_stop()  # as a host does all the time
                if left is not None and doing == "training along":
                    left -= 1
                    if left < 0:
                        raise WorkerDied("The worker was ended by SIGKILL.")

        channel = Mortal(on_message, should_stop)
        prepared = self._entry.prepare(self._payload, channel)
        return self._entry.run(prepared, self._payload, channel)


@pytest.fixture
def workers(monkeypatch) -> type[WorkerHere]:
    monkeypatch.setattr(host, "Worker", WorkerHere)
    monkeypatch.setattr(nursery, "prewarmed", lambda modules: nullcontext())
    monkeypatch.setattr(group_module, "_LOOK_S", 0.02)
    monkeypatch.setattr(WorkerHere, "ends_after", None)
    return WorkerHere


def shared_job(**changes):
    options = {"env": "InvertedPendulum-v5", "steps": 768, "evaluations": 1, "save_every_s": 1e-9}
    return small_job(seeds=(1,), devices=("cpu", "cpu"), **{**options, **changes})


@pytest.mark.slow
def test_a_run_whose_process_dies_says_so_and_goes_on_to_the_same_end(tmp_path, workers):
    job, heard = shared_job(), []
    whole = RunFolder(execute(job, tmp_path / "whole", on_event=heard.append).path)
    kinds = [type(event).__name__ for event in heard]
    assert kinds.count("EvalDone") == 1 and kinds.count("RunSummary") == 1, "one process tells"
    (row, *_) = read_rows(whole.members()[0].scalars, "train")
    assert row["global_step"] == job.settings.batch_size
    assert read_json(whole.members()[0].summary)["total_episodes"] > 8

    workers.ends_after = 1
    with pytest.raises(WorkerDied, match=r"Process 2 of 2 .* ended by SIGKILL") as death:
        execute(job, tmp_path / "part", name="run")
    assert "resumes from the last save" in (death.value.hint or "")
    run = RunFolder(tmp_path / "part" / "run")
    assert run.state.exists() and not run.summary.exists()
    workers.ends_after = None
    again = execute(job, tmp_path / "part", name="run")
    assert again.status == "completed"
    (one,), (other,) = whole.members(), run.members()
    assert torch.equal(weights(one), weights(other)) and numbers(one) == numbers(other)


def test_states_that_belong_together_are_kept_whoever_dies_while_saving(tmp_path):
    """The first process names the state; others keep theirs of before until it has done so."""
    job = shared_job(steps=10_000)

    def kept(group):
        setup = build(job, load_rewards(job), make_environments(job, group).training, group)
        setup.collector.start(stagger=False)
        path = tmp_path / "state.pt"
        for iteration in (3, 5, 7):
            setup.population.flat.fill_(iteration)
            save_state(path, setup, Progress(iteration, 0.0, None))
        if not group.leads:  # dies while it writes the next one, or just after
            setup.population.flat.fill_(9)
            _save(_own(path, group, 9), setup, Progress(9, 0.0, None))
        group.meet()
        progress = restore_state(path, setup)
        assert progress is not None and progress.iteration == 7
        assert setup.population.flat.eq(7).all()
        return None

    together(tmp_path, 2, kept)
    assert [path.name for path in sorted(tmp_path.glob("*.pt"))] == [
        *("state-1-000000007.pt", "state.pt"),
    ]


def test_devices_are_for_members_first_and_then_for_their_environments(tmp_path):
    def spread(seeds, devices, **changes):
        job = small_job(seeds=tuple(range(seeds)), devices=("cpu",) * devices, **changes)
        run = RunFolder(tmp_path / f"{seeds} {devices}")
        create(job, run)
        cells = member_groups(job, run)
        return [(len(cell.job.members), len(by_process(cell.job))) for cell in cells]

    assert spread(1, 2) == [(1, 2)]
    assert spread(2, 4) == [(1, 2), (1, 2)]
    assert spread(3, 4) == [(1, 1), (1, 2), (1, 1)]
    assert spread(4, 2) == [(2, 1), (2, 1)]
    assert small_job(devices=("cpu",)).key == small_job().key
    assert small_job(devices=("cpu", "cpu")).key != small_job().key, "it is another training"
    with pytest.raises(ConfigError, match=r"num_envs=8 .* shared by 3 processes") as refused:
        small_job(devices=("cpu",) * 3)
    hint = (refused.value.hint or "").replace(",", " ").split()
    advice = {
        name: int(value) for name, _, value in (word.partition("=") for word in hint) if value
    }
    assert small_job(devices=("cpu",) * 3, settings=advice).settings.num_envs == 6


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_confined_process_that_is_killed_ends_all_and_the_run_goes_on(
    tmp_path, monkeypatch, victim
):
    job = shared_job(env="HalfCheetah-v5", steps=8_192, reward=SPEED)
    whole = RunFolder(execute(job, tmp_path / "whole").path)
    started: list[host.Worker] = []

    class Noted(host.Worker):
        def __init__(self, *given, **options) -> None:
            super().__init__(*given, **options)
            started.append(self)

    def kill_one(event) -> None:
        if isinstance(event, TrainProgress) and event.step > 1_000:
            os.kill(started[victim]._process.pid, signal.SIGKILL)

    monkeypatch.setattr(host, "Worker", Noted)
    with pytest.raises(WorkerDied, match=rf"Process {victim + 1} of 2 .*SIGKILL"):
        execute(job, tmp_path / "part", name="run", on_event=kill_one)
    assert all(worker._process.wait(20.0) is not None for worker in started)
    again = execute(job, tmp_path / "part", name="run")
    (one,), (other,) = whole.members(), RunFolder(again.path).members()
    assert torch.equal(weights(one), weights(other)) and numbers(one) == numbers(other)
