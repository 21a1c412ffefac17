"""Look at a run: is it alive, is it learning, and what to do about it. Nothing is stopped here."""

from __future__ import annotations

import re
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from telic.studies.canonical import moment, utc_now
from telic.studies.documents.adapter import RepositoryOutputs
from telic.studies.documents.base import Document, StudyActor
from telic.studies.evidence.measurement import ARTEFACTS, RunLog, last_step, read_run_log, run_state
from telic.studies.evidence.signatures import (
    Learning,
    Look,
    Sign,
    Signature,
    learning_signatures,
    open_alerts,
    signatures,
)
from telic.studies.evidence.store import add_evidence
from telic.studies.folder import StudyFolder
from telic.studies.launch.process import RunProcess
from telic.studies.state import RunState, StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study

_GIB = 2**30
_TEXT_BYTES = 20_000
_ELSEWHERE_S = 120.0
"""a process on another machine counts as alive while its heartbeat is younger"""
_SPOILS_THE_POLICY = ("nan_inf", "resource", "dead", "silent_failure", "stalled")

_WATCHED = {
    "entropy_collapse": "entropy",
    "exploration_blowup": "log_std",
    "kl_blowup": "kl",
    "clip_saturation": "clip_fraction",
    "lr_floor": "learning_rate",
    "value_explosion": "value_loss",
    "critic_useless": "explained_variance",
    "reward_plateau": "return",
    "reward_regression": "return",
    "throughput_drop": "sps",
}
"""the series that a signature of the metric spec's diagnostics looks at"""

_PATIENCE_S = 120.0
_PATIENCE_GAPS = 10
_LEAST_DISK_GB = 2.0
_RESOURCE_TEXT = re.compile(
    r"out of memory|OutOfMemory|CUDA error: |Cannot allocate memory|No space left on device|"
    r"GPU has fallen off the bus|Unable to determine the device handle|oom-kill",
    re.IGNORECASE,
)
_KILLED_FOR_MEMORY = 137

Recommendation = Literal["continue", "checkpoint_and_stop", "kill", "inspect"]
WATCH_EVERY = timedelta(minutes=10)
"""how long a live run may go without a look"""


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
    is_step_unchanged: bool = True
    """the step counter has stood still over that time"""
    lacks: tuple[str, ...] = ()
    """what a complete run leaves and this one did not: marker, checkpoint, steps"""
    text: str = ""
    """the end of its output"""
    free_disk_gb: float | None = None
    twins: tuple[str, ...] = ()
    """other live runs of the same candidate, phase and seed"""


def look_at_run(study: Study, run: str) -> MonitorReport:
    """Return how a run is doing, from its files and the process table alone."""
    folder, state = study.folder, study.state
    run_now = run_state(state.runs, run)
    log = read_run_log(folder, run)
    steps = study.candidate(run_now.candidate).plan.steps
    share = study.contract.phase_share(run_now.phase, steps)
    planned = None if steps is None else steps * share
    vitals = _vitals(folder, state, run, log, planned)
    signs = (*vital_signatures(vitals), *learning_signatures(_learning(folder, log, planned)))
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
        recommendation=recommend(signs, vitals.is_alive),
        problems=log.problems,
    )


def monitor_run(study: Study, run: str, actor: StudyActor) -> MonitorReport:
    """Look at a run and enter what is new: trouble that began, trouble that is over."""
    state = study.state
    report = look_at_run(study, run)
    now = {sign.id: sign for sign in report.signatures if sign.severity != "info"}
    before = open_alerts(study.events_of("monitor.alert", about=(run,)), run)
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
    if over or (not begun and _was_long_ago(study, run)):
        # Somebody looked: that, too, is worth a line, or nobody would know that it was done.
        name = over[0] if over else "looked"
        facts = {"run": run, "signature": name, "severity": "info", "cleared": over}
        study.append("monitor.alert", run, facts, actor)
    return report


def _was_long_ago(study: Study, run: str) -> bool:
    """Tell whether nobody entered a look at a run for a while."""
    alerts = study.events_of("monitor.alert", about=(run,))
    since = moment(alerts[-1].at if alerts else study.state.runs[run].intent_at)
    return moment(utc_now()) - since > WATCH_EVERY


