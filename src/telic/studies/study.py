"""One object that answers every question about a study, each worked out once.

What it says is a snapshot: of the ledger as it was at the first question, and of each file as it
was when first asked for. The snapshot is forgotten by `refresh`, when the lock is taken, and by
every event that is appended through its ledger; so whoever decides under the lock decides by what
is true then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from telic.errors import BadFile, UnknownName
from telic.storage.facts import RevisionFacts
from telic.storage.files import read_facts, read_json, read_record
from telic.storage.keys import SigningKey
from telic.studies import approvals, git_read
from telic.studies.approvals import Standing
from telic.studies.candidates import (
    REVISABLE,
    files_of,
    read_candidate,
    revision_folder,
    show_revision,
)
from telic.studies.canonical import content_hash, existing_key
from telic.studies.chain import LedgerEvent
from telic.studies.contract import contract_hash, protocol_hash, required_approvals
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import Sha, StudyActor, read_yaml
from telic.studies.documents.candidate import Candidate, Evidence, EvidenceKind
from telic.studies.documents.contract import ApprovalKey, Contract, Phase
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.errors import InvalidDocument
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.store import altered, read_evidence
from telic.studies.folder import Registry, StudyFolder, read_registry
from telic.studies.ledger import Ledger
from telic.studies.projector import Projection
from telic.studies.queue import JobQueue, PlannedJobs, as_agreed, queue_of
from telic.studies.state import IMPORTED, CandidateState, Incumbent, StudyState, WorkSource

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def fact(
    find: Callable[Concatenate[Study, Arguments], Result],
) -> Callable[Concatenate[Study, Arguments], Result]:
    """Work out a question about a study once per snapshot: a method, or a function of a study.

    Arguments besides the study must be hashable, and what is returned must not be changed.
    """

    @wraps(find)
    def answer(study: Study, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        facts = study.facts()
        key = (find, args, tuple(sorted(kwargs.items())))
        if key not in facts:
            facts[key] = find(study, *args, **kwargs)
        return cast("Result", facts[key])

    return answer


class Study:
    """A study: its files, its ledger, and everything that follows from them."""

    def __init__(self, folder: StudyFolder, ledger: Ledger | None = None) -> None:
        self.folder = folder
        self.ledger = ledger or Ledger(folder)
        self._facts: dict[Any, Any] = {}
        self._written = self.ledger.written
        self._is_pinned = False

    @classmethod
    def find(cls, root: Path, task: str | None = None, study: str | None = None) -> Study:
        """Return the active study of a repository, or the named one; see `StudyFolder.find`."""
        return cls(StudyFolder.find(root, task, study))

    @property
    def name(self) -> str:
        """What the ledger calls it: task/study."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """The repository."""
        return self.folder.root

    # ------------------------------------------------------------------ the snapshot

    def refresh(self) -> Study:
        """Forget everything that was read; the next question looks again."""
        self._facts = {}
        return self

    def pinned(self) -> Study:
        """Return a view that keeps its snapshot, so that what was checked is what is used."""
        view = Study(self.folder, self.ledger)
        view._is_pinned = True
        return view

    def facts(self) -> dict[Any, Any]:
        """Return what is known of the snapshot; empty after an event was appended."""
        if self._written != self.ledger.written and not self._is_pinned:
            self._written = self.ledger.written
            self._facts = {}
        return self._facts

    # ------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Hold the study's lock; may be nested. What is asked inside is read anew."""
        with self.ledger.locked():
            self.refresh()
            yield

    def append(
        self, type: str, subject: str | None, data: dict[str, Any], actor: StudyActor
    ) -> LedgerEvent:
        """Commit one event; see `Ledger.append`."""
        return self.ledger.append(type, subject, data, actor)

    def require_intact(self) -> None:
        """Raise BrokenIntegrity E_LEDGER_BROKEN unless the chain verifies."""
        self.ledger.require_intact()

    # ------------------------------------------------------------------ what the ledger says

    @property
    @fact
    def _projection(self) -> Projection:
        """All that the ledger comes to, at one moment."""
        return self.ledger.projection()

    @property
    def state(self) -> StudyState:
        """What the ledger comes to."""
        return self._projection.state

    @property
    @fact
    def events(self) -> tuple[LedgerEvent, ...]:
        """The lines of the ledger; all of them, which takes seconds where they are many."""
        return tuple(self.ledger.events()[: self.state.ledger_head.seq])

    @fact
    def events_of(
        self, *types: str, about: tuple[str, ...] | None = None
    ) -> tuple[LedgerEvent, ...]:
        """Return the lines of some types, about some subjects or about anything."""
        last = self.state.ledger_head.seq
        return tuple(x for x in self.ledger.events_of(*types, about=about) if x.seq <= last)

    @property
    def incumbent(self) -> Incumbent | None:
        """The candidate that the study trusts under its protocol."""
        return self.state.incumbent

    @property
    @fact
    def source(self) -> WorkSource | None:
        """What a study tells of; None for one whose experiments are made here."""
        for event in self.events_of(IMPORTED):
            if "source" in event.data:
                return WorkSource.model_validate(event.data["source"])
        return None

    @property
    def run_revisions(self) -> dict[str, int]:
        """Which revision of its candidate each run was started for."""
        return self._projection.run_revisions

    # ------------------------------------------------------------------ what the files say

    @property
    @fact
    def registry(self) -> Registry:
        """The repository's index."""
        return read_registry(self.root)

    @property
    @fact
    def contract(self) -> Contract:
        """What may be tried, as it is on disk."""
        return self.folder.read_contract()

    @property
    @fact
    def adapter(self) -> Adapter:
        """How the repository trains."""
        return self.folder.read_adapter()

    @property
    @fact
    def metric_spec(self) -> MetricSpec:
        """What is measured."""
        return self.folder.read_metric_spec()

    @property
    @fact
    def protocol(self) -> Protocol:
        """How results are measured."""
        return self.folder.read_protocol()

    @property
    @fact
    def contract_hash(self) -> Sha:
        """The hash of the contract on disk, without its approvals."""
        return contract_hash(self.contract)

    @property
    @fact
    def metric_spec_hash(self) -> Sha | None:
        """The hash of the metric file on disk; None while there is none."""
        return _yaml_hash(self.folder.metric_spec)

    @property
    @fact
    def adapter_hash(self) -> Sha | None:
        """The hash of the adapter on disk; None while there is none."""
        return _yaml_hash(self.folder.adapter)

    @property
    @fact
    def protocol_hash(self) -> Sha | None:
        """The hash of the protocol on disk; None while there is none."""
        if not self.folder.protocol.is_file():
            return None
        return protocol_hash(self.protocol, self.metric_spec_hash)

    @property
    def is_contract_agreed(self) -> bool:
        """Whether the contract on disk is the version in the ledger."""
        return self.contract_hash == self.state.contract_hash

    @property
    def is_metric_spec_agreed(self) -> bool:
        """Whether the metric file on disk is the one that the contract names."""
        return self.metric_spec_hash == self.contract.metrics.spec_hash

    @property
    def is_protocol_agreed(self) -> bool:
        """Whether the protocol on disk is the one that the contract names."""
        return self.protocol_hash == self.contract.evaluation.protocol_hash

    @property
    @fact
    def is_git(self) -> bool:
        """Whether the repository is under git."""
        return git_read.is_repository(self.root)

    # ------------------------------------------------------------------ candidates

    @fact
    def candidate(self, name: str) -> Candidate:
        """Return a candidate in the revision that the ledger knows.

        A copy that a crash left behind is renewed. Raises UnknownName, or InvalidDocument E_SCHEMA.
        """
        revision = self.candidate_state(name).revision
        path = self.folder.candidate_file(name)
        is_stale = not path.is_file() or read_facts(path, RevisionFacts)["revision"] < revision
        if is_stale and revision_folder(self.folder, name, revision).is_dir():
            with self.locked():
                show_revision(self, name)
        return read_candidate(self.folder, name)

    def candidate_state(self, name: str) -> CandidateState:
        """Return a candidate as the ledger knows it; raises UnknownName."""
        candidates = self.state.candidates
        if name not in candidates:
            raise UnknownName("candidate", name, list(candidates), see="telic study candidate show")
        return candidates[name]

    def can_be_put_back(self, name: str) -> bool:
        """Tell whether a candidate's files were edited, and those that the ledger knows are kept.

        A draft that was edited by hand and then checked is known as it was then, and not kept so.
        """
        held = self.candidate_state(name)
        own = revision_folder(self.folder, name, held.revision)
        if not own.is_dir():  # of a study that was imported
            return False
        kept = Candidate.parse(read_json(own / "candidate.json"), str(own))
        if kept.compute_hash() != held.content_hash:
            return False
        try:
            shown = self.candidate(name)
            files = files_of(shown, self.folder.candidate(name))
        except (BadFile, InvalidDocument):
            return True
        return shown.compute_hash() != held.content_hash or files != files_of(kept, own)

    def put_back_candidates(self) -> None:
        """Put back edited files of what was tried; what may be revised is its author's to edit."""
        with self.locked():
            for name, held in self.state.candidates.items():
                if held.status not in REVISABLE and self.can_be_put_back(name):
                    show_revision(self, name)
        self.refresh()

    # ------------------------------------------------------------------ approvals

    @property
    @fact
    def key(self) -> SigningKey | None:
        """The user's key when there is one already."""
        return existing_key(self.root)

    @fact
    def standing(self, key: ApprovalKey, candidate: str | None = None) -> Standing:
        """Return whether an approval holds now."""
        return approvals.standing(self, key, candidate)

    @property
    @fact
    def standings(self) -> tuple[Standing, ...]:
        """How every approval of the contract stands now, required ones first."""
        required = required_approvals(self.contract)
        others = [held.key for held in self.state.approvals.values() if not held.candidate]
        keys = cast("tuple[ApprovalKey, ...]", (*required, *others))
        return tuple(self.standing(key) for key in dict.fromkeys(keys))

    @property
    def missing_approvals(self) -> tuple[Standing, ...]:
        """The required approvals that do not hold now."""
        required = required_approvals(self.contract)
        return tuple(x for x in self.standings if x.key in required and x.status != "approved")

    @fact
    def experiment_standing(self, candidate: str, phase: Phase) -> Standing:
        """Return whether a candidate may run in a phase: approved itself or by its class."""
        return approvals.experiment_standing(self, candidate, phase)

    # ------------------------------------------------------------------ the queue

    @property
    @fact
    def queue(self) -> JobQueue:
        """The queue that the ledger comes to, within the contract of today."""
        seen = self._projection
        jobs = PlannedJobs(seen.policy, seen.jobs, seen.settled, seen.touched)
        planned = queue_of(jobs, self.state, self.run_revisions)
        is_written = self.folder.contract.is_file()
        return as_agreed(planned, self.state, self.contract) if is_written else planned

    @fact
    def planned_seeds(self, candidate: str, phase: Phase) -> frozenset[int]:
        """Return the seeds of a phase: those of the plan, and those that were asked for later."""
        jobs = self.queue.where(candidate=candidate, phase=phase)
        asked = [job.seed for job in jobs if job.status != "cancelled"]
        return frozenset([*asked, *self.candidate(candidate).plan.seeds.get(phase, ())])

    # ------------------------------------------------------------------ evidence

    @fact
    def sheet(self, name: str) -> Evidence:
        """Return a piece of evidence; raises StudyError E_NO_EVIDENCE when there is none."""
        return read_evidence(self.folder, name)

    def evidence_names(
        self, kind: EvidenceKind, *, run: str | None = None, candidate: str | None = None
    ) -> list[str]:
        """Return the evidence of a kind about a run or a candidate, the oldest first."""
        about = {"run": run, "candidate": candidate}
        sheets, wanted = self.state.evidence, {x: y for x, y in about.items() if y is not None}
        names = sheets.where(kind=kind, **wanted)
        return [name for _, name in sorted(zip(sheets.column("seq", names), names, strict=True))]

    def latest(
        self, kind: EvidenceKind, *, run: str | None = None, candidate: str | None = None
    ) -> Evidence | None:
        """Return the newest evidence of a kind about a run or a candidate; None without one."""
        names = self.evidence_names(kind, run=run, candidate=candidate)
        return self.sheet(names[-1]) if names else None

    def altered(self, names: Iterable[str]) -> list[str]:
        """Return the evidence whose file is gone or is not what the ledger recorded."""
        return altered(self.folder, self.state, names)

    @fact
    def audits(self, candidate: str) -> tuple[Audit, ...]:
        """Return the audits of a candidate, the oldest first."""
        names = self.evidence_names("audit", candidate=candidate)
        audits = [str(self.sheet(name).payload["audit"]) for name in names]
        return tuple(read_record(self.folder.audit_file(name), Audit) for name in audits)


def _yaml_hash(path: Path) -> Sha | None:
    return content_hash(read_yaml(path)) if path.is_file() else None
