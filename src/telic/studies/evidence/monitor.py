"""Monitor a run: is it alive, is it learning, and what to do about it. Nothing is stopped here.

Each sign of trouble is one function over what is known of the process or of the learning curves; it
yields nothing for a healthy run, and the name of the function is the name of the sign.
"""

from __future__ import annotations

import math
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from telic.storage.journal import JournalEntry
from telic.studies.canonical import moment, utc_now
from telic.studies.documents.adapter import RepositoryOutputs
from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.metrics import MetricSpec
from telic.studies.evidence.measurement import (
    ARTEFACTS,
    RunLog,
    last_step,
    missing_outputs,
    read_run_log,
    run_state,
)
from telic.studies.evidence.statistics import Series, gain, mean, slope
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.process import RunProcess
from telic.studies.state import RunState

if TYPE_CHECKING:
    from telic.studies.study import Study

WATCH_EVERY = timedelta(minutes=10)
"""how long a live run may go without a look"""
_GIB = 2**30
_TEXT_BYTES = 20_000
_ELSEWHERE_S = 120.0
"""a process on another machine counts as alive while its heartbeat is younger"""
_SPOILS_THE_POLICY = {"nan_inf", "resource", "dead", "silent_failure", "stalled"}
_PATIENCE_S, _PATIENCE_GAPS = 120.0, 10
_LEAST_DISK_GB = 2.0
_KILLED_FOR_MEMORY = 137
_RESOURCE_TEXT = re.compile(
    r"out of memory|OutOfMemory|CUDA error: |Cannot allocate memory|No space left on device|"
    r"GPU has fallen off the bus|Unable to determine the device handle|oom-kill",
    re.IGNORECASE,
)
_FEWEST_POINTS = 10
_EXPLODES = 100
_MAY_NOT_BE_NAN = re.compile(r"loss|return|reward|grad", re.IGNORECASE)
_NOT_EARLY = re.compile(r"time|trunc|horizon|success", re.IGNORECASE)
_NO_GAIN = 0.2
"""pooled standard deviations within which a metric counts as flat"""
_WATCHED = {
    "entropy_collapse": "entropy",
    "exploration_blowup": "log_std",
    "kl_blowup": "kl",
    "clip_saturation": "clip_fraction",
    "value_explosion": "value_loss",
    "critic_useless": "explained_variance",
    "reward_regression": "return",
    "throughput_drop": "sps",
}
"""the series that a signature of the metric spec's diagnostics looks at"""

Severity = Literal["info", "warn", "fatal"]
Recommendation = Literal["continue", "checkpoint_and_stop", "kill", "inspect"]


class Signature(DocumentPart):
    """A sign of trouble that was found."""

    id: str
    severity: Severity
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None
    evidence: str


class MonitorReport(Document):
    """How a run is doing."""

    schema_id: str = Field(default="telic.monitor/1", alias="schema")
    run: str
    at: str
    progress: float | None
    """share of the planned steps"""
    process: dict[str, Any]
    signatures: tuple[Signature, ...]
    recommendation: Recommendation
    problems: tuple[str, ...] = ()
    """logs that could not be read"""


def look_at_run(study: Study, run: str) -> MonitorReport:
    """Return how a run is doing, from its files and the process table alone."""
    state = run_state(study.state.runs, run)
    log = read_run_log(study.folder, run)
    steps = study.candidate(state.candidate).plan.steps
    share = study.contract.phase_share(state.phase, steps)
    planned = None if steps is None else steps * share
    vitals = _vitals(study, run, log, planned)
    learning = _learning(study.metric_spec, log, planned)
    signs = (*vital_signatures(vitals), *learning_signatures(learning))
    reached = last_step(log.series)
    return MonitorReport(
        run=run,
        at=utc_now(),
        progress=None if not planned or reached is None else min(1.0, reached / planned),
        process={
            "alive": vitals.is_alive,
            "exit_code": vitals.exit_code,
            "silent_s": vitals.silent_s,
        },
        signatures=signs,
        recommendation=_recommend(signs, vitals.is_alive),
        problems=log.problems,
    )


