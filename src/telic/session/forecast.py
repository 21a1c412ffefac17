"""Say before the start what a session is going to take, and a training of the machine.

Time comes from trainings this machine has done before, dollars from the price list and from what
earlier replies took. What nobody knows is None, never a guess.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from telic.authors.candidate import SHORT
from telic.authors.composer import LONGEST, VARIANTS
from telic.core.events import Event, Listener, TrainProgress
from telic.envs.spec import EnvSpec
from telic.errors import BadFile
from telic.llm.answers import Replies
from telic.llm.budget import is_metered, price_usd
from telic.llm.client import REPLIES
from telic.session.budget import Allowance
from telic.session.records import SessionConfig
from telic.storage.facts import ManifestFacts, RunResultFacts, TrainedJobFacts
from telic.storage.files import read_facts
from telic.storage.layout import (
    RunFolder,
    SessionFolder,
    changed_at,
    is_run,
    list_runs,
    list_sessions,
)
from telic.storage.resources import ResourceNeed, usable_cores
from telic.training.job import TrainJob
from telic.training.machine import Sizes, memory_plan

_LOOKED_AT = 200
_USED = 5
_SHORTEST_S = 2.0
"""shorter trainings are mostly start-up and say nothing about speed"""
_MEASURED_S = 10.0
"""training after which its own rate says how long the session takes"""
_TYPICAL_TOKENS = (6_000, 3_000)
"""read and written per call, while no reply of this folder says better"""
_HOUR_S = 3600.0
_CALLS_FIRST, _CALLS_EACH = 6, 4
"""model calls that a session usually takes: to write and review, and to revise once"""
_LOOKS_LAST, _LOOKS_EACH = 6, 1
"""looks at episodes, if nothing is in dispute: at a policy that passes, and at each failure"""
# Measured on HalfCheetah, Ant and Humanoid with 3 and 9 members, and rounded up.
_PROCESS_BYTES = 450_000_000
"""a worker with its libraries, before it simulates anything"""
_SIMULATION_BYTES = 200_000
"""one MuJoCo simulation with its arena as far as it is used"""
_TERMS = 8
_FLOAT = 4
_PER_BODY = 19
"""recorded numbers per body: place, orientation, velocity and contact force"""
_PER_JOINT = 2
_UNLIMITED_STEPS = 1000
_TAPES = 2
"""copies of the evaluation's recording while it is put together"""


class Forecast(Event):
    """What a session is going to take, from the first try to the last allowed one."""

    NAME = "session.forecast"

    iterations: int
    first_steps: int
    """environment steps if the first try passes"""
    most_steps: int
    """environment steps if every iteration is needed"""
    steps_per_second: float | None
    """as measured on this machine; None: this environment was never trained here"""
    measured_runs: int
    first_seconds: float | None
    """seconds of training if the first try passes"""
    most_seconds: float | None
    calls: int
    """model calls if every iteration is needed"""
    usd: float | None
    """price of them; None: unknown"""
    short: tuple[str, ...]
    """limits that will end the session before its last iteration: hours, steps, usd, calls"""


def session_forecast(
    config: SessionConfig, steps: int, folder: SessionFolder, allowance: Allowance
) -> Forecast:
    """Return what a session is going to take whose author wants so many steps per policy."""
    planned = planned_steps(
        config.iterations,
        len(config.seeds),
        config.steps or steps,
        variants=VARIANTS,
        longer=1.0 if config.steps else LONGEST,
        short=SHORT,
    )
    calls = 0 if config.model is None else _CALLS_FIRST + _CALLS_EACH * config.iterations
    if calls and config.vision:
        calls += _LOOKS_LAST + _LOOKS_EACH * config.iterations
    return forecast(
        planned,
        allowance,
        runs_dir=folder.path.parent,
        env=config.env,
        members=len(config.seeds),
        device=config.device,
        model=_dearest([config.model, *config.model_for.values()]),
        calls=calls,
    )


