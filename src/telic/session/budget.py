"""Budget of a session: cost forecast, spending and remaining allowance.

Time is forecast from earlier training runs on this machine, and dollars from the price list and
the tokens of earlier replies. Unknown values are None and are never estimated.

All spending is computed from the session's files, so it survives `kill -9`: environment steps from
training metrics, calls and dollars from paid replies, and time from a clock that is saved every
few seconds and paused while the session waits. `telic.llm.Budget` enforces limits in dollars and
calls before each call, and this module enforces limits in hours and steps.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Literal

from telic.authors.candidate import SHORT
from telic.authors.composer import LONGEST, VARIANTS
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Event, Listener, TrainProgress
from telic.envs.spec import EnvSpec
from telic.errors import BadFile, ResourceError
from telic.llm.answers import Replies
from telic.llm.budget import is_metered, price_usd
from telic.llm.client import REPLIES
from telic.storage.files import checked_fields, read_fields, read_record, write_json
from telic.storage.layout import (
    IterationFolder,
    RunFolder,
    SessionFolder,
    changed_at,
    is_run,
    list_runs,
    list_sessions,
)
from telic.storage.reading import check_file, parse_json
from telic.storage.resources import ResourceNeed, usable_cores
from telic.training.job import TrainJob
from telic.training.machine import Sizes, memory_plan

_SAVE_EVERY_S = 5.0
_HOUR_S = 3600.0
_LAST_ROWS_BYTES = 16_384
_WORTH_STARTING = 0.25
"""fraction of the planned steps below which a training run is not informative"""
_READ, _USED = 200, 5
"""number of earlier runs to read, and number of the most similar ones to use"""
_STARTUP_S = 2.0
"""duration of runs that are dominated by startup and give no reliable rate"""
_MEASURED_S = 10.0
"""training time after which the rate measured in the current run is used"""
_TYPICAL_TOKENS = (6_000, 3_000)
"""input and output tokens per call if this folder has no earlier reply"""
_CALLS_FIRST, _CALLS_EACH = 6, 4
"""typical number of model calls for writing and review, and for each revision"""
_LOOKS_LAST, _LOOKS_EACH = 6, 1
"""typical number of vision calls for a passing policy, and for each failure"""
# Measured on HalfCheetah, Ant and Humanoid with 3 and 9 members, and rounded up.
_PROCESS_BYTES = 450_000_000
"""memory of a worker process with imported libraries, before any simulation"""
_SIMULATION_BYTES = 200_000
"""memory of one MuJoCo simulation, with the used part of its arena"""
_TERMS, _FLOAT_BYTES, _UNLIMITED_STEPS = 8, 4, 1000
_TAPES = 2
"""number of copies of the evaluation recording while it is assembled"""


class BudgetLeft(Record):
    """Remaining budget of a session, where None means unlimited (or unknown for dollars)."""

    hours: float | None = None
    steps: int | None = None
    usd: float | None = None
    calls: int | None = None


class Spending(Event):
    """Spending of a session."""

    NAME = "session.spent"

    seconds: float
    steps: int
    usd: float | None
    """cost in dollars, or None if the price of a call is unknown"""
    calls: int
    number: int | None = None
    """number of the iteration that has just ended"""
    left: BudgetLeft = BudgetLeft()


class BudgetUsedUp(ResourceError):
    """Raised when a budget is exhausted. `kind` is the limit, either hours or steps."""

    def __init__(self, kind: Literal["hours", "steps"], message: str) -> None:
        super().__init__(
            message, hint=f"The best policy so far was kept. Resume with: --budget-{kind} MORE"
        )
        self.kind = kind


class ClockTime(Record):
    """Accumulated running time of a session."""

    schema_version: Literal[1] = 1
    seconds: float


class SessionAccount:
    """Track the spending of a session against its limits. An open account measures the time."""

    def __init__(self, folder: SessionFolder, config: SessionConfig) -> None:
        self.folder, self._config = folder, config
        saved = read_record(folder.clock, ClockTime).seconds if folder.clock.exists() else 0.0
        self._before = saved
        self._started: float | None = time.monotonic()
        self._saved_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Running time in seconds, summed over all processes that ran the session."""
        running = 0.0 if self._started is None else time.monotonic() - self._started
        return self._before + running

    def tick(self) -> None:
        """Save the clock from time to time. This is cheap enough for polling loops."""
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Save the clock immediately."""
        self._saved_at = time.monotonic()
        write_json(self.folder.clock, ClockTime(seconds=self.seconds))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the clock inside the context."""
        self._before, self._started = self.seconds, None
        self.save()
        try:
            yield
        finally:
            self._started = time.monotonic()

    def spending(self, number: int | None = None) -> Spending:
        """Return the spending so far and the remaining budget."""
        usd, calls = paid(self.folder)
        steps, seconds = steps_taken(self.folder), self.seconds
        used = {"hours": seconds / _HOUR_S, "steps": steps, "usd": usd, "calls": calls}
        limits = {name: getattr(self._config, f"max_{name}") for name in used}
        left = {
            name: None if limits[name] is None or value is None else max(0, limits[name] - value)
            for name, value in used.items()
        }
        return Spending(
            seconds=seconds,
            steps=steps,
            usd=usd,
            calls=calls,
            number=number,
            left=BudgetLeft.model_validate(left),
        )

    def is_out_of_time(self) -> bool:
        """Return whether the time budget is exhausted. This is cheap enough for polling."""
        hours = self._config.max_hours
        return hours is not None and self.seconds >= hours * _HOUR_S

    def check(self) -> None:
        """Raise BudgetUsedUp if the time budget is exhausted. `fit` checks the steps."""
        if self.is_out_of_time():
            hours = f"{self._config.max_hours:g}"
            raise BudgetUsedUp("hours", f"The budget of {hours} hours is used up.")

    def fit(self, steps: int, members: int, run: RunFolder) -> int:
        """Return the steps per policy for a training run, limited to the remaining budget.

        An interrupted run keeps its original number of steps, so that the same job is resumed.
        Raises BudgetUsedUp if too few steps remain for an informative run.
        """
        if run.config.exists():
            return read_fields(run.config, steps=int)["steps"]
        left = self.spending().left.steps
        if left is None or steps * members <= left:
            return steps
        if left < _WORTH_STARTING * steps * members:
            raise BudgetUsedUp(
                "steps",
                f"{left:,} of the budget of {self._config.max_steps:,} steps are left, but the "
                f"next training run needs {steps * members:,}.",
            )
        return left // members


