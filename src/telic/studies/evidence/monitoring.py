"""Look at a run: is it alive, is it learning, and what to do about it. Nothing is stopped here."""

from __future__ import annotations

import shutil
import statistics
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.studies.candidates import read_candidate
from telic.studies.documents.adapter import Outputs
from telic.studies.documents.base import Actor, Document
from telic.studies.evidence.logs import RunLog, read_run_log
from telic.studies.evidence.measuring import ARTEFACTS, last_step, run_state
from telic.studies.evidence.signatures import Learning, Signature, learning_signatures
from telic.studies.evidence.store import add_evidence
from telic.studies.evidence.vital_signs import Vitals, vital_signatures
from telic.studies.folder import StudyFolder
from telic.studies.launch import processes
from telic.studies.names import moment, utc_now
from telic.studies.state import RunState, StudyState
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

Recommendation = Literal["continue", "checkpoint_and_stop", "kill", "inspect"]


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


def look_at_run(folder: StudyFolder, state: StudyState, run: str) -> MonitorReport:
    """Return how a run is doing, from its files and the process table alone."""
    held = run_state(state.runs, run)
    log = read_run_log(folder, run)
    plan = read_candidate(folder, held.candidate).plan
    learning = _learning(folder, log, _planned(held, plan.steps))
    vitals = _vitals(folder, state, run, log, learning.planned_steps)
    signs = (*vital_signatures(vitals), *learning_signatures(learning))
    reached = last_step(log.series)
    planned = learning.planned_steps
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


def monitor_run(study: Study, run: str, actor: Actor) -> MonitorReport:
    """Look at a run and enter what is new: trouble that began, trouble that is over."""
    state = study.state
    report = look_at_run(study.folder, state, run)
    now = {each.id: each for each in report.signatures if each.severity != "info"}
    before = open_alerts(study, run)
    begun = {name: each for name, each in now.items() if before.get(name) != each.severity}
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
        for name, each in begun.items():
            facts = {"run": run, "signature": name, "severity": each.severity, "evidence": sheet.id}
            study.append("monitor.alert", run, facts, actor)
    if over:
        facts = {"run": run, "signature": over[0], "severity": "info", "cleared": over}
        study.append("monitor.alert", run, facts, actor)
    return report


def open_alerts(study: Study, run: str) -> dict[str, str]:
    """Return the trouble of a run that was entered and not cleared since: its severity by name."""
    found: dict[str, str] = {}
    for event in study.events:
        if event.type == "monitor.alert" and event.subject == run:
            for name in event.data.get("cleared", ()):
                found.pop(name, None)
            if event.data["severity"] != "info":
                found[event.data["signature"]] = event.data["severity"]
    return found


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


def _planned(held: RunState, steps: int | None) -> float | None:
    """Return the steps that a run of its phase makes."""
    from telic.studies.documents.contract import PHASE_SHARE

    return None if steps is None else steps * PHASE_SHARE.get(held.phase, 1.0)


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
    inside, held = folder.run(run), state.runs[run]
    ended = processes.read_exit(inside)
    outputs = folder.read_adapter().outputs
    times = sorted(
        {when for each in log.series.values() for when in each.times if when is not None}
    )
    gaps = [b - a for a, b in pairwise(times)]
    return Vitals(
        is_alive=ended is None and _is_alive(inside, held),
        has_exit_record=ended is not None,
        exit_code=_exit_code(ended),
        silent_s=_silence(inside, times),
        median_gap_s=statistics.median(gaps) if gaps else None,
        lacks=_lacking(inside, outputs, log, planned) if ended else (),
        text=_tail(inside),
        free_disk_gb=shutil.disk_usage(folder.root).free / _GIB,
        twins=tuple(
            name
            for name in state.active_runs
            if name != run and _job(state.runs[name]) == _job(held) and held.is_live
        ),
    )


def _job(run: RunState) -> tuple[str, str, int]:
    return run.candidate, run.phase, run.seed


def _is_alive(inside: Path, held: RunState) -> bool:
    record = processes.read_pid_record(inside)
    if record is None or processes.is_given_up(record):
        return held.is_live and record is None  # a scheduler may not have started it yet
    if processes.is_here(record):
        return processes.is_alive(record)
    beat = processes.read_heartbeat(inside)
    if beat is None:
        return held.is_live
    return (datetime.now(UTC) - moment(beat["at"])).total_seconds() < _ELSEWHERE_S


def _silence(inside: Path, times: list[float]) -> float | None:
    """Return the seconds since anything was logged, by the log's own clock or the files'."""
    files = [each.stat().st_mtime for each in (inside / ARTEFACTS).rglob("*") if each.is_file()]
    files += [each.stat().st_mtime for each in inside.glob("*.log")]
    # A log that counts from the start of training has no date.
    dated = [when for when in times if when > 1e9]
    newest = max([*files, *dated], default=None)
    return None if newest is None else max(0.0, time.time() - newest)


def _exit_code(ended: dict[str, Any] | None) -> int | None:
    if ended is None:
        return None
    if ended.get("signal") == "SIGKILL" and ended.get("ended_by") is None:
        return 137
    return ended.get("code")


def _lacking(inside: Path, outputs: Outputs, log: RunLog, planned: float | None) -> tuple[str, ...]:
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