def forecast(
    steps: Sequence[int],
    allowance: Allowance,
    *,
    runs_dir: Path,
    env: str,
    members: int,
    device: str = "cpu",
    model: str | None = None,
    calls: int = 0,
) -> Forecast:
    """Return what a session is going to take.

    Args:
        steps: environment steps of each iteration; see `planned_steps`.
        allowance: what it may take.
        runs_dir: where earlier trainings are.
        env: environment to train on.
        members: policies that are trained at once.
        device: cpu or cuda.
        model: who is asked; None: nobody.
        calls: model calls if every iteration is needed.
    """
    rates = measured_rates(runs_dir, env, device, members)
    rate = median(rates) if rates else None
    usd = _price(runs_dir, model, calls)
    most_seconds = None if rate is None else sum(steps) / rate
    return Forecast(
        iterations=len(steps),
        first_steps=steps[0],
        most_steps=sum(steps),
        steps_per_second=rate,
        measured_runs=len(rates),
        first_seconds=None if rate is None else steps[0] / rate,
        most_seconds=most_seconds,
        calls=calls,
        usd=usd,
        short=_short(allowance, sum(steps), most_seconds, usd, calls),
    )


class MeasuredForecast:
    """Tells events on, and makes a forecast without a time one with it, once there is a rate.

    A machine that never trained this environment knows how long it takes after some seconds.
    """

    def __init__(self, tell: Listener, allowance: Allowance) -> None:
        self._tell = tell
        self._allowance = allowance
        self._unknown: Forecast | None = None

    def __call__(self, event: Event) -> None:
        """Tell an event on; after it, what can be forecast now and could not before."""
        self._tell(event)
        if isinstance(event, Forecast):
            self._unknown = event if event.steps_per_second is None else None
        elif isinstance(event, TrainProgress) and event.seconds >= _MEASURED_S:
            told, rate = self._unknown, event.steps_per_second
            if told is not None and rate:
                self._unknown = None
                self._tell(at_rate(told, rate, self._allowance))


def at_rate(told: Forecast, rate: float, allowance: Allowance) -> Forecast:
    """Return a forecast with the time that it takes at this many steps per second."""
    seconds = told.most_steps / rate
    return told.model_copy(
        update={
            "steps_per_second": rate,
            "first_seconds": told.first_steps / rate,
            "most_seconds": seconds,
            "short": _short(allowance, told.most_steps, seconds, told.usd, told.calls),
        }
    )


def planned_steps(
    iterations: int, seeds: int, steps: int, *, variants: int, longer: float, short: float
) -> tuple[int, ...]:
    """Return the environment steps of each iteration of a session that never passes.

    Args:
        iterations: rewards to try at most.
        seeds: training seeds per reward.
        steps: of the first training, per policy.
        variants: weight sets that a revision tries side by side at most.
        longer: how much longer each training is than the one before.
        short: share of a training that is done with every variant; the rest only with the best.
    """
    later = seeds * steps * (variants * short + 1.0 - short)
    return (seeds * steps, *(round(later * longer**n) for n in range(1, iterations)))


def measured_rates(runs_dir: Path, env: str, device: str, members: int) -> list[float]:
    """Return steps per second of the trainings here that are most like the one to come.

    Only of this environment, this device and this kind of machine: those with about as many members
    first, then the latest.
    """
    rates: list[tuple[float, float, float]] = []
    for run in _runs(runs_dir):
        with suppress(BadFile):  # a damaged run says nothing about the next
            if (found := _rate(run, env, device)) is not None:
                distance = abs(math.log(found.members / members))
                rates.append((distance, -changed_at(run.summary), found.rate))
    return [rate for _, _, rate in sorted(rates)[:_USED]]


class _Rate(NamedTuple):
    """How quickly a training went, with how many members."""

    rate: float
    members: int


def _rate(run: RunFolder, env: str, device: str) -> _Rate | None:
    """Return how quickly a run went; None when it was too short, or is not like the one to come."""
    job = read_facts(run.config, TrainedJobFacts)
    summary = read_facts(run.summary, RunResultFacts)
    manifest = read_facts(run.manifest, ManifestFacts)
    is_like = job["env"] == env and job.get("device") == device and len(job["members"]) > 0
    is_here = manifest.get("processors") == os.cpu_count()
    is_here = is_here and manifest.get("platform") == platform.platform()
    rate = summary.get("steps_per_second")
    if not (is_like and is_here and rate and summary.get("training_time_s", 0.0) >= _SHORTEST_S):
        return None
    return _Rate(rate, len(job["members"]))


