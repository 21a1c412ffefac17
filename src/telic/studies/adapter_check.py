"""Check adapter.yaml, record human confirmations, and verify the file with a smoke test.

The smoke test launches short baseline runs: one seed twice, the same seed with twice the steps, and
another seed once. It verifies that the command starts, that steps and seeds have an effect, that
the metric is logged at the location given in the adapter, and that the evaluator works.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.reading import MAX_TEXT_BYTES, check_file
from telic.studies.candidates import new_candidate
from telic.studies.decide import decide_candidate
from telic.studies.documents.adapter import FIELDS, Adapter, CommandSpec
from telic.studies.documents.base import StudyActor, read_document, value_at
from telic.studies.documents.candidate import CandidateStatus, Evidence, RunStatus
from telic.studies.draft import stand_ins
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.attempt import LaunchRequest
from telic.studies.launch.command import EVALUATIONS, NOMINAL, shell_problems
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile
from telic.studies.queue import TOKEN
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.gates import word_problems
from telic.studies.rules.results import ingest
from telic.studies.study import Study


class AdapterCheck(Record):
    """Problems and missing values of adapter.yaml."""

    file: str
    ok: bool
    problems: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """fields without a value"""


def check_adapter(study: Study) -> AdapterCheck:
    """Return the problems of adapter.yaml, including parse errors."""
    file = str(study.folder.adapter)
    try:
        adapter = read_document(study.folder.adapter, Adapter)
    except TelicError as error:
        return AdapterCheck(file=file, ok=False, problems=(error.message,))
    problems = (*_uncited(study.root, adapter), *_command_problems(study.root, adapter))
    data, known = adapter.as_data(), adapter.provenance
    unknown = [field for field in FIELDS if field not in known or known[field].status == "unknown"]
    return AdapterCheck(
        file=file,
        ok=not problems,
        problems=problems,
        unknown=tuple(field for field in unknown if _is_empty(value_at(data, field))),
    )


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, cast("dict[str, Any]", value).values()))
    return value in (None, False, "", [])


def _uncited(root: Path, adapter: Adapter) -> Iterator[str]:
    """Yield fields without a source, and sources that are missing from the repository."""
    cited = [(name, each.evidence) for name, each in adapter.provenance.items()]
    cited += [(each.id, tuple(filter(None, each.evidence.split(", ")))) for each in adapter.hazards]
    for name, provenance in adapter.provenance.items():
        if provenance.status == "inferred" and not provenance.evidence:
            yield f"provenance.{name}: an inferred value must cite its line (path:line)."
    for name, place in ((name, place) for name, places in cited for place in places):
        path, _, line = place.rpartition(":")
        path, number = (path, int(line)) if path and line.isdigit() else (place, 1)
        file = root / path
        try:
            if not file.resolve().is_relative_to(root.resolve()):
                yield f"{name}: {place} is outside the repository."
                continue
            check_file(file, MAX_TEXT_BYTES)
            count = file.read_bytes().count(b"\n") + 1
        except (OSError, TelicError):
            yield f"{name}: {place} is not a file in the repository."
            continue
        if not 1 <= number <= count:
            yield f"{name}: {place}: the file has {count} lines."


def _command_problems(root: Path, adapter: Adapter) -> Iterator[str]:
    train, seeds = adapter.commands.train, adapter.seeds
    for name in ("train", "eval", "smoke", "resume"):
        spec: CommandSpec | None = getattr(adapter.commands, name)
        if spec is not None:
            yield from (f"commands.{name}: {why}." for why in _spec_problems(root, spec))
    has_seed = train is not None and any("{seed}" in word for word in train.argv)
    if train and seeds.controllable and not (has_seed or seeds.flag or seeds.env_flag):
        yield "seeds: controllable, but no flag or {seed} in commands.train sets the seed."


def _spec_problems(root: Path, spec: CommandSpec) -> Iterator[str]:
    yield from shell_problems(spec.argv)
    yield from word_problems(spec.argv)
    yield from (f'"{word}" is a placeholder without a value' for word in stand_ins(spec.argv))
    folder, program = (root / spec.cwd).resolve(), spec.argv[0]
    if not folder.is_dir() or not folder.is_relative_to(root.resolve()):
        yield f"{spec.cwd} is not a folder in the repository"
        return
    own = None if spec.activate is None else root / spec.activate.path / "bin" / program
    is_here = "/" in program and (folder / program).is_file()
    if not (is_here or shutil.which(program) or (own and own.is_file())):
        yield f"the program {program} was not found"
    for word in spec.argv[1:]:
        if word.endswith(".py") and not (folder / word).is_file():
            yield f"the file {word} was not found"


# ---------------------------------------------------------------------------- smoke test

_POLL_S = 0.1


class SmokeCheck(Record):
    """Smoke test result for one property of the adapter."""

    name: Literal["starts", "metric", "steps", "seed", "repeat", "evaluator"]
    passed: bool | None
    """result, or None if the runs are inconclusive"""
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
        """True if no check failed."""
        return all(check.passed is not False for check in self.checks)


def prove_adapter(
    study: Study, actor: StudyActor, on_step: Callable[[str], None] = lambda _: None
) -> SmokeProof:
    """Launch the baseline's smoke runs through all gates and check the adapter.

    Raises GateRefused if a gate is closed, or StudyError E_PROVEN_LATE if the baseline is past its
    smoke phase.
    """
    candidate = _baseline(study, actor)
    first, *others = sorted(study.planned_seeds(candidate, "smoke"))
    train = study.adapter.commands.smoke or study.adapter.commands.train
    # The other seed runs last because it ends the phase.
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
    data = proof.model_dump(mode="json", exclude={"evidence"})
    text = f"adapter {result} its smoke runs"
    sheet = add_evidence(study, "preflight", data, actor, candidate=candidate, summary=text)
    return proof.model_copy(update={"evidence": sheet.id})


def proof_of(study: Study) -> list[dict[str, Any]] | None:
    """Return the checks of the last smoke test of the current adapter, or None."""
    for name in reversed(study.evidence_names("preflight")):
        payload = study.sheet(name).payload
        if payload.get("adapter_hash") == study.adapter.proven_hash:
            return payload["checks"]
    return None


def _baseline(study: Study, actor: StudyActor) -> str:
    """Return the baseline, which is drafted and validated first if it is missing."""
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
        why = "the adapter is verified again with a new baseline"
        decide_candidate(study, name, "reject", actor, why, cause="phase_rule")
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
            f"{name} is {held.status} in phase {held.phase}, after the end of its smoke phase.",
            hint="Revise it (telic study propose --revise) to repeat its smoke phase.",
        )
    return name


def _run(study: Study, candidate: str, seed: int, times: int, actor: StudyActor) -> Evidence:
    """Launch one smoke run, wait until it ends, and measure it."""
    request = LaunchRequest(candidate, "smoke", seed, confirm=TOKEN, times=times)
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
        yield SmokeCheck(name="steps", passed=None, why="the log has no values to count")
    else:
        asked = f"{runs[0].reservation.env_steps:g} steps reach {reached[0]:g} in the log"
        why = f"{asked}, twice as many at {reached[1]:g}"
        yield SmokeCheck(name="steps", passed=reached[1] > reached[0], why=why)
    same = sheets[first, 1]
    others = [found[0] for (seed, _), found in sheets.items() if seed != first]
    if len(same) < 2 or not others:
        is_set = study.adapter.seeds.controllable
        why = "the plan has only one smoke seed" if is_set else "the seed cannot be set"
        yield SmokeCheck(name="seed", passed=None, why=why)
    else:
        one, again, other = (
            (each.payload["curves"], each.payload["primary"]) for each in (*same[:2], others[0])
        )
        words = "equal values: the seed is ignored" if one == other else "different values"
        yield SmokeCheck(name="seed", passed=one != other, why=f"two seeds give {words}")
        declared = study.adapter.seeds.deterministic == "no"
        remedy = "declared" if declared else 'if that is expected, set seeds.deterministic: "no"'
        words = "equal values" if one == again else f"different values ({remedy})"
        why = f"equal seeds give {words}"
        yield SmokeCheck(name="repeat", passed=one == again or declared, why=why)
    yield _evaluator(study, measured[0])


def _evaluator(study: Study, measured: dict[str, Any]) -> SmokeCheck:
    """Check that the evaluator ran on a checkpoint and did not write or modify checkpoints."""
    if study.protocol.command is None:
        why = "the protocol names no evaluator; the training log is measured"
        return SmokeCheck(name="evaluator", passed=None, why=why)
    if not any("{checkpoint}" in word for word in study.protocol.command.argv):
        why = "its command has no {checkpoint}"
        return SmokeCheck(name="evaluator", passed=False, why=why)
    artifacts = study.folder.artifacts(measured["run"])
    home = artifacts / EVALUATIONS
    if measured["primary"] is None or not home.is_dir():
        why = measured["problem"] or "it did not run"
        return SmokeCheck(name="evaluator", passed=False, why=why)
    began = (home / NOMINAL).stat().st_mtime_ns
    checkpoints = artifacts.glob(study.adapter.outputs.checkpoint_glob or "")
    written = [
        path.name
        for path in checkpoints
        if path.is_file() and (path.is_relative_to(home) or path.stat().st_mtime_ns > began)
    ]
    why = f"it wrote {written[0]}, like a trainer" if written else "it evaluated"
    return SmokeCheck(name="evaluator", passed=not written, why=why)
