"""Prove adapter.yaml by smoke runs: three short trainings of the baseline through the launch path.

Two runs share a seed, the third has another one. They show that the command starts, that steps and
seeds have an effect, that the metric is where the adapter says, and that the evaluator evaluates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

from telic.core.config import Record
from telic.studies.candidates import new_candidate
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import CandidateStatus, Evidence, RunStatus
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.attempt import ARTEFACTS, LaunchRequest
from telic.studies.launch.evaluations import EVALUATIONS, NOMINAL
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile
from telic.studies.queue import TOKEN
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.stops import ingest
from telic.studies.study import Study

_POLL_S = 0.1
_MOST_OVERSHOOT = 2.0
"""a run may train one rollout more than it was asked for, but not twice the steps"""


class SmokeCheck(Record):
    """One property of the adapter."""

    name: Literal["starts", "metric", "steps", "seed", "repeat", "evaluator"]
    passed: bool | None
    """None: the runs cannot show it"""
    why: str


class SmokeProof(Record):
    """The results of the smoke runs."""

    candidate: str
    runs: tuple[str, ...]
    adapter_hash: str
    checks: tuple[SmokeCheck, ...]
    evidence: str = ""

    @property
    def ok(self) -> bool:
        """No check failed."""
        return all(check.passed is not False for check in self.checks)


def prove_adapter(
    study: Study, actor: StudyActor, on_step: Callable[[str], None] = lambda _: None
) -> SmokeProof:
    """Run the baseline three times in its smoke phase, behind every gate, and judge the adapter.

    Raises GateRefused if a gate is shut, and StudyError E_PROVEN_LATE if the baseline has left its
    smoke phase.
    """
    candidate = _baseline(study, actor)
    first, *others = sorted(study.planned_seeds(candidate, "smoke"))
    seeds = [first, first, *others[:1]] if study.adapter.seeds.controllable else [first]
    sheets: list[Evidence] = []
    for seed in seeds:
        on_step(f"smoke run of {candidate} with seed {seed}")
        sheets.append(_run(study, candidate, seed, actor))
        if study.candidate_state(candidate).status == CandidateStatus.DEBUG:
            break
    proof = SmokeProof(
        candidate=candidate,
        runs=tuple(sheet.payload["run"] for sheet in sheets),
        adapter_hash=study.adapter.compute_hash(),
        checks=tuple(_checks(study, sheets)),
    )
    result = "passed" if proof.ok else "failed"
    sheet = add_evidence(
        study,
        "preflight",
        proof.model_dump(mode="json", exclude={"evidence"}),
        actor,
        candidate=candidate,
        producer="telic.smoke",
        summary=f"adapter {result} its smoke runs",
    )
    return proof.model_copy(update={"evidence": sheet.id})


def _baseline(study: Study, actor: StudyActor) -> str:
    """Return the baseline, drafted and validated if there is none yet."""
    ended = (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
    found = [
        name
        for name, each in study.state.candidates.items()
        if each.kind == "baseline" and each.status not in ended
    ]
    if not found:
        seeds = sorted(study.contract.seeds.pool("selection"))[:2]
        plan = {"kind": "baseline", "plan": {"seeds": {"smoke": seeds}}}
        found = [new_candidate(study, "baseline", plan, actor).id]
    name = found[-1]
    if study.candidate_state(name).status == CandidateStatus.DRAFT:
        outcome = validate_candidate(study, name)
        if not outcome.ok:
            why = "; ".join(f"{check.id} {check.why}" for check in outcome.checks if check.why)
            raise InvalidDocument("E_INVALID", f"The baseline is not valid: {why}.")
    held = study.candidate_state(name)
    is_waiting = held.status in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)
    if not is_waiting or held.phase not in (None, "smoke"):
        raise StudyError(
            "E_PROVEN_LATE",
            f"{name} is {held.status} in phase {held.phase}; its smoke phase is over.",
            hint="Revise it (telic study propose --revise) to run its smoke phase again.",
        )
    return name


def _run(study: Study, candidate: str, seed: int, actor: StudyActor) -> Evidence:
    """Launch one smoke run, wait for its end and measure it."""
    request = LaunchRequest(candidate, "smoke", seed, execute=True, confirm=TOKEN)
    run = launch(study, request, actor).run
    while study.state.runs[run].is_live:
        time.sleep(_POLL_S)
        reconcile(study, processes=True)
    return ingest(study, run, actor)


# ---------------------------------------------------------------------------- checks


def _checks(study: Study, sheets: list[Evidence]) -> Iterator[SmokeCheck]:
    measured = [sheet.payload for sheet in sheets]
    runs = [study.state.runs[each["run"]] for each in measured]
    failed = [f"{run.status} {run.why}".strip() for run in runs if run.status != RunStatus.FINISHED]
    yield SmokeCheck(name="starts", passed=not failed, why="; ".join(failed) or "runs finished")
    missing = measured[0]["missing"]
    lacks = measured[0]["problem"] or f"missing: {', '.join(missing)}"
    why = lacks if missing else f"{study.metric_spec.primary.key} found"
    yield SmokeCheck(name="metric", passed=not missing, why=why)
    if failed:
        return
    adapter, planned, reached = study.adapter, runs[0].reservation.env_steps, measured[0]["steps"]
    train = adapter.commands.smoke or adapter.commands.train
    if train is None or not any("{steps}" in word for word in train.argv):
        yield SmokeCheck(name="steps", passed=None, why="the command has no {steps}")
    elif planned is None or reached is None:
        yield SmokeCheck(name="steps", passed=None, why="no step count in the plan or the log")
    else:
        least = adapter.outputs.completion.min_step_fraction * planned
        why = f"asked for {planned:g} steps, trained {reached:g}"
        passed = least <= reached <= _MOST_OVERSHOOT * planned
        yield SmokeCheck(name="steps", passed=passed, why=why)
    if len(measured) < 3:
        why = "the seed cannot be set" if len(measured) == 1 else "the plan has one smoke seed only"
        yield SmokeCheck(name="seed", passed=None, why=why)
    else:
        first, again, other = ((each["curves"], each["primary"]) for each in measured)
        words = "the same numbers: the seed is ignored" if first == other else "different numbers"
        yield SmokeCheck(name="seed", passed=first != other, why=f"two seeds give {words}")
        declared = adapter.seeds.deterministic == "no"
        words = "the same numbers" if first == again else "different numbers"
        why = f"one seed gives {words} twice" + (" (declared nondeterministic)" if declared else "")
        yield SmokeCheck(name="repeat", passed=first == again or declared, why=why)
    yield _evaluator(study, measured[0])


def _evaluator(study: Study, measured: dict[str, Any]) -> SmokeCheck:
    """Check that the evaluator ran on a checkpoint and neither wrote nor changed one."""
    if study.protocol.command is None:
        why = "the protocol names no evaluator; the training log is measured"
        return SmokeCheck(name="evaluator", passed=None, why=why)
    artefacts = study.folder.run(measured["run"]) / ARTEFACTS
    home = artefacts / EVALUATIONS
    if measured["primary"] is None or not home.is_dir():
        why = measured["problem"] or "it did not run"
        return SmokeCheck(name="evaluator", passed=False, why=why)
    began = (home / NOMINAL).stat().st_mtime_ns
    checkpoints = artefacts.glob(study.adapter.outputs.checkpoint_glob or "")
    written = [
        path.name
        for path in checkpoints
        if path.is_file() and (path.is_relative_to(home) or path.stat().st_mtime_ns > began)
    ]
    why = f"it wrote {written[0]}, as a trainer does" if written else "it evaluated"
    return SmokeCheck(name="evaluator", passed=not written, why=why)
