"""Everything that the choice of the next action looks at, and what it comes to: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from telic.studies.documents.base import Part
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.queue import ReadyJob
from telic.studies.queueing import Advanced
from telic.studies.stops import Stop

ActionCode = Literal[
    "repair",
    "stop",
    "agree",
    "reconcile",
    "ingest",
    "monitor",
    "review",
    "audit",
    "decide",
    "advance",
    "reflect",
    "plan",
    "launch",
    "validate",
    "mend",
    "propose",
    "wait",
    "ask",
]


class NextAction(Part):
    """What to do next, with what, and why."""

    action: ActionCode
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


@dataclass(frozen=True)
class Judged:
    """A completed candidate and the audit that was made of it."""

    candidate: str
    audit: str
    verdict: str
    falls_to_people: bool
    """accepting is a person's"""
    can_have_seeds: bool = False
    """another block of seeds fits pool and budget"""


@dataclass(frozen=True)
class Doubted:
    """An incumbent whose gain was not confirmed."""

    candidate: str
    is_lost: bool
    """or else the seeds so far cannot tell"""
    why: str
    can_have_seeds: bool = False
    """another block of held-out seeds fits pool and budget"""


@dataclass(frozen=True)
class Objection:
    """Something on record that speaks against a candidate."""

    candidate: str
    status: CandidateStatus
    cause: str
    why: str


@dataclass(frozen=True)
class Outlook:
    """Everything that the order looks at; each list is ready to act on, the first one first."""

    integrity: tuple[str, ...] = ()
    stops: tuple[Stop, ...] = ()
    is_closed: bool = False
    is_agreed: bool = True
    """there is a contract in the ledger"""
    unwritten: str | None = None
    """a file that the study cannot do without, and that nobody has written"""
    crashed: tuple[str, ...] = ()
    """runs that ended or vanished and are not settled"""
    unmeasured: tuple[str, ...] = ()
    """finished runs without metrics"""
    unwatched: tuple[str, ...] = ()
    """live runs that nobody looked at for a while"""
    unreviewed: tuple[str, ...] = ()
    """open candidates whose reward may be gamed, at which nobody but the author has looked"""
    unaudited: tuple[str, ...] = ()
    """completed candidates whose claim was not audited"""
    judged: tuple[Judged, ...] = ()
    passing: tuple[Advanced, ...] = ()
    """completed candidates that may go on"""
    stuck: tuple[Advanced, ...] = ()
    """completed candidates that their phase's rule holds back"""
    unreflected: tuple[str, ...] = ()
    """finished runs of reward work without reflection"""
    unplanned: tuple[str, ...] = ()
    """validated candidates without jobs"""
    unchecked: str | None = None
    """an incumbent whose claim was not yet checked on fresh seeds"""
    doubted: Doubted | None = None
    """an incumbent whose gain fresh seeds did not confirm"""
    exploits: tuple[Objection, ...] = ()
    """candidates that a reviewer calls an exploit"""
    disproved: tuple[Objection, ...] = ()
    """candidates of which their author's own condition says that they are wrong"""
    ready: tuple[ReadyJob, ...] = ()
    launch_blocks: tuple[str, ...] = ()
    """approvals that the first ready job lacks"""
    drafts: tuple[str, ...] = ()
    """drafts that pass their checks"""
    faulty: tuple[tuple[str, str], ...] = ()
    """drafts that do not, each with the first thing that is wrong"""
    broken: tuple[str, ...] = ()
    """candidates in debug that may be mended"""
    given_up: tuple[str, ...] = ()
    """candidates in debug that used up their attempts"""
    live: tuple[str, ...] = ()
    has_baseline: bool = True
    open_candidates: tuple[str, ...] = ()
    """candidates that still have a way to go"""