def monitor_run(study: Study, run: str, actor: StudyActor) -> MonitorReport:
    """Look at a run and record what is new: trouble that began, trouble that is over."""
    state = study.state
    report = look_at_run(study, run)
    now = {sign.id: sign for sign in report.signatures if sign.severity != "info"}
    looks = study.events_of("monitor.alert", about=(run,))
    before = open_alerts(looks, run)
    begun = {name: sign for name, sign in now.items() if before.get(name) != sign.severity}
    over = sorted(before.keys() - now.keys())
    if begun:
        sheet = add_evidence(
            study,
            "monitor",
            report.as_data(),
            actor,
            run=run,
            candidate=state.runs[run].candidate,
            producer="telic.monitor",
            summary=", ".join(sorted(now)),
        )
        for name, sign in begun.items():
            facts = {"run": run, "signature": name, "severity": sign.severity, "evidence": sheet.id}
            study.append("monitor.alert", run, facts, actor)
    looked_at = moment(looks[-1].at if looks else state.runs[run].intent_at)
    if over or (not begun and moment(utc_now()) - looked_at > WATCH_EVERY):
        # That a run was looked at is recorded, too.
        name = over[0] if over else "looked"
        facts = {"run": run, "signature": name, "severity": "info", "cleared": over}
        study.append("monitor.alert", run, facts, actor)
    return report


def _recommend(signs: tuple[Signature, ...], is_alive: bool) -> Recommendation:
    """Return what to do; only fatal signs speak for an end, and only of what still runs.

    A run whose policy may have been good before keeps its checkpoint; one with nothing to keep
    is killed.
    """
    fatal = {each.id for each in signs if each.severity == "fatal"}
    if fatal and is_alive:
        return "kill" if fatal & _SPOILS_THE_POLICY else "checkpoint_and_stop"
    if fatal or any(each.severity == "warn" for each in signs):
        return "inspect"
    return "continue"


# ---------------------------------------------------------------------------- recorded alerts


class Alert(NamedTuple):
    """A sign of trouble that was recorded."""

    run: str
    signature: str
    severity: str
    is_open: bool


def entered_alerts(events: Iterable[JournalEntry]) -> list[Alert]:
    """Return all recorded trouble, as it stands now."""
    alerts: dict[tuple[str, str], Alert] = {}
    for event in events:
        if event.kind != "monitor.alert":
            continue
        run, severity = str(event.subject), event.data["severity"]
        for cleared in event.data.get("cleared", ()):
            if (run, cleared) in alerts:
                alerts[run, cleared] = alerts[run, cleared]._replace(is_open=False)
        if severity != "info":
            name = str(event.data["signature"])
            alerts[run, name] = Alert(run, name, severity, True)
    return list(alerts.values())


def open_alerts(events: Iterable[JournalEntry], run: str) -> dict[str, str]:
    """Return the recorded trouble of a run that is not cleared: its severity by name."""
    alerts = [alert for alert in entered_alerts(events) if alert.run == run and alert.is_open]
    return {alert.signature: alert.severity for alert in alerts}


def fatal_alerts(events: Iterable[JournalEntry], runs: Iterable[str]) -> tuple[str, ...]:
    """Return the fatal signatures of runs that no later look has cleared."""
    wanted = set(runs)
    return tuple(
        f"{alert.signature} in {alert.run}"
        for alert in entered_alerts(events)
        if alert.is_open and alert.severity == "fatal" and alert.run in wanted
    )


# ---------------------------------------------------------------------------- the process


class Sign(NamedTuple):
    """What one function sees."""

    severity: Severity
    evidence: str
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None


_Subject = TypeVar("_Subject")


