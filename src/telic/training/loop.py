"""Main training loop: collect, learn, record, evaluate and save.

On CPUs, the next batch is collected in parallel with the update, using the policies from before the
update. `ppo.make_samples` applies an off-policy correction. This keeps all cores busy. The schedule
does not depend on timing, so results are deterministic for a seed and a resumed run reproduces an
uninterrupted one. On a GPU, collection and learning are CUDA graphs that alternate, and results are
written while the next batch is collected.
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
from zipfile import BadZipFile

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

_FORMAT = 3
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, EOFError, OSError, OverflowError),
    *(RuntimeError, MemoryError, AssertionError, pickle.UnpicklingError, struct.error),
    BadZipFile,
)
"""exceptions that loading a damaged torch file may raise, usually RuntimeError"""


class PolicyEvaluator(Protocol):
    """Interface for evaluating policies on separate episodes."""

    def evaluate(self, actor: Actor, global_step: int) -> Evaluation:
        """Evaluate every member. `global_step` is the number of steps trained."""
        ...


class Monitor(NamedTuple):
    """Evaluator and recorder of a training run."""

    evaluator: PolicyEvaluator
    recorder: Recorder


def run_training(
    setup: Setup,
    monitor: Monitor,
    state: Path,
    should_stop: Callable[[], bool],
) -> bool:
    """Train until done or stopped. Return True if training is complete.

    `state` is the file of the resumable state. `should_stop` is called after every batch.
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
        for file in state.parent.glob("replay-*.pt"):  # large and no longer needed
            file.unlink()
    return is_done


def collect_ahead(training: TrainingLoop, batch: Batch) -> bool:
    """Collect the next batch in a thread while learning from the current one (CPU schedule)."""
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
    """Alternate learning and collection, and record while the GPU collects (GPU schedule)."""
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
    """Return a function that collects the batch of an iteration with the current policies."""
    population = setup.population
    # Copy everything the collecting thread reads before learning continues.
    copied = population.actor(), population.noise(iteration), population.alive.clone()
    return partial(setup.collector.collect, *copied)


class IterationResult(NamedTuple):
    """Metrics of an iteration, and flags to save or stop."""

    numbers: dict[str, list[float]]
    """metrics by name, one value per member"""
    ended: list[int]
    """number of finished episodes per member"""
    learning_s: float
    saves: bool
    stops: bool


class TrainingLoop:
    """State and operations of a running training loop."""

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
        """number of batches used for learning so far"""
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
        """Collect the next batch."""
        return collecting(self.setup, self.iteration)()

    def learn(self, batch: Batch) -> IterationResult:
        """Learn from a batch and deactivate members with non-finite values."""
        setup, recorder = self.setup, self.monitor.recorder
        retire_nonfinite(setup, batch, nonfinite_batch(batch), recorder)
        setup.learner.anneal(self.iteration / setup.job.iterations)
        started = time.perf_counter()
        learned = setup.learner.learn(batch, self.iteration)
        numbers = recorder.numbers(learned)
        learning_s = time.perf_counter() - started
        retire_nonfinite(setup, batch, ~learned.stats.finite, recorder)
        ended = setup.tracker.update(batch)
        self.iteration += 1
        stops = self.should_stop()
        return IterationResult(numbers, ended, learning_s, stops or recorder.save_is_due(), stops)

    def record(self, result: IterationResult) -> None:
        """Record the metrics of an iteration and evaluate if scheduled."""
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
        """Save the resumable state, including the pending batch."""
        save_state(self.state, self.setup, Progress(self.iteration, self._seconds(), pending))
        self.monitor.recorder.saved()

    def _seconds(self) -> float:
        """Return the training time in seconds, accumulated over resumes."""
        return time.perf_counter() - self._since


# ------------------------------------------------------------------ non-finite values


def nonfinite_batch(batch: Batch) -> Tensor:
    """Return a mask (P,) of members whose batch contains NaN or infinity."""
    # A sum is finite only if all its terms are, which avoids a mask as large as the data.
    total = (
        batch.rewards.sum((0, 2)) + batch.next_inputs.sum((0, 2, 3)) + batch.actions.sum((0, 2, 3))
    )
    return ~total.isfinite()


def retire_nonfinite(setup: Setup, batch: Batch, unsound: Tensor, recorder: Recorder) -> None:
    """Deactivate non-finite members, save their batch for debugging and zero their data.

    The other members continue unchanged. Raises TrainingFailed if no member is left.
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
            f"Training of all members stopped. {reasons}",
            hint="Check the reward terms in the saved batch, and clamp terms that can diverge.",
        )
    for name in ("inputs", "next_inputs", "actions", "log_probs", "rewards", "terms"):
        numbers: Tensor = getattr(batch, name)
        numbers.masked_fill_(~population.alive.view(1, -1, *[1] * (numbers.dim() - 2)), 0.0)


def _what(setup: Setup, member: int, batch: Batch) -> str:
    """Describe where non-finite values occurred first: reward, observation or gradient."""
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


# ---- saving and resuming: a resumed run reproduces an uninterrupted one exactly


def save_state(path: Path, setup: Setup, progress: Progress) -> None:
    """Save the training state atomically."""
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
    """Load a saved state into a new setup. Returns the progress, or None without a saved state."""
    if not path.exists():
        return None
    try:
        return _restored(path, setup)
    except DAMAGE as error:
        if "CUDA" in str(error):  # a device error, not a damaged file
            raise
        reason = (str(error).splitlines() or [""])[0][:300]
        raise TrainingFailed(
            f"{path} is corrupted and cannot be resumed: {type(error).__name__} {reason}.",
            hint="Start from scratch with --fresh.",
        ) from error


def _restored(path: Path, setup: Setup) -> Progress:
    device = setup.env.device
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    if state["format"] != _FORMAT or state["key"] != setup.job.key:
        raise TrainingFailed(
            f"{path} belongs to a different job or version and cannot be resumed.",
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
