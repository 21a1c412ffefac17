"""Monitor a run: is it alive, is it learning, and what to do about it. Nothing is stopped here."""

from __future__ import annotations

import math
import re
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from telic.storage.journal import JournalEntry
from telic.studies.canonical import moment, utc_now
from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.evidence.logs import Series, gain, slope
from telic.studies.evidence.measurement import (
    ARTEFACTS,
    RunLog,
    last_step,
    missing_outputs,
    read_run_log,
    run_state,
)
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.process import RunProcess

if TYPE_CHECKING:
    from telic.studies.study import Study

WATCH_EVERY = timedelta(minutes=10)
"""longest time between two monitor reports of a live run"""
_GIB = 2**30
_TEXT_BYTES = 20_000
_REMOTE_S = 120.0
"""a process on another machine counts as alive while its heartbeat is younger"""
_PATIENCE_S, _PATIENCE_GAPS = 120.0, 10
_MIN_DISK_GB = 2.0
_OUT_OF_MEMORY_CODE = 137
_RESOURCE_TEXT = re.compile(
    r"out of memory|OutOfMemory|CUDA error: |Cannot allocate memory|No space left on device|"
    r"GPU has fallen off the bus|Unable to determine the device handle|oom-kill",
    re.IGNORECASE,
)
_NOTHING_TO_KEEP = {"nan_inf", "resource", "dead", "silent_failure", "stalled"}
_MIN_POINTS = 10
_MUST_BE_FINITE = re.compile(r"loss|return|reward|grad", re.IGNORECASE)
_HIGH_KL = 0.1
"""five times the usual target"""
_FLAT = 0.2
"""pooled standard deviations within which a metric counts as flat"""
Severity = Literal["info", "warn", "fatal"]
Recommendation = Literal["continue", "checkpoint_and_stop", "kill", "inspect"]


class Signature(DocumentPart):
    """A sign of trouble."""

    id: str
    severity: Severity
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None
    evidence: str


class MonitorReport(Document):
    """The health of a run."""

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
    """Return the health of a run, from its files and the process table alone."""
    state, spec = run_state(study.state.runs, run), study.metric_spec
    log = read_run_log(study.folder, run)
    steps = study.candidate(state.candidate).plan.steps
    planned = None if steps is None else steps * study.contract.phase_share(state.phase, steps)
    vitals = _vitals(study, run, log)
    curves = learning_signatures(log.series, spec.primary.key, spec.primary.direction)
    signs = (*vital_signatures(vitals), *curves)
    fatal = {sign.id for sign in signs if sign.severity == "fatal"}
    recommendation: Recommendation = "inspect" if signs else "continue"
    if fatal and vitals.is_alive:  # a policy that may have been good before keeps its checkpoint
        recommendation = "kill" if fatal & _NOTHING_TO_KEEP else "checkpoint_and_stop"
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
        recommendation=recommendation,
        problems=log.problems,
    )


def monitor_run(study: Study, run: str, actor: StudyActor) -> MonitorReport:
    """Return the health of a run and record what is new: alerts that began or were cleared."""
    report = look_at_run(study, run)
    now = {sign.id: sign for sign in report.signatures}
    events = study.events_of("monitor.alert", about=(run,))
    before = open_alerts(events, [run])[run]
    begun = {name: sign for name, sign in now.items() if before.get(name) != sign.severity}
    cleared = sorted(before.keys() - now.keys())
    if begun:
        sheet = add_evidence(
            study,
            "monitor",
            report.as_data(),
            actor,
            run=run,
            candidate=study.state.runs[run].candidate,
            producer="telic.monitor",
            summary=", ".join(sorted(now)),
        )
        for name, sign in begun.items():
            facts = {"run": run, "signature": name, "severity": sign.severity, "evidence": sheet.id}
            study.append("monitor.alert", run, facts, actor)
    last = moment(events[-1].at if events else study.state.runs[run].intent_at)
    if cleared or (not begun and moment(utc_now()) - last > WATCH_EVERY):
        # That a healthy run was monitored is recorded, too.
        name = cleared[0] if cleared else "looked"
        facts = {"run": run, "signature": name, "severity": "info", "cleared": cleared}
        study.append("monitor.alert", run, facts, actor)
    return report