def paid(folder: SessionFolder) -> tuple[float | None, int]:
    """Return the cost and number of all model calls, including those with rejected replies.

    If the price of any call is unknown, the cost is None.
    """
    charges = [call.charge for call in Replies(folder.path / REPLIES).calls()]
    prices = [each.usd for each in charges]
    usd = None if None in prices else sum(each for each in prices if each is not None)
    return usd, sum(each.calls for each in charges)


def steps_taken(folder: SessionFolder) -> int:
    """Return the environment steps of all training runs of a session, even unfinished runs.

    Iteration 0 of a branch is excluded, because another session trained it.
    """
    numbers = [number for number in folder.iterations() if number > 0]
    return sum(iteration_steps(folder.iteration(number)) for number in numbers)


def iteration_steps(files: IterationFolder) -> int:
    """Return the environment steps of an iteration's training runs, even unfinished runs."""
    total = 0
    for run in (RunFolder(path) for path in files.path.iterdir() if is_run(path)):
        finished = 0
        if run.summary.exists():
            total_timesteps = read_fields(run.summary, total_timesteps=int | None)
            finished = total_timesteps["total_timesteps"] or 0
        # If a run was stopped, resumed and killed, its summary is older than its metrics.
        total += max(finished, sum(last_row_step(each.scalars) for each in run.members()))
    return total


def last_row_step(scalars: Path) -> int:
    """Return the step of the last complete row of a metrics file."""
    if not scalars.exists():
        return 0
    size = check_file(scalars)
    with scalars.open("rb") as file:
        file.seek(max(0, size - _LAST_ROWS_BYTES))
        rows = file.read().split(b"\n")[:-1]
    if not rows:
        return 0
    where = str(scalars)
    return checked_fields(parse_json(rows[-1], where), where, global_step=int)["global_step"]


# ---- forecast


class Forecast(Event):
    """Expected cost of a session for the first iteration and for all allowed iterations."""

    NAME = "session.forecast"

    iterations: int
    first_steps: int
    """environment steps if the first iteration passes"""
    most_steps: int
    """environment steps if every iteration is needed"""
    steps_per_second: float | None
    """rate measured on this machine, or None if this environment was never trained here"""
    measured_runs: int
    first_seconds: float | None
    """training time in seconds if the first iteration passes"""
    most_seconds: float | None
    calls: int
    """number of model calls if every iteration is needed"""
    usd: float | None
    """price of these calls, or None if unknown"""
    short: tuple[str, ...]
    """limits (hours, steps, usd, calls) that may be reached before the last iteration"""

    def at_rate(self, rate: float | None, config: SessionConfig) -> Forecast:
        """Return a forecast with times that are computed from a rate in steps per second."""
        seconds = None if rate is None else self.most_steps / rate
        hours = None if seconds is None else seconds / 3600.0
        needs = {"hours": hours, "steps": self.most_steps, "usd": self.usd, "calls": self.calls}
        limits = {name: getattr(config, f"max_{name}") for name in needs}
        changes = {
            "steps_per_second": rate,
            "first_seconds": None if rate is None else self.first_steps / rate,
            "most_seconds": seconds,
            "short": tuple(
                name
                for name, need in needs.items()
                if need is not None and limits[name] is not None and need > limits[name]
            ),
        }
        return self.model_copy(update=changes)


