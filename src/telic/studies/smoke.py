"""Prove adapter.yaml by a smoke test: short trainings of the baseline through the launch path.

One seed runs twice, once more with twice the steps, and another seed once. This shows that the
command starts, that steps and seeds have an effect, that the metric is where the adapter says, and
that the evaluator evaluates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

from telic.core.config import Record
from telic.studies.candidates import new_candidate
from telic.studies.decide import decide
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
    """Run the baseline in its smoke phase, behind every gate, and judge the adapter.

    Raises GateRefused if a gate is shut, and StudyError E_PROVEN_LATE if the baseline has left its
    smoke phase.
    """
    candidate = _baseline(study, actor)
    first, *others = sorted(study.planned_seeds(candidate, "smoke"))
    train = study.adapter.commands.smoke or study.adapter.commands.train
    # Another seed comes last: it ends the phase.
    plan = [(first, 1)]
    if train is not None and any("{steps}" in word for word in train.argv):
        plan.append((first, 2))
    if study.adapter.seeds.controllable:
        plan += [(first, 1), *((seed, 1) for seed in others[:1])]
    sheets: dict[tuple[int, int], list[Evidence]] = {}
    for seed, times in plan:
        on_step(f"smoke run of {candidate} with seed {seed}{' and twice the steps' * (times > 1)}")
        sheet = _run(study, candidate, seed, times, actor)
        sheets.setdefault((seed, times), []).append(sheet)
        if study.candidate_state(candidate).status == CandidateStatus.DEBUG:
            break
    proof = SmokeProof(
        candidate=candidate,
        runs=tuple(sheet.payload["run"] for found in sheets.values() for sheet in found),
        adapter_hash=study.adapter.proven_hash,
        checks=tuple(_checks(study, sheets, first)),
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


def proof_of(study: Study) -> list[dict[str, Any]] | None:
    """Return the checks of the last smoke test of the adapter as it is; None without one."""
    for name in reversed(study.evidence_names("preflight")):
        payload = study.sheet(name).payload
        if payload.get("adapter_hash") == study.adapter.proven_hash:
            return payload["checks"]
    return None


def _baseline(study: Study, actor: StudyActor) -> str:
    """Return the baseline, drafted and validated if there is none yet."""
    ended = (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
    found = [
        name
        for name, each in study.state.candidates.items()
        if each.kind == "baseline" and each.status not in ended
    ]
    if not found:
        found = [new_candidate(study, "baseline", {"kind": "baseline"}, actor).id]
    name = found[-1]
    held = study.candidate_state(name)
    if held.status in (CandidateStatus.COMPLETED, CandidateStatus.DEBUG) and held.phase == "smoke":
        why = "the adapter is proven again with a new baseline"
        decide(study, name, "reject", actor, why, cause="phase_rule")
        return _baseline(study, actor)
    if held.status == CandidateStatus.DRAFT:
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


def _run(study: Study, candidate: str, seed: int, times: int, actor: StudyActor) -> Evidence:
    """Launch one smoke run, wait for its end and measure it."""
    request = LaunchRequest(candidate, "smoke", seed, execute=True, confirm=TOKEN, times=times)
    run = launch(study, request, actor).run
    while study.state.runs[run].is_live:
        time.sleep(_POLL_S)
        reconcile(study, processes=True)
    return ingest(study, run, actor)


# ---------------------------------------------------------------------------- checks


def _checks(
    study: Study, sheets: dict[tuple[int, int], list[Evidence]], first: int
) -> Iterator[SmokeCheck]:
    measured = [sheet.payload for found in sheets.values() for sheet in found]
    runs = [study.state.runs[each["run"]] for each in measured]
    failed = [f"{run.status} {run.why}".strip() for run in runs if run.status != RunStatus.FINISHED]
    yield SmokeCheck(name="starts", passed=not failed, why="; ".join(failed) or "runs finished")
    missing = measured[0]["missing"]
    lacks = measured[0]["problem"] or f"missing: {', '.join(missing)}"
    lacks += "; a batch may be larger than baseline.smoke_steps of the contract"
    why = lacks if missing else f"{study.metric_spec.primary.key} found"
    yield SmokeCheck(name="metric", passed=not missing, why=why)
    if failed:
        return
    double = sheets.get((first, 2))
    reached = (measured[0]["steps"], double[0].payload["steps"] if double else None)
    if double is None:
        yield SmokeCheck(name="steps", passed=None, why="the command has no {steps}")
    elif None in reached:
        yield SmokeCheck(name="steps", passed=None, why="the log has no numbers to count")
    else:
        asked = f"{runs[0].reservation.env_steps:g} steps end at {reached[0]:g} in the log"
        why = f"{asked}, twice as many at {reached[1]:g}"
        yield SmokeCheck(name="steps", passed=reached[1] > reached[0], why=why)
    same = sheets[first, 1]
    others = [found[0] for (seed, _), found in sheets.items() if seed != first]
    if len(same) < 2 or not others:
        is_set = study.adapter.seeds.controllable
        why = "the plan has one smoke seed only" if is_set else "the seed cannot be set"
        yield SmokeCheck(name="seed", passed=None, why=why)
    else:
        one, again, other = (
            (each.payload["curves"], each.payload["primary"]) for each in (*same[:2], others[0])
        )
        words = "the same numbers: the seed is ignored" if one == other else "different numbers"
        yield SmokeCheck(name="seed", passed=one != other, why=f"two seeds give {words}")
        declared = study.adapter.seeds.deterministic == "no"
        words = "the same numbers" if one == again else "different numbers"
        why = f"one seed gives {words} twice" + (" (declared nondeterministic)" if declared else "")
        yield SmokeCheck(name="repeat", passed=one == again or declared, why=why)
    yield _evaluator(study, measured[0])


def _evaluator(study: Study, measured: dict[str, Any]) -> SmokeCheck:
    """Check that the evaluator ran on a checkpoint and neither wrote nor changed one."""
    if study.protocol.command is None:
        why = "the protocol names no evaluator; the training log is measured"
        return SmokeCheck(name="evaluator", passed=None, why=why)
    if not any("{checkpoint}" in word for word in study.protocol.command.argv):
        why = "its command has no {checkpoint}"
        return SmokeCheck(name="evaluator", passed=False, why=why)
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