# ---------------------------------------------------------------------------- recorded alerts


def open_alerts(events: Iterable[JournalEntry], runs: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the alerts of some runs that were not cleared: severity by run and signature."""
    found: dict[str, dict[str, str]] = {run: {} for run in runs}
    for event in events:
        alerts = found.get(str(event.subject))
        if event.kind == "monitor.alert" and alerts is not None:
            for cleared in event.data.get("cleared", ()):
                alerts.pop(cleared, None)
            if event.data["severity"] != "info":
                alerts[str(event.data["signature"])] = event.data["severity"]
    return found


def fatal_alerts(events: Iterable[JournalEntry], runs: Iterable[str]) -> tuple[str, ...]:
    """Return the open fatal alerts of some runs."""
    return tuple(
        f"{name} in {run}"
        for run, alerts in open_alerts(events, runs).items()
        for name, severity in alerts.items()
        if severity == "fatal"
    )


# ---------------------------------------------------------------------------- the process


@dataclass(frozen=True, slots=True)
class Vitals:
    """The state of a run's process; None is unknown."""

    is_alive: bool
    has_exit_record: bool = False
    exit_code: int | None = None
    silent_s: float | None = None
    """seconds since the last logged point"""
    median_gap_s: float | None = None
    """usual seconds between points"""
    lacks: tuple[str, ...] = ()
    """missing outputs of a complete run: marker, checkpoint"""
    text: str = ""
    """the end of its output"""
    free_disk_gb: float | None = None


def _vitals(study: Study, run: str, log: RunLog) -> Vitals:
    folder, outputs = study.folder.run(run), study.adapter.outputs
    process = RunProcess(folder)
    ended = process.exit_record
    is_killed = ended and ended.get("signal") == "SIGKILL" and ended.get("ended_by") is None
    is_alive = ended is None and process.state == "alive"
    if process.state == "unclaimed":
        is_alive = study.state.runs[run].is_live and ended is None
    if process.state == "elsewhere":
        beat = process.heartbeat
        age = datetime.now(UTC) - moment(beat["at"]) if beat else timedelta()
        is_alive = study.state.runs[run].is_live and age.total_seconds() < _REMOTE_S
    logged = {when for series in log.series.values() for when in series.times}
    times = sorted(when for when in logged if when is not None)
    gaps = [b - a for a, b in pairwise(times)]
    # A log that counts from the start of training has no date.
    written = [when for when in times if when > 1e9]
    files = [*(folder / ARTEFACTS).rglob("*"), *folder.glob("*.log")]
    written += [path.stat().st_mtime for path in files if path.is_file()]
    lacks: list[str] = []
    if ended:
        lacks = missing_outputs(folder, outputs)
    return Vitals(
        is_alive=is_alive,
        has_exit_record=ended is not None,
        exit_code=_OUT_OF_MEMORY_CODE if is_killed else (ended or {}).get("code"),
        silent_s=max(0.0, time.time() - max(written)) if written else None,
        median_gap_s=statistics.median(gaps) if gaps else None,
        lacks=tuple(lacks),
        text="\n".join(_tail(folder / name) for name in ("stdout.log", "stderr.log")),
        free_disk_gb=shutil.disk_usage(study.root).free / _GIB,
    )


def _tail(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TEXT_BYTES))
        return file.read().decode(errors="replace")


def _sign(
    name: str,
    severity: Severity,
    evidence: str,
    value: float | None = None,
    threshold: float | None = None,
    since: float | None = None,
) -> Signature:
    return Signature(
        id=name,
        severity=severity,
        evidence=evidence,
        value=value,
        threshold=threshold,
        since_step=since,
    )