def session_forecast(config: SessionConfig, steps: int, runs_dir: Path) -> Forecast:
    """Forecast the cost of a session from its planned number of steps per policy.

    A revision first screens all its variants. Each training run is longer than the previous one,
    unless the number of steps was requested.
    """
    first = len(config.seeds) * (config.steps or steps)
    later, longer = first * (VARIANTS * SHORT + 1.0 - SHORT), 1.0 if config.steps else LONGEST
    planned = [first, *(round(later * longer**number) for number in range(1, config.iterations))]
    calls = 0 if config.model is None else _CALLS_FIRST + _CALLS_EACH * config.iterations
    if calls and config.vision:
        calls += _LOOKS_LAST + _LOOKS_EACH * config.iterations
    rates = measured_rates(runs_dir, config.env, config.device, len(config.seeds))
    made = Forecast(
        iterations=len(planned),
        first_steps=planned[0],
        most_steps=sum(planned),
        steps_per_second=None,
        measured_runs=len(rates),
        first_seconds=None,
        most_seconds=None,
        calls=calls,
        usd=_price(runs_dir, config, calls),
        short=(),
    )
    return made.at_rate(median(rates) if rates else None, config)


class MeasuredForecast:
    """Forward events and add times to a forecast once the training speed is measured."""

    def __init__(self, emit: Listener, config: SessionConfig) -> None:
        self._emit, self._config = emit, config
        self._unknown: Forecast | None = None

    def __call__(self, event: Event) -> None:
        """Forward an event, followed by the completed forecast as soon as it is available."""
        self._emit(event)
        if isinstance(event, Forecast):
            self._unknown = event if event.steps_per_second is None else None
        elif isinstance(event, TrainProgress) and event.seconds >= _MEASURED_S:
            earlier, rate = self._unknown, event.steps_per_second
            if earlier is not None and rate:
                self._unknown = None
                self._emit(earlier.at_rate(rate, self._config))


def measured_rates(runs_dir: Path, env: str, device: str, members: int) -> list[float]:
    """Return the steps per second of the most similar training runs on this machine.

    Only runs with the same environment, device and kind of machine are used, sorted by similarity
    of the number of members, then by recency.
    """
    inside = (
        RunFolder(path)
        for session in list_sessions(runs_dir)
        for number in session.iterations()
        for path in session.iteration(number).path.iterdir()
        if is_run(path)
    )
    runs = (
        run
        for run in (*list_runs(runs_dir)[:_READ], *inside)
        if run.summary.exists() and run.manifest.exists()
    )
    rates: list[tuple[float, float, float]] = []
    for run in islice(runs, _READ):
        with suppress(BadFile):  # skip damaged runs
            job = read_fields(run.config, env=str, device=str | None, members=list[Any])
            kinds = {"steps_per_second": float | None, "training_time_s": float | None}
            summary = read_fields(run.summary, **kinds)
            manifest = read_fields(run.manifest, processors=int | None, platform=str | None)
            is_like = job["env"] == env and job.get("device") == device and job["members"]
            machine = (manifest.get("processors"), manifest.get("platform"))  # language: quoted
            rate = summary["steps_per_second"]
            is_long = (summary["training_time_s"] or 0.0) >= _STARTUP_S
            if is_like and machine == (os.cpu_count(), platform.platform()) and rate and is_long:
                distance = abs(math.log(len(job["members"]) / members))
                rates.append((distance, -changed_at(run.summary), rate))
    return [rate for _, _, rate in sorted(rates)[:_USED]]


def _price(runs_dir: Path, config: SessionConfig, calls: int) -> float | None:
    """Return the price of a number of calls to the most expensive model, or None if unknown."""
    replies = [
        reply.raw.tokens
        for session in list_sessions(runs_dir)[:_USED]
        for reply in Replies(session.path / REPLIES).kept()
        if reply.raw is not None
    ]
    read = [each.input for each in replies if each.input is not None]
    written = [each.output for each in replies if each.output is not None]
    known = bool(read and written)
    tokens = (round(median(read)), round(median(written))) if known else _TYPICAL_TOKENS
    models = [name for name in (config.model, *config.model_for.values()) if name]
    prices = [price_usd(name, *tokens) for name in models if is_metered(name)]
    return None if None in prices else calls * max((each or 0.0 for each in prices), default=0.0)


def need_of(job: TrainJob, spec: EnvSpec) -> ResourceNeed:
    """Return the maximum number of cores and amount of memory that a training run needs.

    For a GPU, only the memory of the process is counted, because the worker checks GPU memory.
    """
    if job.device != "cpu":
        return ResourceNeed(cores=1, memory_bytes=_PROCESS_BYTES)
    members, observed, actions = len(job.members), len(spec.obs_names), len(spec.action_names)
    plan = memory_plan(job.settings, Sizes(members, observed, actions, _TERMS))
    simulations = (job.settings.num_envs + job.eval_episodes) * members * _SIMULATION_BYTES
    # An evaluation records every step of all its episodes in memory: per body its position,
    # orientation, velocity and contact force.
    limit = job.env_args.get("max_episode_steps", spec.max_episode_steps) or _UNLIMITED_STEPS
    row = 2 * observed + actions + _TERMS + 2 * len(spec.joints) + 19 * len(spec.body_names)
    recording = _TAPES * limit * job.eval_episodes * members * row * _FLOAT_BYTES
    learning = sum(plan.values()) - plan["libraries"]
    return ResourceNeed(
        cores=job.threads or len(usable_cores()),
        memory_bytes=_PROCESS_BYTES + learning + simulations + recording,
    )
