"""THE MAIN FLOW of training: collect, learn, record, evaluate, save.

On CPUs the next batch is collected while the learner works on this one, with the policies as
they were before that update; `ppo.make_samples` corrects for the difference. So physics and
learning keep all cores busy, in an order that does not depend on timing: the same seed gives
the same numbers, and a resumed run the numbers of an uninterrupted one. On a GPU, collecting and
learning are CUDA graphs that take turns, and all writing is done while the next batch is collected.
"""

from __future__ import annotations

import pickle
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from telic.core.tensors import flags, integers
from telic.errors import TrainingFailed
from telic.storage.files import replacing
from telic.training.evaluate import Evaluation
from telic.training.population import Actor
from telic.training.recorder import Progress, Recorder
from telic.training.rollout import Batch
from telic.training.setup import Setup

_FORMAT = 2
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, EOFError, OSError, OverflowError),
    *(RuntimeError, MemoryError, AssertionError, pickle.UnpicklingError, struct.error),
)
"""what reading a file of torch that is damaged raises; RuntimeError most of the time"""


class PolicyEvaluator(Protocol):
    """Measures policies on episodes of its own."""

    def evaluate(self, actor: Actor, global_step: int) -> Evaluation:
        """Return how good every member is after so many steps."""
        ...


class Monitor(NamedTuple):
    """The evaluator of policies, and the recorder of progress."""

    evaluator: PolicyEvaluator
    recorder: Recorder


def run_training(
    setup: Setup,
    monitor: Monitor,
    state: Path,
    should_stop: Callable[[], bool],
) -> bool:
    """Train to the end or until asked to stop; returns whether it got to the end.

    `state` is the file of the resumable state, `should_stop` is asked after every batch.
    """
    progress = restore_state(state, setup)
    if progress is None:
        setup.collector.start(stagger=setup.job.settings.stagger)
        progress = Progress(0, 0.0, None)
    monitor.recorder.begin(progress)
    training = TrainingLoop(setup, monitor, state, should_stop, progress)
    batch = progress.pending or training.collect()
    schedule = collect_ahead if setup.job.settings.overlap else take_turns
    is_done = schedule(training, batch)
    if is_done:
        for file in state.parent.glob("replay-*.pt"):  # large, and no resume needs it now
            file.unlink()
    return is_done


def collect_ahead(training: TrainingLoop, batch: Batch) -> bool:
    """The schedule on CPUs: a thread collects the next batch while we learn from this one."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="collect") as ahead:
        while not training.is_done:
            following = None
            if not training.is_last:
                following = ahead.submit(collecting(training.setup, training.iteration + 1))
            result = training.learn(batch)
            training.record(result)
            if following is None:
                return True
            batch = following.result()
            if result.saves:
                training.save(pending=batch)
            if result.stops:
                return False
    return True


def take_turns(training: TrainingLoop, batch: Batch) -> bool:
    """The schedule of a GPU, which collects the next batch while we write down how it went."""
    while not training.is_done:
        result = training.learn(batch)
        is_ahead = not (training.is_done or result.saves)
        if is_ahead:
            batch = training.collect()
        training.record(result)
        if training.is_done:
            return True
        if result.saves:
            training.save(pending=None)
        if result.stops:
            return False
        if not is_ahead:
            batch = training.collect()
    return True


def collecting(setup: Setup, iteration: int) -> Callable[[], Batch]:
    """Return what collects the batch of an iteration with the policies as they are now."""
    population = setup.population
    # Everything that another thread reads is copied here, before learning continues.
    copied = population.actor(), population.noise(iteration), population.alive.clone()
    return partial(setup.collector.collect, *copied)


class IterationResult(NamedTuple):
    """Numbers of an iteration, and whether to save or stop."""

    numbers: dict[str, list[float]]
    """by name, per member"""
    ended: list[int]
    """episodes that ended, per member"""
    learning_s: float
    saves: bool
    stops: bool


class TrainingLoop:
    """A training under way: its parts, and how far it is."""

    def __init__(
        self,
        setup: Setup,
        monitor: Monitor,
        state: Path,
        should_stop: Callable[[], bool],
        progress: Progress,
    ) -> None:
        self.setup = setup
        self.monitor = monitor
        self.state = state
        self.should_stop = should_stop
        self.iteration = progress.iteration
        """batches learned from"""
        self._evaluate_after = set(setup.job.evaluation_iterations())
        self._since = time.perf_counter() - progress.seconds

    @property
    def is_last(self) -> bool:
        """True if the next batch is the last one."""
        return self.iteration + 1 == self.setup.job.iterations

    @property
    def is_done(self) -> bool:
        """True after the last batch."""
        return self.iteration >= self.setup.job.iterations

    def collect(self) -> Batch:
        """Collect the next batch to learn from."""
        return collecting(self.setup, self.iteration)()

    def learn(self, batch: Batch) -> IterationResult:
        """Learn from a batch; members with NaN or infinity are retired."""
        setup, recorder = self.setup, self.monitor.recorder
        retire_unsound(setup, batch, unsound_batch(batch), recorder)
        setup.learner.anneal(self.iteration / setup.job.iterations)
        started = time.perf_counter()
        learned = setup.learner.learn(batch, self.iteration)
        numbers = recorder.numbers(learned)
        learning_s = time.perf_counter() - started
        retire_unsound(setup, batch, ~learned.stats.finite, recorder)
        ended = setup.tracker.update(batch)
        self.iteration += 1
        stops = self.should_stop()
        return IterationResult(numbers, ended, learning_s, stops or recorder.save_is_due(), stops)

    def record(self, result: IterationResult) -> None:
        """Write down how an iteration went, and evaluate when it is time."""
        evaluator, recorder = self.monitor
        recorder.iteration(
            self.iteration, result.numbers, result.ended, self._seconds(), result.learning_s
        )
        if result.saves or self.is_done:
            recorder.complaints(self.setup.env.complaints())
        if self.iteration in self._evaluate_after:
            started = time.perf_counter()
            evaluation = evaluator.evaluate(self.setup.population.actor(), recorder.step)
            recorder.evaluation(evaluation, self.setup, time.perf_counter() - started)

    def save(self, pending: Batch | None) -> None:
        """Save the resumable state, with the batch that is yet to be learned from."""
        progress = Progress(self.iteration, self._seconds(), pending)
        save_state(self.state, self.setup, progress)
        self.monitor.recorder.saved()

    def _seconds(self) -> float:
        """Return the seconds trained so far, over all sessions of the run."""
        return time.perf_counter() - self._since


# ------------------------------------------------------------------ numbers that are none


def unsound_batch(batch: Batch) -> Tensor:
    """Return (P,) True where a member's batch holds NaN or infinity."""
    # A sum is finite only if all its parts are: one pass, no mask as large as the data.
    total = (
        batch.rewards.sum((0, 2)) + batch.next_inputs.sum((0, 2, 3)) + batch.actions.sum((0, 2, 3))
    )
    return ~total.isfinite()