def vital_signatures(run: Vitals) -> Iterator[Signature]:
    """Yield every sign of trouble in the process."""
    limit = max(_PATIENCE_S, _PATIENCE_GAPS * (run.median_gap_s or 0.0))
    if run.is_alive and run.silent_s is not None and run.silent_s > limit:
        severity = "fatal" if run.silent_s > 3 * limit else "warn"
        yield _sign("stalled", severity, "seconds without a new point", run.silent_s, limit)
    if not run.is_alive and not run.has_exit_record:
        yield _sign("dead", "fatal", "the process is gone and left no exit record")
    if run.has_exit_record and run.exit_code == 0 and run.lacks:
        text = f"exit code 0, but missing: {', '.join(run.lacks)}"
        yield _sign("silent_failure", "fatal", text)
    if found := _RESOURCE_TEXT.search(run.text):
        yield _sign("resource", "fatal", f"its output says: {found[0]}")
    elif run.exit_code == _OUT_OF_MEMORY_CODE:
        yield _sign("resource", "fatal", "exit code 137: killed, most often for lack of memory")
    if run.free_disk_gb is not None and run.free_disk_gb < _MIN_DISK_GB:
        yield _sign("resource", "fatal", "GB of free disk", run.free_disk_gb, _MIN_DISK_GB)


# ---------------------------------------------------------------------------- learning curves


def learning_signatures(
    series: Mapping[str, Series], primary: str, direction: str
) -> Iterator[Signature]:
    """Yield every sign of trouble in the learning curves."""
    found = {name: each.finite() for name, each in series.items()}
    long = {name: each for name, each in found.items() if len(each.values) >= _MIN_POINTS}
    for name in sorted({primary, *filter(_MUST_BE_FINITE.search, series)} & series.keys()):
        steps, values, _ = series[name]
        bad = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            text = f"{name} is {values[bad]} at step {steps[bad]:g}"
            yield _sign("nan_inf", "fatal", text, since=steps[bad])
    if kl := long.get("kl"):
        last = kl.values[-10:]
        above, largest = sum(value > _HIGH_KL for value in last), max(last)
        if above >= 3 or largest > 1.0:
            text = f"{above} of the last 10 updates above {_HIGH_KL}"
            severity = "fatal" if largest > 1.0 else "warn"
            yield _sign("kl_blowup", severity, text, largest, _HIGH_KL, kl.steps[-10])
    if loss := long.get("value_loss"):
        usual = statistics.median(loss.values[: max(1, len(loss.values) // 10)])
        rising = slope(Series(loss.steps[-10:], loss.values[-10:])) or 0.0
        if usual > 0 and loss.values[-1] > 100 * usual and rising > 0:
            times, text = loss.values[-1] / usual, "value loss, in medians of the first tenth"
            yield _sign("value_explosion", "fatal", text, times, 100.0, loss.steps[-10])
    returns, metric = long.get("return"), long.get(primary)
    if returns:
        # The lowest value seen counts as zero.
        values, width = returns.values, max(1, len(returns.values) // 10)
        windows = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
        best, last, zero = max(windows), windows[-1], min(values)
        if last - zero < 0.7 * (best - zero):
            share, since = (last - zero) / (best - zero), returns.steps[windows.index(best)]
            text = "mean return of the last tenth against the best tenth"
            yield _sign("reward_regression", "warn", text, share, 0.7, since)
    if returns and metric and primary != "return":
        up, real = gain(returns, 0.2), gain(metric.oriented(direction), 0.2)
        if up is not None and real is not None and up > 1 and real <= _FLAT:
            text = f"return up by {up:.2g} standard deviations, {primary} by {real:.2g}"
            since = returns.last(0.2).steps[0]
            yield _sign("metric_divergence", "warn", text, up, 1.0, since)