def _signatures(
    looks: Iterable[Callable[[_Subject], Iterator[Sign]]], subject: _Subject
) -> list[Signature]:
    return [
        Signature(id=look.__name__, **sign._asdict()) for look in looks for sign in look(subject)
    ]


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known about the process of a run; None is not known."""

    is_alive: bool
    has_exit_record: bool = False
    exit_code: int | None = None
    silent_s: float | None = None
    """seconds since the last logged point"""
    median_gap_s: float | None = None
    """usual seconds between points"""
    lacks: tuple[str, ...] = ()
    """what a complete run leaves and this one did not: marker, checkpoint, steps"""
    text: str = ""
    """the end of its output"""
    free_disk_gb: float | None = None
    twins: tuple[str, ...] = ()
    """other live runs of the same candidate, phase and seed"""


def _vitals(study: Study, run: str, log: RunLog, planned: float | None) -> Vitals:
    state, inside = study.state, study.folder.run(run)
    own = state.runs[run]
    process = RunProcess(inside)
    ended = process.exit_record
    is_killed = ended and ended.get("signal") == "SIGKILL" and ended.get("ended_by") is None
    job = attrgetter("candidate", "phase", "seed")
    logged = {when for series in log.series.values() for when in series.times}
    times = sorted(when for when in logged if when is not None)
    gaps = [b - a for a, b in pairwise(times)]
    return Vitals(
        is_alive=ended is None and _is_alive(process, own),
        has_exit_record=ended is not None,
        exit_code=_KILLED_FOR_MEMORY if is_killed else (ended or {}).get("code"),
        silent_s=_silence(inside, times),
        median_gap_s=statistics.median(gaps) if gaps else None,
        lacks=_lacking(inside, study.adapter.outputs, log, planned) if ended else (),
        text=_tail(inside),
        free_disk_gb=shutil.disk_usage(study.root).free / _GIB,
        twins=tuple(
            name
            for name in state.active_runs
            if name != run and job(state.runs[name]) == job(own) and own.is_live
        ),
    )


def _is_alive(process: RunProcess, run: RunState) -> bool:
    match process.state:
        case "unclaimed":
            return run.is_live
        case "elsewhere":
            beat = process.heartbeat
            age = datetime.now(UTC) - moment(beat["at"]) if beat else timedelta()
            return run.is_live and age.total_seconds() < _ELSEWHERE_S
        case found:
            return found == "alive"


def _silence(inside: Path, times: list[float]) -> float | None:
    """Return the seconds since anything was logged, by the log's own clock or the files'."""
    files = [each.stat().st_mtime for each in (inside / ARTEFACTS).rglob("*") if each.is_file()]
    files += [each.stat().st_mtime for each in inside.glob("*.log")]
    # A log that counts from the start of training has no date.
    dated = [when for when in times if when > 1e9]
    newest = max([*files, *dated], default=None)
    return None if newest is None else max(0.0, time.time() - newest)


def _lacking(
    inside: Path, outputs: RepositoryOutputs, log: RunLog, planned: float | None
) -> tuple[str, ...]:
    """Return what a complete run leaves and this one did not."""
    lacks, share = missing_outputs(inside, outputs), outputs.completion.min_step_fraction
    reached = last_step(log.series)
    if planned and reached is not None and reached < share * planned:
        lacks.append(f"{share:.0%} of the steps ({reached:g} of {planned:g})")
    return tuple(lacks)


def _tail(inside: Path) -> str:
    parts: list[str] = []
    for name in ("stdout.log", "stderr.log"):
        path = inside / name
        if path.is_file():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TEXT_BYTES))
                parts.append(file.read().decode(errors="replace"))
    return "\n".join(parts)


def vital_signatures(run: Vitals) -> list[Signature]:
    """Return every sign of trouble in the process."""
    return _signatures((stalled, dead, silent_failure, resource, duplicate_seed), run)


def stalled(run: Vitals) -> Iterator[Sign]:
    """The process lives and has logged nothing for long."""
    if not run.is_alive or run.silent_s is None:
        return
    limit = max(_PATIENCE_S, _PATIENCE_GAPS * (run.median_gap_s or 0.0))
    if run.silent_s > limit:
        severity = "fatal" if run.silent_s > 3 * limit else "warn"
        yield Sign(severity, "seconds without a new point", run.silent_s, limit)


def dead(run: Vitals) -> Iterator[Sign]:
    """The process is gone and left no exit record."""
    if not run.is_alive and not run.has_exit_record:
        yield Sign("fatal", "the process is gone and left no exit record")


def silent_failure(run: Vitals) -> Iterator[Sign]:
    """The exit code is 0 and the results are missing."""
    if run.has_exit_record and run.exit_code == 0 and run.lacks:
        yield Sign("fatal", f"exit code 0, but missing: {', '.join(run.lacks)}")


def resource(run: Vitals) -> Iterator[Sign]:
    """The machine ran out of something."""
    said = _RESOURCE_TEXT.search(run.text)
    if said:
        yield Sign("fatal", f"its output says: {said[0]}")
    elif run.exit_code == _KILLED_FOR_MEMORY:
        text = "exit code 137: killed from outside, most often for want of memory"
        yield Sign("fatal", text, value=137.0)
    if run.free_disk_gb is not None and run.free_disk_gb < _LEAST_DISK_GB:
        yield Sign("fatal", "GB left on the disk", run.free_disk_gb, _LEAST_DISK_GB)


def duplicate_seed(run: Vitals) -> Iterator[Sign]:
    """Another live run has the same candidate, phase and seed."""
    if run.twins:
        text = f"same candidate, phase and seed: {', '.join(run.twins)}"
        yield Sign("warn", text, value=float(len(run.twins)))


# ---------------------------------------------------------------------------- learning curves


@dataclass(frozen=True, slots=True)
class Learning:
    """What is known about a run's learning; names of series are the canonical ones."""

    series: Mapping[str, Series]
    planned_steps: float | None = None
    """None: signs that depend on progress stay silent"""
    primary: str = "success"
    direction: Literal["max", "min"] = "max"
    discrete_actions: int | None = None
    """number of actions; None for continuous ones"""
    target_kl: float = 0.02
    gamma: float = 0.99
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """canonical name to logged name, where they differ"""

    def get(self, name: str) -> Series | None:
        """Return the finite points of a series with enough of them."""
        found = self.series.get(self.keys.get(name, name))
        kept = found.finite() if found else None
        return kept if kept and len(kept.values) >= _FEWEST_POINTS else None

    def metric(self) -> Series | None:
        """Return the primary metric, oriented so that larger is better."""
        found = self.get(self.primary)
        return found and found.oriented(self.direction)

    def early(self, series: Series, share: float) -> Series | None:
        """Return the points before a share of the planned steps."""
        if self.planned_steps is None:
            return None
        found = series.between(-math.inf, share * self.planned_steps)
        return found if len(found.values) >= _FEWEST_POINTS else None

    def is_past(self, series: Series, share: float) -> bool:
        """Return whether training has passed a share of the planned steps."""
        return self.planned_steps is not None and series.steps[-1] > share * self.planned_steps