def _runs(runs_dir: Path) -> Iterator[RunFolder]:
    """Return runs with a result: those of their own, then those of sessions, the latest first."""
    inside = (
        RunFolder(path)
        for session in list_sessions(runs_dir)
        for number in session.iterations()
        for path in session.iteration(number).path.iterdir()
        if is_run(path)
    )
    looked_at = 0
    for run in (*list_runs(runs_dir)[:_LOOKED_AT], *inside):
        if run.summary.exists() and run.manifest.exists():
            looked_at += 1
            yield run
        if looked_at >= _LOOKED_AT:
            return


def _dearest(models: Sequence[str | None]) -> str | None:
    """Return the model whose calls cost most; one of unknown price before all."""
    paid = [model for model in models if model is not None and is_metered(model)]
    prices = {model: price_usd(model, *_TYPICAL_TOKENS) for model in paid}
    return max(paid, key=lambda model: prices[model] or math.inf, default=models[0])


def _price(runs_dir: Path, model: str | None, calls: int) -> float | None:
    if model is None or not is_metered(model):
        return 0.0
    read, written = _typical_tokens(runs_dir)
    price = price_usd(model, read, written)
    return None if price is None else calls * price


def _typical_tokens(runs_dir: Path) -> tuple[int, int]:
    """Return the tokens that calls of the latest sessions read and wrote, in the middle."""
    read: list[int] = []
    written: list[int] = []
    for session in list_sessions(runs_dir)[:_USED]:
        for reply in Replies(session.path / REPLIES).kept():
            tokens = reply.raw.tokens
            if tokens.input is not None and tokens.output is not None:
                read.append(tokens.input)
                written.append(tokens.output)
    if not read:
        return _TYPICAL_TOKENS
    return round(median(read)), round(median(written))


def _short(
    allowance: Allowance, steps: int, seconds: float | None, usd: float | None, calls: int
) -> tuple[str, ...]:
    hours = None if seconds is None else seconds / _HOUR_S
    needs = {"hours": hours, "steps": steps, "usd": usd, "calls": calls}
    limits = allowance.model_dump()
    return tuple(
        name
        for name, need in needs.items()
        if need is not None and limits[name] is not None and need > limits[name]
    )


def need_of(job: TrainJob, spec: EnvSpec) -> ResourceNeed:
    """Return what a training takes at most.

    On a GPU the worker checks the card's own memory; here only its process is counted.
    """
    if job.device != "cpu":
        return ResourceNeed(cores=1, memory_bytes=_PROCESS_BYTES)
    return ResourceNeed(
        cores=job.threads or len(usable_cores()),
        memory_bytes=_PROCESS_BYTES + _learning_bytes(job, spec) + _evaluation_bytes(job, spec),
    )


def _learning_bytes(job: TrainJob, spec: EnvSpec) -> int:
    members = len(job.members)
    sizes = Sizes(members, len(spec.obs_names), len(spec.action_names), _TERMS)
    plan = memory_plan(job.settings, sizes)
    simulations = (job.settings.num_envs + job.eval_episodes) * members
    return sum(plan.values()) - plan["libraries"] + simulations * _SIMULATION_BYTES


def _evaluation_bytes(job: TrainJob, spec: EnvSpec) -> int:
    """Return the size of the recording: every step of every evaluation episode, all at once."""
    limit = job.env_args.get("max_episode_steps", spec.max_episode_steps) or _UNLIMITED_STEPS
    row = (
        2 * len(spec.obs_names)
        + len(spec.action_names)
        + _TERMS
        + _PER_JOINT * len(spec.joints)
        + _PER_BODY * len(spec.body_names)
    )
    return _TAPES * limit * job.eval_episodes * len(job.members) * row * _FLOAT