def recommend(signs: tuple[Signature, ...], is_alive: bool) -> Recommendation:
    """Return what to do; only fatal signs speak for an end, and only of what still runs.

    A run whose policy may have been good before keeps its checkpoint; one with nothing to keep
    is killed.
    """
    fatal = {each.id for each in signs if each.severity == "fatal"}
    if fatal and is_alive:
        return "kill" if fatal & set(_SPOILS_THE_POLICY) else "checkpoint_and_stop"
    if fatal or any(each.severity == "warn" for each in signs):
        return "inspect"
    return "continue"


def _learning(folder: StudyFolder, log: RunLog, planned: float | None) -> Learning:
    spec = folder.read_metric_spec()
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
        target=spec.primary.target,
        discrete_actions=facts.get("x-discrete-actions"),
        target_kl=facts.get("x-target-kl", 0.02),
        gamma=facts.get("x-gamma", 0.99),
        keys=keys,
    )


def _vitals(
    folder: StudyFolder, state: StudyState, run: str, log: RunLog, planned: float | None
) -> Vitals:
    inside, own = folder.run(run), state.runs[run]
    process = RunProcess(inside)
    ended = process.exit_record
    job = attrgetter("candidate", "phase", "seed")
    outputs = folder.read_adapter().outputs
    logged = {when for series in log.series.values() for when in series.times}
    times = sorted(when for when in logged if when is not None)
    gaps = [b - a for a, b in pairwise(times)]
    return Vitals(
        is_alive=ended is None and _is_alive(process, own),
        has_exit_record=ended is not None,
        exit_code=_exit_code(ended) if ended else None,
        silent_s=_silence(inside, times),
        median_gap_s=statistics.median(gaps) if gaps else None,
        lacks=_lacking(inside, outputs, log, planned) if ended else (),
        text=_tail(inside),
        free_disk_gb=shutil.disk_usage(folder.root).free / _GIB,
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


def _exit_code(ended: dict[str, Any]) -> int | None:
    is_killed = ended.get("signal") == "SIGKILL" and ended.get("ended_by") is None
    return _KILLED_FOR_MEMORY if is_killed else ended.get("code")


def _lacking(
    inside: Path, outputs: RepositoryOutputs, log: RunLog, planned: float | None
) -> tuple[str, ...]:
    """Return what a complete run leaves and this one did not."""
    artefacts, rule = inside / ARTEFACTS, outputs.completion
    lacks: list[str] = []
    if rule.marker_file and not (artefacts / rule.marker_file).exists():
        lacks.append(f"marker {rule.marker_file}")
    if outputs.checkpoint_glob and not any(artefacts.glob(outputs.checkpoint_glob)):
        lacks.append(f"checkpoint {outputs.checkpoint_glob}")
    reached = last_step(log.series)
    if planned and reached is not None and reached < rule.min_step_fraction * planned:
        lacks.append(f"{rule.min_step_fraction:.0%} of the steps ({reached:g} of {planned:g})")
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
    return signatures(_LOOKS, run)


def stalled(run: Vitals) -> Iterator[Sign]:
    """It lives, and nothing has come of it for long."""
    if not run.is_alive or run.silent_s is None or not run.is_step_unchanged:
        return
    limit = max(_PATIENCE_S, _PATIENCE_GAPS * (run.median_gap_s or 0.0))
    if run.silent_s > limit:
        severity = "fatal" if run.silent_s > 3 * limit else "warn"
        yield Sign(severity, "seconds without a new point", run.silent_s, limit)


def dead(run: Vitals) -> Iterator[Sign]:
    """It is gone and did not say how."""
    if not run.is_alive and not run.has_exit_record:
        yield Sign("fatal", "the process is gone and left no exit record")


def silent_failure(run: Vitals) -> Iterator[Sign]:
    """It says that all went well, and the results are not there."""
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
    """Another live run does the very same."""
    if run.twins:
        text = f"same candidate, phase and seed: {', '.join(run.twins)}"
        yield Sign("warn", text, value=float(len(run.twins)))


_LOOKS: tuple[Look[Vitals], ...] = (stalled, dead, silent_failure, resource, duplicate_seed)
