"""THE MAIN FLOW of training: collect, learn, record, evaluate, save.

While the learner works on one batch, the collector already fills the next one with the policies as
they were before that update; `experience.digest` corrects for the difference. So physics and
learning keep all processors busy, in an order that does not depend on timing: the same seed gives
the same numbers, and a resumed run the numbers of an uninterrupted one. On a GPU, collecting and
learning are recordings that take turns, and all writing is done while the next batch is collected.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from telic.training import checkpoint
from telic.training.checkpoint import Progress
from telic.training.evaluate import Evaluator
from telic.training.learner import Learner
from telic.training.record import Recorder
from telic.training.rollout import Batch
from telic.training.setup import Setup
from telic.training.soundness import retire_unsound, unsound_batch


def train(
    setup: Setup, evaluator: Evaluator, recorder: Recorder, should_stop: Callable[[], bool]
) -> bool:
    """Train to the end or until asked to stop; returns whether it got to the end."""
    job, population, collector = setup.job, setup.population, setup.collector
    learner = Learner(population)
    evaluate_after = set(job.evaluation_iterations())
    progress = checkpoint.restore(recorder.run.state, setup)
    if progress is None:
        collector.start(stagger=job.settings.stagger)
        progress = Progress(0, 0.0, None)
    recorder.begin(progress)
    clock = Clock(progress.seconds)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="collect") as ahead:
        iteration = progress.iteration
        batch = progress.pending or collect(setup, iteration)
        while iteration < job.iterations:
            is_last = iteration + 1 == job.iterations
            following = None if is_last else _start_next(setup, ahead, iteration + 1)

            retire_unsound(setup, batch, unsound_batch(batch), recorder)
            population.anneal(iteration / job.iterations)
            learning = time.perf_counter()
            stats, explained = learner.learn(batch, iteration)
            numbers = recorder.numbers(stats, explained)
            learning = time.perf_counter() - learning
            retire_unsound(setup, batch, ~stats.finite, recorder)
            ended = setup.tracker.update(batch)
            iteration += 1
            stop = should_stop()
            saving = stop or recorder.save_is_due()
            goes_on = not (is_last or saving or following)
            if goes_on:  # a GPU collects while we write down how it went
                batch = collect(setup, iteration)
            recorder.iteration(iteration, numbers, ended, clock.seconds(), learning)
            if saving or is_last:
                recorder.complaints(setup.env.complaints())
            if iteration in evaluate_after:
                started = time.perf_counter()
                evaluation = evaluator.evaluate(population.actor(), recorder.step)
                recorder.evaluation(evaluation, setup, time.perf_counter() - started)
            if is_last:
                return True

            if following:
                batch = following.result()
            if saving:
                pending = batch if following else None
                checkpoint.save(
                    recorder.run.state, setup, Progress(iteration, clock.seconds(), pending)
                )
                recorder.saved()
                if stop:
                    return False
                if not following:
                    batch = collect(setup, iteration)
    return True


def collect(setup: Setup, iteration: int) -> Batch:
    """Collect the batch of an iteration with the policies as they are now."""
    population = setup.population
    return setup.collector.collect(
        population.actor(), population.noise(iteration), population.alive.clone()
    )


def _start_next(setup: Setup, ahead: ThreadPoolExecutor, iteration: int) -> Future[Batch] | None:
    if not setup.job.settings.overlap:
        return None
    population = setup.population
    # Everything the other thread reads is copied here, before learning goes on.
    return ahead.submit(
        setup.collector.collect,
        population.actor(),
        population.noise(iteration),
        population.alive.clone(),
    )


class Clock:
    """Training time over all sessions of a run."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds trained so far."""
        return self._before + time.perf_counter() - self._start