def _learning(spec: MetricSpec, log: RunLog, planned: float | None) -> Learning:
    keys = {
        _WATCHED.get(each.signature, each.signature): each.key
        for each in spec.diagnostics
        if each.signature
    }
    facts = spec.model_extra or {}
    return Learning(
        series=log.series,
        planned_steps=planned,
        primary=spec.primary.key,
        direction=spec.primary.direction,
        discrete_actions=facts.get("x-discrete-actions"),
        target_kl=facts.get("x-target-kl", 0.02),
        gamma=facts.get("x-gamma", 0.99),
        keys=keys,
    )


def learning_signatures(run: Learning) -> list[Signature]:
    """Return every sign of trouble in the curves."""
    return _signatures(_LEARNING, run)


def nan_inf(run: Learning) -> Iterator[Sign]:
    """A loss, a return or a gradient norm is not a number."""
    names = {run.keys.get(run.primary, run.primary), *filter(_MAY_NOT_BE_NAN.search, run.series)}
    for name in sorted(names & run.series.keys()):
        steps, values, _ = run.series[name]
        bad = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            said = f"{name} is {values[bad]} at step {steps[bad]:g}"
            yield Sign("fatal", said, since_step=steps[bad])


def entropy_collapse(run: Learning) -> Iterator[Sign]:
    """The policy stops exploring early.

    Continuous actions are judged by the log of the standard deviation: a differential entropy may
    cross zero, so ratios of it say nothing.
    """
    is_discrete = bool(run.discrete_actions and run.discrete_actions > 1)
    found = run.get("entropy" if is_discrete else "log_std")
    early = run.early(found, 0.3) if found else None
    if early is None:
        return
    since = early.steps[-1]
    if is_discrete:
        share = early.values[-1] / math.log(run.discrete_actions or 2)
        if share < 0.05:
            said = "share of the largest possible entropy, before 30 % of training"
            severity = "fatal" if _is_return_flat(run) else "warn"
            yield Sign(severity, said, share, 0.05, since)
        return
    fall = early.values[0] - early.values[-1]
    if fall > 3.0:
        said = "nats per dimension that the mean log-std fell before 30 % of training"
        yield Sign("warn", said, fall, 3.0, since)


def exploration_blowup(run: Learning) -> Iterator[Sign]:
    """The noise of the policy grows instead of shrinking."""
    spread = run.get("log_std")
    if spread and (rise := spread.values[-1] - spread.values[0]) > 1.5:
        said = "nats per dimension that the mean log-std rose"
        yield Sign("warn", said, rise, 1.5, spread.steps[-1])


def kl_blowup(run: Learning) -> Iterator[Sign]:
    """Updates move the policy too far."""
    found = run.get("kl")
    if not found:
        return
    last, limit = found.values[-10:], 5 * run.target_kl
    above, largest = sum(value > limit for value in last), max(last)
    if above >= 3 or largest > 1.0:
        said = f"{above} of the last 10 updates above 5 times the target of {run.target_kl}"
        severity = "fatal" if largest > 1.0 else "warn"
        yield Sign(severity, said, largest, limit, found.steps[-len(last)])


