"""Cached access to a study's files, ledger and derived facts.

The ledger and each file are read at first access and cached. The cache is cleared by `refresh`, by
`append`, and when the lock is acquired, so that decisions under the lock use the current state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable
from functools import cached_property, wraps
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from telic.errors import UnknownName
from telic.storage.files import as_record, read_record
from telic.storage.journal import JournalEntry
from telic.storage.keys import SigningKey
from telic.storage.reading import file_hash
from telic.studies import _git_read as git_read
from telic.studies import approvals
from telic.studies._ledger import Ledger
from telic.studies._source_tree import SourceTree
from telic.studies.approvals import ApprovalState
from telic.studies.candidates import read_candidate
from telic.studies.canonical import content_hash, existing_key
from telic.studies.contract import contract_hash, protocol_hash, required_approvals
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import Sha, StudyActor, read_document, read_yaml
from telic.studies.documents.candidate import Candidate, CandidateStatus, Evidence, EvidenceKind
from telic.studies.documents.contract import ApprovalKey, Contract, MetricSpec, Protocol, StudyPhase
from telic.studies.errors import StudyError
from telic.studies.evidence.audit import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.folder import StudyFolder
from telic.studies.queue import Job, jobs_of
from telic.studies.state import CandidateState, Incumbent, RunState, StudyState

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def fact(
    find: Callable[Concatenate[Study, _Arguments], _Answer],
) -> Callable[Concatenate[Study, _Arguments], _Answer]:
    """Cache a method or function of a study once per snapshot.

    Arguments other than the study must be hashable. Callers must not modify the result.
    """

    @wraps(find)
    def answer(study: Study, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        key = (find, args, tuple(sorted(kwargs.items())))
        facts = study.facts
        if key not in facts:
            facts[key] = find(study, *args, **kwargs)
        return cast("_Answer", facts[key])

    return answer


class Study:
    """Study with its files, its ledger and cached facts that are derived from both."""

    def __init__(self, folder: StudyFolder, ledger: Ledger | None = None) -> None:
        self.folder = folder
        self.ledger = ledger or Ledger(folder)
        self.facts: dict[Any, Any] = {}
        """cached values of the current snapshot"""

    @classmethod
    def find(cls, root: Path, task: str | None = None, study: str | None = None) -> Study:
        """Return the named study of a repository or the active study. See `StudyFolder.find`."""
        return cls(StudyFolder.find(root, task, study))

    @property
    def name(self) -> str:
        """Name of the study in the ledger: task/study."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """Root folder of the repository."""
        return self.folder.root

    # ------------------------------------------------------------------ the snapshot

    def refresh(self) -> Study:
        """Drop the cached snapshot, so that the next access reads from disk."""
        for name in vars(self).keys() - {"folder", "ledger"}:
            del self.__dict__[name]
        self.facts = {}
        return self

    def pinned(self) -> Study:
        """Return a view with a fixed snapshot, so that checked values cannot change afterwards."""
        return Study(self.folder, self.ledger)

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Hold the study's reentrant lock. Entering the lock drops the cached snapshot."""
        with self.ledger.locked():
            self.refresh()
            yield

    def append(
        self, kind: str, subject: str | None, data: dict[str, Any], actor: StudyActor
    ) -> JournalEntry:
        """Append one entry to the ledger. See `Ledger.append`."""
        entry = self.ledger.append(kind, subject, data, actor)
        self.refresh()
        return entry

    # ------------------------------------------------------------------ the ledger

    @cached_property
    def state(self) -> StudyState:
        """State derived from the ledger."""
        return self.ledger.state()

    @cached_property
    def events(self) -> tuple[JournalEntry, ...]:
        """The entries of the ledger."""
        return tuple(self.ledger.entries()[: self.state.ledger_head.seq])

    @fact
    def events_of(
        self, *kinds: str, about: tuple[str, ...] | None = None
    ) -> tuple[JournalEntry, ...]:
        """Return the ledger entries of the given kinds, optionally about given subjects only."""
        return tuple(
            entry
            for entry in self.events
            if entry.kind in kinds and (about is None or entry.subject in about)
        )

    @property
    def incumbent(self) -> Incumbent | None:
        """The incumbent under the study's protocol."""
        return self.state.incumbent

    # ------------------------------------------------------------------ the files

    @cached_property
    def contract(self) -> Contract:
        """The contract on disk."""
        return read_document(self.folder.contract, Contract)

    @cached_property
    def adapter(self) -> Adapter:
        """The adapter on disk."""
        return read_document(self.folder.adapter, Adapter)

    @cached_property
    def metric_spec(self) -> MetricSpec:
        """The metric specification on disk."""
        return read_document(self.folder.metric_spec, MetricSpec)

    @cached_property
    def protocol(self) -> Protocol:
        """The evaluation protocol on disk."""
        return read_document(self.folder.protocol, Protocol)

    @cached_property
    def contract_hash(self) -> Sha:
        """Hash of the contract on disk."""
        return contract_hash(self.contract)

    @cached_property
    def metric_spec_hash(self) -> Sha | None:
        """Hash of the metric file on disk, or None if the file is missing."""
        path = self.folder.metric_spec
        return content_hash(read_yaml(path)) if path.is_file() else None

    @cached_property
    def adapter_hash(self) -> Sha | None:
        """Hash of the adapter on disk, or None if the file is missing."""
        path = self.folder.adapter
        return content_hash(read_yaml(path)) if path.is_file() else None

    @cached_property
    def protocol_hash(self) -> Sha | None:
        """Hash of the protocol on disk, or None if the file is missing."""
        if not self.folder.protocol.is_file():
            return None
        return protocol_hash(self.protocol, self.metric_spec_hash)

    @property
    def is_contract_agreed(self) -> bool:
        """True if the contract on disk matches the version in the ledger."""
        return self.contract_hash == self.state.contract_hash

    @property
    def is_metric_spec_agreed(self) -> bool:
        """True if the metric file on disk matches the contract."""
        return self.metric_spec_hash == self.contract.metrics.spec_hash

    @property
    def is_protocol_agreed(self) -> bool:
        """True if the protocol on disk matches the contract."""
        return self.protocol_hash == self.contract.evaluation.protocol_hash

    def changed_evaluators(self, tree: Path) -> list[str]:
        """Return the protocol's evaluator files that are missing or changed in a tree."""
        return [
            path
            for path, agreed in self.protocol.evaluator_files.items()
            if not (tree / path).is_file() or file_hash(tree / path) != agreed
        ]

    def evaluator_closure(self, tree: Path) -> list[str]:
        """Return the evaluator files in a tree with all files of the tree that they import."""
        spec = self.protocol.command
        words = spec.argv if spec is not None else ()
        source = SourceTree(tree)
        modules = [source.module(name) for flag, name in pairwise(words) if flag == "-m"]
        scripts = [*(word for word in words if word.endswith(".py")), *filter(None, modules)]
        inside = [(PurePosixPath(spec.cwd) / each).as_posix() for each in scripts] if spec else []
        files = (*self.protocol.evaluator_files, *inside)
        return sorted(source.reachable(*files, most=len(source.paths)))

    @cached_property
    def is_git(self) -> bool:
        """True if the repository is under git."""
        return git_read.is_repository(self.root)

    @cached_property
    def base_commits(self) -> tuple[str, ...]:
        """Commits that candidates may change: those of the contract and of accepted candidates."""
        commits = [self.contract.baseline.commit]
        for name, held in self.state.candidates.items():
            if held.status == CandidateStatus.ACCEPTED:
                record = self.candidate(name)
                is_intact = record.compute_hash() == held.content_hash
                commits.append(record.base_commit if is_intact else None)
        return tuple(dict.fromkeys(filter(None, commits)))

    # ------------------------------------------------------------------ candidates and jobs

    @fact
    def candidate(self, name: str) -> Candidate:
        """Return the current revision of a candidate, with its status from the ledger.

        Raises UnknownName, or InvalidDocument E_SCHEMA.
        """
        held = self.candidate_state(name)
        record = read_candidate(self.folder, name, held.revision)
        return record.model_copy(update={"status": held.status, "phase": held.phase})

    def candidate_state(self, name: str) -> CandidateState:
        """Return a candidate's ledger state, or raise UnknownName."""
        candidates = self.state.candidates
        if name not in candidates:
            raise UnknownName(
                "candidate", name, list(candidates), see="telic study status candidates"
            )
        return candidates[name]

    def run_state(self, name: str) -> RunState:
        """Return a run's ledger state, or raise StudyError E_NO_RUN."""
        if name not in self.state.runs:
            live = ", ".join(self.state.active_runs) or "none"
            raise StudyError("E_NO_RUN", f"Unknown run {name}.", hint=f"Active runs: {live}.")
        return self.state.runs[name]

    def candidate_folder(self, name: str) -> Path:
        """Return the folder of a candidate's current revision."""
        return self.folder.candidate_file(name, self.candidate_state(name).revision).parent

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Runs that are needed for open candidates and for the check of the incumbent."""
        return jobs_of(self)

    def planned_seeds(self, candidate: str, phase: StudyPhase) -> frozenset[int]:
        """Return the planned seeds of a phase, including those added later."""
        added = [
            job.seed
            for job in self.jobs
            if (job.candidate, job.phase) == (candidate, phase) and job.status != "cancelled"
        ]
        return frozenset([*added, *self.candidate(candidate).plan.seeds.get(phase, ())])

    # ------------------------------------------------------------------ approvals

    @cached_property
    def key(self) -> SigningKey | None:
        """The user's signing key, or None if there is none."""
        return existing_key(self.root)

    @fact
    def approval(self, key: ApprovalKey, candidate: str | None = None) -> ApprovalState:
        """Return the current status of an approval."""
        return approvals.approval_state(self, key, candidate)

    @cached_property
    def all_approvals(self) -> tuple[ApprovalState, ...]:
        """Status of every approval in the contract, required approvals first."""
        required = required_approvals(self.contract)
        others = [held.key for held in self.state.approvals.values() if not held.candidate]
        keys = cast("tuple[ApprovalKey, ...]", (*required, *others))
        return tuple(self.approval(key) for key in dict.fromkeys(keys))

    @property
    def missing_approvals(self) -> tuple[ApprovalState, ...]:
        """Required approvals that are not currently valid."""
        required = required_approvals(self.contract)
        return tuple(x for x in self.all_approvals if x.key in required and x.status != "approved")

    @fact
    def experiment_approval(self, candidate: str, phase: StudyPhase) -> ApprovalState:
        """Return whether a candidate is approved for a phase, individually or in a class."""
        return approvals.experiment_approval(self, candidate, phase)

    # ------------------------------------------------------------------ evidence

    @fact
    def sheet(self, name: str) -> Evidence:
        """Return an evidence record, or raise StudyError E_NO_EVIDENCE."""
        path = self.folder.evidence_file(name)
        if not path.is_file():
            raise StudyError("E_NO_EVIDENCE", f"Unknown evidence {name}.")
        return read_record(path, Evidence)

    def evidence_names(
        self, kind: EvidenceKind, *, run: str | None = None, candidate: str | None = None
    ) -> list[str]:
        """Return the names of a kind of evidence about a run or candidate, oldest first."""
        return [
            name
            for name, entry in self.state.evidence.items()
            if entry.kind == kind
            and run in (None, entry.run)
            and candidate in (None, entry.candidate)
        ]

    def latest(
        self, kind: EvidenceKind, *, run: str | None = None, candidate: str | None = None
    ) -> Evidence | None:
        """Return the newest evidence of this kind about a run or candidate, or None."""
        names = self.evidence_names(kind, run=run, candidate=candidate)
        return self.sheet(names[-1]) if names else None

    @fact
    def measurement(self, run: str) -> Measurement | None:
        """Return the measurement of a run, or None if the run was not measured yet."""
        sheet = self.latest("metrics", run=run)
        return None if sheet is None else as_record(sheet.payload, Measurement, sheet.id)

    def altered(self, names: Iterable[str]) -> list[str]:
        """Return the evidence whose files are missing or differ from the ledger."""
        found: list[str] = []
        for name in names:
            entry, path = self.state.evidence.get(name), self.folder.evidence_file(name)
            sheet = read_record(path, Evidence) if entry and path.is_file() else None
            hashes = {entry and entry.hash, sheet and sheet.content_hash}
            if sheet is None or hashes != {sheet.compute_hash()}:
                found.append(name)
        return found

    @fact
    def audits(self, candidate: str) -> tuple[Audit, ...]:
        """Return the audits of a candidate, oldest first."""
        names = self.evidence_names("audit", candidate=candidate)
        return tuple(Audit.parse(self.sheet(name).payload, name) for name in names)