def retire_unsound(setup: Setup, batch: Batch, unsound: Tensor, recorder: Recorder) -> None:
    """Stop unsound members, save their moment, and make the batch zero where they are.

    The others continue unchanged. Raises TrainingFailed when none is left.
    """
    population = setup.population
    for member in integers((unsound & population.alive).nonzero().flatten()):
        population.alive[member] = False
        recorder.not_finite(setup, member, batch, _what(setup, member, batch))
    if bool(population.alive.all()):
        return
    if not bool(population.alive.any()):
        reasons = "; ".join(
            health.findings[-1].message for health in setup.health if health.findings
        )
        raise TrainingFailed(
            f"Every member stopped. {reasons}",
            hint="Look at the reward's terms in the saved moment; clamp what can grow.",
        )
    for name in ("inputs", "next_inputs", "actions", "log_probs", "rewards", "terms"):
        numbers: Tensor = getattr(batch, name)
        numbers.masked_fill_(~population.alive.view(1, -1, *[1] * (numbers.dim() - 2)), 0.0)


def _what(setup: Setup, member: int, batch: Batch) -> str:
    """Say in words what is not finite, and where first."""
    error = setup.scoring.error_of(member)
    if error is not None:
        return f"The reward raised an error ({error}), so its value"
    if not bool(batch.rewards[:, member].isfinite().all()):
        step, env = integers((~batch.rewards[:, member].isfinite()).nonzero()[0])
        names = setup.scoring.term_names[member]
        terms = batch.terms[step, member, env, : len(names)]
        bad = [name for name, ok in zip(names, flags(terms.isfinite()), strict=True) if not ok]
        return f"The reward (terms: {', '.join(bad)})" if bad else "The reward"
    if not bool(batch.next_inputs[:, member].isfinite().all()):
        return "The observation"
    return "The gradient"


# ---- saving and resuming: a resumed run gives the numbers of an uninterrupted one


def save_state(path: Path, setup: Setup, progress: Progress) -> None:
    """Write everything in one stroke; a reader finds the old state or the new one."""
    batch = progress.pending
    state = {
        "format": _FORMAT,
        "key": setup.job.key,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
        "pending": batch and {**batch._asdict(), "actor": batch.actor.tensors()},
        "population": setup.learner.state_dict(path.parent),
        "collector": setup.collector.state_dict(),
        "tracker": setup.tracker.state_dict(),
        "health": [health.state_dict() for health in setup.health],
    }
    with replacing(path) as temporary:
        torch.save(state, temporary)


def restore_state(path: Path, setup: Setup) -> Progress | None:
    """Put a saved state into a freshly built set-up; None when there is nothing saved."""
    if not path.exists():
        return None
    try:
        return _restored(path, setup)
    except DAMAGE as error:
        if "CUDA" in str(error):  # the device's fault, not the file's
            raise
        reason = (str(error).splitlines() or [""])[0][:300]
        raise TrainingFailed(
            f"{path} is damaged and cannot be continued: {type(error).__name__} {reason}.",
            hint="Start from scratch with --fresh.",
        ) from error


def _restored(path: Path, setup: Setup) -> Progress:
    device = setup.env.device
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    if state["format"] != _FORMAT or state["key"] != setup.job.key:
        raise TrainingFailed(
            f"{path} belongs to another job or version and cannot be continued.",
            hint="Start from scratch with --fresh.",
        )
    setup.learner.load_state_dict(state["population"], path.parent)
    setup.collector.load_state_dict(state["collector"])
    setup.tracker.load_state_dict(state["tracker"])
    for health, saved in zip(setup.health, state["health"], strict=True):
        health.load_state_dict(saved)
    pending = None
    if state["pending"]:
        actor = setup.population.actor()
        actor.load(state["pending"].pop("actor"))
        pending = Batch(**state["pending"], actor=actor)
    return Progress(state["iteration"], state["seconds"], pending)