def clip_saturation(run: Learning) -> Iterator[Sign]:
    """More than half of the samples are clipped, ten updates long."""
    found = run.get("clip_fraction")
    if found and min(found.values[-10:]) > 0.5:
        said = "clip fraction of the last 10 updates"
        yield Sign("warn", said, mean(found.values[-10:]), 0.5, found.steps[-10])


def value_explosion(run: Learning) -> Iterator[Sign]:
    """The critic diverges: its loss grows without end, or values exceed what is possible."""
    loss = run.get("value_loss")
    if loss:
        usual = statistics.median(loss.values[: max(1, len(loss.values) // 10)])
        rising = slope(Series(loss.steps[-10:], loss.values[-10:])) or 0.0
        if usual > 0 and loss.values[-1] > _EXPLODES * usual and rising > 0:
            said = "value loss, in medians of the first tenth of training, and rising"
            yield Sign("fatal", said, loss.values[-1] / usual, _EXPLODES, loss.steps[-10])
    values, rewards = run.get("value"), run.get("reward")
    if values and rewards and run.gamma < 1:
        # |V| <= max|r| / (1 - gamma) for any policy
        limit = 10 * max(map(abs, rewards.values)) / (1 - run.gamma)
        if abs(values.values[-1]) > limit > 0:
            said = "value above ten times max|r| / (1 - gamma)"
            yield Sign("fatal", said, values.values[-1], limit, values.steps[-1])


def critic_useless(run: Learning) -> Iterator[Sign]:
    """The critic explains less than a constant would."""
    found = run.get("explained_variance")
    if found and run.planned_steps is not None and len(found.values) >= 20:
        last, since = found.values[-20:], found.steps[-20]
        if since >= 0.2 * run.planned_steps and max(last) < 0:
            yield Sign("warn", "explained variance of the last 20 updates", mean(last), 0.0, since)


def reward_regression(run: Learning) -> Iterator[Sign]:
    """The return fell well below its best; the lowest value seen counts as zero."""
    found = run.get("return")
    if not found:
        return
    values, width = found.values, max(1, len(found.values) // 10)
    windows = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    best, last, zero = max(windows), windows[-1], min(values)
    if last - zero < 0.7 * (best - zero):
        said = "mean return of the last tenth against the best tenth"
        since = found.steps[windows.index(best)]
        yield Sign("warn", said, (last - zero) / (best - zero), 0.7, since)


def metric_divergence(run: Learning) -> Iterator[Sign]:
    """The return rises and the metric does not: time for a reflection on the reward."""
    found, metric = run.get("return"), run.metric()
    if not found or not metric or run.primary == "return":
        return
    up, real = gain(found, 0.2), gain(metric, 0.2)
    if up is not None and real is not None and up > 1 and real <= _NO_GAIN:
        said = f"return up by {up:.2g} standard deviations, {run.primary} by {real:.2g}"
        yield Sign("warn", said, up, 1.0, found.last(0.2).steps[0])


def early_termination(run: Learning) -> Iterator[Sign]:
    """One way to fail ends nearly all episodes."""
    for name in sorted(run.series):
        if not name.startswith("termination/") or _NOT_EARLY.search(name):
            continue
        found = run.get(name)
        share = mean(found.values[-10:]) if found and run.is_past(found, 0.3) else None
        if found and share is not None and share > 0.9:
            yield Sign("warn", f"share of episodes ended by {name}", share, 0.9, found.steps[-10])


def throughput_drop(run: Learning) -> Iterator[Sign]:
    """Training has become much slower than it was."""
    found = run.get("sps")
    if not found:
        return
    usual, last = statistics.median(found.values[:-5]), found.values[-5:]
    if max(last) < 0.3 * usual:
        said = "steps per second against their median"
        yield Sign("warn", said, max(last) / usual, 0.3, found.steps[-5])


def _is_return_flat(run: Learning) -> bool:
    found = run.get("return")
    change = gain(found, 0.5) if found else None
    return change is not None and abs(change) <= _NO_GAIN


_LEARNING: tuple[Callable[[Learning], Iterator[Sign]], ...] = (
    *(nan_inf, entropy_collapse, exploration_blowup, kl_blowup, clip_saturation),
    *(value_explosion, critic_useless, reward_regression, metric_divergence),
    *(early_termination, throughput_drop),
)
