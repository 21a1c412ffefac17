"""One try of a session: its reward in words, formula and code, what changed, how it was judged."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from telic.authors.candidate import (
    Lesson,
    RewardCandidate,
    Selection,
    SessionIteration,
    reward_text,
    weights_in,
)
from telic.core.config import Record
from telic.rewards.contract import RewardSpec
from telic.session.control import DeliveredNotes
from telic.session.looks import Checkpoint
from telic.session.report._history import reward_terms
from telic.storage.facts import FindingFacts, MemberResultFacts
from telic.storage.files import as_record, read_facts, read_json_lines, read_record
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.web.details import PatientReader
from telic.web.place import WebPlace

_CONTEXT = 3


class RewardTermLine(Record):
    """A term of a reward, and what it gave over an evaluation episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    share: float | None
    """of all terms, by size without sign"""


class TermChange(Record):
    """What became of a term since the try before."""

    name: str
    change: Literal["new", "gone", "weight"]
    before: float | None
    after: float | None


class RewardChange(Record):
    """How a reward differs from the one it was made from."""

    parent: int
    before: str
    after: str
    unified: str
    """as a patch, three lines around every change"""
    terms: tuple[TermChange, ...]


class HealthFinding(Record):
    """Something about a training that looks wrong, in words."""

    name: str | None
    message: str
    step: int | None


class MemberLine(Record):
    """A policy of a training."""

    member: str
    seed: int | None
    best_step: int | None
    best_return: float | None
    findings: tuple[HealthFinding, ...]


class IterationDetail(Record):
    """Everything that the page of a candidate shows."""

    number: int
    candidate: RewardCandidate | None
    judged: SessionIteration | None
    code: str | None
    latex: str | None
    description: str | None
    terms: tuple[RewardTermLine, ...]
    change: RewardChange | None
    lessons: tuple[Lesson, ...]
    members: tuple[MemberLine, ...]
    selection: Selection | None
    checkpoints: tuple[Checkpoint, ...]
    """what the judge said while training went on"""
    notes: DeliveredNotes | None
    """what people had said, which this try answers"""
    damage: tuple[str, ...]


def read_iteration(folder: SessionFolder, number: int) -> IterationDetail:
    """Return what is known of one try."""
    files, reader = folder.iteration(number), PatientReader()
    candidate = reader.record(files.candidate, RewardCandidate)
    judged = reader.record(files.judgment, SessionIteration)
    best = _best(files, judged)
    spec = reader.record(best.reward_spec, RewardSpec) if best else None
    return IterationDetail(
        number=number,
        candidate=candidate,
        judged=judged,
        code=reader.tried(lambda: read_text(files.reward)) if files.reward.exists() else None,
        latex=spec.latex if spec else None,
        description=spec.description if spec else None,
        terms=reader.tried(lambda: _terms(best, judged)) or (),
        change=reader.tried(lambda: _change(folder, candidate, judged)),
        lessons=candidate.lessons if candidate else (),
        members=reader.tried(lambda: _members(files)) or (),
        selection=reader.record(files.selection, Selection),
        checkpoints=reader.tried(lambda: _checkpoints(files)) or (),
        notes=reader.record(files.notes, DeliveredNotes),
        damage=tuple(reader.damage),
    )


def _best(files: IterationFolder, judged: SessionIteration | None) -> MemberFolder | None:
    """Return the member whose reward is shown: the best judged, or the first."""
    members = files.run.members() if files.run.path.is_dir() else []
    wanted = judged.best if judged else None
    return next((each for each in members if each.name == wanted), members[0] if members else None)


def _terms(
    best: MemberFolder | None, judged: SessionIteration | None
) -> tuple[RewardTermLine, ...]:
    if best is None or not best.reward_code.exists():
        return ()
    score = judged.best_member if judged else None
    step = score.step if score else 1 << 62
    return tuple(RewardTermLine(**term._asdict()) for term in reward_terms(best, step))


def _change(
    folder: SessionFolder, candidate: RewardCandidate | None, judged: SessionIteration | None
) -> RewardChange | None:
    parent = candidate.parent if candidate else None
    if candidate is None or parent is None:
        return None
    origin = folder.iteration(parent)
    if not origin.candidate.exists():
        return None
    earlier = read_record(origin.candidate, RewardCandidate)
    kept = 0
    if origin.judgment.exists():
        kept = read_record(origin.judgment, SessionIteration).variant
    before = reward_text(earlier, kept)
    after = reward_text(candidate, judged.variant if judged else 0)
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{parent}", "now", lineterm="", n=_CONTEXT
    )
    return RewardChange(
        parent=parent,
        before=before,
        after=after,
        unified="\n".join(lines),
        terms=_term_changes(weights_in(before), weights_in(after)),
    )


def _term_changes(before: dict[str, float], after: dict[str, float]) -> tuple[TermChange, ...]:
    changes: list[TermChange] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        change = "new" if old is None else "gone" if new is None else "weight"
        changes.append(TermChange(name=name, change=change, before=old, after=new))
    return tuple(changes)


def _members(files: IterationFolder) -> tuple[MemberLine, ...]:
    return members_of(files.run) if files.run.path.is_dir() else ()


def members_of(run: RunFolder) -> tuple[MemberLine, ...]:
    """Return the policies of a training, and what looks wrong with each."""
    return tuple(_member(folder) for folder in run.members())


def _member(folder: MemberFolder) -> MemberLine:
    facts: MemberResultFacts = {}
    if folder.summary.exists():
        facts = read_facts(folder.summary, MemberResultFacts)
    best = facts.get("best") or None
    seed = folder.name.rpartition("_seed_")[2]
    return MemberLine(
        member=folder.name,
        seed=int(seed) if seed.lstrip("-").isdecimal() else None,
        best_step=facts.get("best_step"),
        best_return=best.get("mean_return") if best else None,
        findings=tuple(_finding(each) for each in facts.get("findings", ())),
    )


def _finding(facts: FindingFacts) -> HealthFinding:
    more: dict[str, Any] = dict(facts)
    name, step = more.get("name"), more.get("step")
    return HealthFinding(
        name=name if isinstance(name, str) else None,
        message=facts["message"],
        step=step if isinstance(step, int) else None,
    )


def _checkpoints(files: IterationFolder) -> tuple[Checkpoint, ...]:
    where = str(files.checkpoints)
    return tuple(as_record(row, Checkpoint, where) for row in read_json_lines(files.checkpoints))


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of tries."""
    router = APIRouter(tags=["iterations"])

    @router.get("/things/{thing}/iterations/{number}")
    def read_try(thing: str, number: Annotated[int, Path(ge=0, le=10**9)]) -> IterationDetail:
        """Return one try of a session: reward, change, verdicts, lessons."""
        place.iteration(thing, number)
        return read_iteration(place.session(thing), number)

    @router.get("/things/{thing}/members")
    def list_members(
        thing: str, iteration: Annotated[int | None, Query(ge=0, le=10**9)] = None
    ) -> tuple[MemberLine, ...]:
        """List the policies of a run, or of an iteration of a session (the last if none)."""
        return members_of(place.run(thing, iteration))

    return router
