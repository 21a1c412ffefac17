"""A candidate as the rules see it, and how a table of rules is run over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from telic.errors import BadFile, TelicError
from telic.storage.reading import file_hash, read_text
from telic.studies.budget import left_by_others
from telic.studies.canonical import utc_now
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    CheckResult,
    Evidence,
    Invariant,
    RunStatus,
)
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.git_read import Patch, read_patch
from telic.studies.state import CandidateState
from telic.studies.study import Study

Subject = TypeVar("Subject")


class RuleFinding(NamedTuple):
    """What a rule found; without problems it holds."""

    problems: Sequence[str] = ()
    value: Any = None


def run_rules(
    rules: Mapping[str, Callable[[Subject], RuleFinding]], subject: Subject, *, shut: bool
) -> tuple[CheckResult, ...]:
    """Run every rule of a table; one that fails does not spare the others.

    `shut` makes a rule that cannot be evaluated fail with the reason; else the error is raised.
    """
    results: list[CheckResult] = []
    for code, rule in rules.items():
        try:
            finding = rule(subject)
        except TelicError as error:
            if not shut:
                raise
            finding = RuleFinding((str(error),))
        why = "; ".join(finding.problems)
        results.append(CheckResult(id=code, passed=not why, value=finding.value, why=why))
    return tuple(results)


def broken_invariants(study: Study, candidate: Candidate, tree: Path) -> tuple[str, ...]:
    """Return what a candidate promises to leave alone and what, in a tree, is not as it was."""
    return tuple(
        why for each in candidate.invariants if (why := _broken(study, candidate, each, tree))
    )


def _broken(study: Study, candidate: Candidate, invariant: Invariant, tree: Path) -> str | None:
    args = invariant.args
    match invariant.check:
        case "file_unchanged":
            path = str(args.get("path"))
            file = tree / path
            same = file.is_file() and file_hash(file) == args.get("sha256")
            return None if same else f"{path} is not what the candidate says it is"
        case "metric_untouched":
            same = study.is_metric_spec_agreed
            return None if same else "the metric spec is not the agreed one"
        case "eval_untouched":
            same = study.is_protocol_agreed
            return None if same else "the evaluation protocol is not the agreed one"
        case "param_in_range":
            name = str(args.get("param") or args.get("path"))
            override = candidate.change.overrides.get(name)
            low, high = args.get("min"), args.get("max")
            value = None if override is None else override.to
            is_low = value is not None and low is not None and value < low
            is_high = value is not None and high is not None and value > high
            return f"{name}={value} leaves {low} to {high}" if is_low or is_high else None


class OtherCandidate(NamedTuple):
    """Another candidate of the study."""

    candidate: Candidate
    status: CandidateStatus
    had_runs: bool

    @property
    def counts(self) -> bool:
        """Whether it was tried or is about to be; a draft or a withdrawn idea was not."""
        return self.status not in (CandidateStatus.DRAFT, CandidateStatus.REJECTED) or self.had_runs


class UsedSeed(NamedTuple):
    """A seed of a finished run of this candidate."""

    phase: Phase
    seed: int
    revision: int
    """of the candidate at that time"""


class CandidateCase:
    """A candidate, the agreement it must fit, and what was tried before.

    Args:
        study: it belongs to.
        name: as the folder and the ledger call it.
        may_be: statuses from which the request makes sense.
    """

    def __init__(self, study: Study, name: str, may_be: Iterable[CandidateStatus]) -> None:
        self.study = study
        self.name = name
        self.may_be = frozenset(may_be)
        self.now = utc_now()

    @cached_property
    def candidate(self) -> Candidate:
        """The record on disk."""
        return self.study.candidate(self.name)

    @cached_property
    def held(self) -> CandidateState:
        """The candidate as the ledger has it."""
        return self.study.candidate_state(self.name)

    @cached_property
    def folder(self) -> Path:
        """The candidate's folder."""
        return self.study.folder.candidate(self.name)

    @property
    def patch_file(self) -> Path | None:
        """The patch, when the candidate names one."""
        name = self.candidate.change.patch
        return None if name is None else self.folder / name

    @cached_property
    def patch(self) -> Patch | None:
        """What the patch does; None when there is none, or none that is text."""
        path = self.patch_file
        if path is None or not path.is_file():
            return None
        try:
            return read_patch(read_text(path))
        except BadFile:  # V09 says so
            return None

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """Every file of the repository that the change writes."""
        brought = [file.path for file in self.candidate.change.files]
        return tuple(dict.fromkeys([*(self.patch.files if self.patch else ()), *brought]))

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """What it refers to and the study has unaltered, by id."""
        record = self.candidate
        refs = (*record.evidence_refs, record.reflection_ref, record.dr_probe_ref)
        names = dict.fromkeys(ref for ref in refs if ref is not None)
        altered = self.study.altered(names)
        return {name: self.study.sheet(name) for name in names if name not in altered}

    @cached_property
    def others(self) -> dict[str, OtherCandidate]:
        """The other candidates of the study."""
        state = self.study.state
        tried = {candidate for _, candidate in state.runs.values_of("candidate")}
        return {
            name: OtherCandidate(self.study.candidate(name), held.status, name in tried)
            for name, held in state.candidates.items()
            if name != self.name
        }

    @cached_property
    def used_seeds(self) -> tuple[UsedSeed, ...]:
        """Seeds of its finished runs."""
        revisions = self.study.run_revisions
        return tuple(
            UsedSeed(run.phase, run.seed, revisions.get(name, 1))
            for name, run in self.study.state.runs_of(self.name).items()
            if run.status == RunStatus.FINISHED
        )

    @cached_property
    def left(self) -> Amounts:
        """Budget that others have neither spent nor reserved."""
        return left_by_others(self.study.state, self.name)
