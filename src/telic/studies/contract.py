"""Check contracts, record their agreed versions, and derive the required approvals."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.journal import JournalEntry
from telic.storage.reading import file_hash, read_text
from telic.studies import _git_read as git_read
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import (
    Sha,
    StudyActor,
    merged,
    read_document,
    read_yaml,
    update_yaml,
)
from telic.studies.documents.contract import SEED_ROLES, ApprovalKey, Contract, Protocol
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.launch.command import evaluation_problems

if TYPE_CHECKING:
    from telic.studies.study import Study

_SECTIONS: dict[ApprovalKey, tuple[str, ...]] = {
    "task_definition": ("task",),
    "metric_and_guardrails": ("metrics",),
    "tuning_scope": ("scope",),
    "budget": ("budget", "stop_rules"),
    "hardware": ("hardware",),
    "baseline_command": ("baseline",),
    "adapter": (),
    "evaluation_protocol": ("evaluation", "seeds"),
    "network": ("network",),
    "generated_code": ("generated_code",),
    "autonomy": ("automation",),
}
"""contract sections by approval key"""
_ON_DEMAND = ("network", "generated_code", "autonomy")
ALWAYS_REQUIRED: list[ApprovalKey] = [key for key in _SECTIONS if key not in _ON_DEMAND]
_APPROVED_PARTS = ("commands", "metrics", "seeds", "outputs", "hazards")
"""approved parts of the adapter"""


class ContractCheck(Record):
    """Problems and open questions found in a contract."""

    ok: bool
    """true for the agreed version without problems"""
    version: int
    hash: Sha
    agreed_hash: Sha | None
    """hash of the version in the ledger"""
    problems: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    """questions that require a human answer"""


def contract_hash(contract: Contract) -> Sha:
    """Return the hash of the contract as written."""
    return content_hash(contract.written_data())


def protocol_hash(protocol: Protocol, metric_spec_hash: Sha | None) -> Sha:
    """Return the protocol hash. Only results with equal hashes are comparable."""
    kept = protocol.as_data()
    for name in ("schema", "command"):
        kept.pop(name)
    if protocol.dataset is None:  # same hash as before this field was added
        kept.pop("dataset")
    argv = None if protocol.command is None else protocol.command.argv
    return content_hash({**kept, "argv": argv, "metric_spec_hash": metric_spec_hash})


def draft_contract(study: Study, answers: dict[str, Any]) -> Contract:
    """Write answers (dotted path to value) to contract.yaml, unless an answer is invalid."""
    path = study.folder.contract
    changes: dict[str, Any] = {}
    for place, value in answers.items():
        section = changes
        *names, last = place.split(".", 2 if place.startswith("scope.params.") else -1)
        for name in names:
            section = section.setdefault(name, {})
        section[last] = value
    draft = Contract.parse(merged(read_yaml(path), changes), str(path))
    if changes:
        update_yaml(path, changes)
        study.refresh()
    return draft


def check_contract(study: Study) -> ContractCheck:
    """Return the problems and the open questions of the contract on disk."""
    contract, agreed, problems = study.contract, study.state.contract_hash, list[str]()
    for name, named, now in (
        ("metrics.spec_hash", contract.metrics.spec_hash, study.metric_spec_hash),
        ("evaluation.protocol_hash", contract.evaluation.protocol_hash, study.protocol_hash),
    ):
        if now is None:
            problems.append(f"{name}: the file does not exist yet.")
        elif named is not None and named != now:
            problems.append(f"{name}: the file was modified after the contract was agreed.")
    if contract.task.task_id != study.folder.task_id:
        here = study.folder.task_id
        problems.append(f"task.task_id is {contract.task.task_id}, but the folder's is {here}.")
    problems += _faults(study, contract)
    if agreed is None:
        problems.append("No version has been approved yet: record this one with contract amend.")
    elif study.contract_hash != agreed:
        problems.append("It was edited after it was agreed: record it with contract amend.")
    return ContractCheck(
        ok=not problems and study.contract_hash == agreed,
        version=contract.version,
        hash=study.contract_hash,
        agreed_hash=agreed,
        problems=tuple(problems),
        questions=tuple(question for question, is_open in _questions(study).items() if is_open),
    )


def _questions(study: Study) -> dict[str, bool]:
    """Return the questions for a person, and whether each question is open."""
    folder, contract = study.folder, study.contract
    is_unmeasured = not folder.protocol.is_file()
    protocol = None if is_unmeasured else study.protocol
    costs = [value for name, value in contract.budget if name != "launches"]
    return {
        "When is the task complete? (task.success_definition)": (
            not contract.task.success_definition
        ),
        "Which metric decides, and which ones must not degrade? (metric_spec.yaml)": (
            not folder.metric_spec.is_file()
        ),
        "How are results measured so that they are comparable? (eval_protocol.yaml)": (
            is_unmeasured
        ),
        "Which command evaluates under perturbations? (eval_protocol.yaml: command)": (
            protocol is not None and protocol.command is None and bool(protocol.perturbations)
        ),
        "Which parameters or files may be changed? (scope)": (
            not contract.scope.params and not contract.scope.files.allow
        ),
        "What is the budget in time, GPU hours and money? (budget)": all(x is None for x in costs),
        "Which seeds measure the baseline? (baseline.seeds)": not contract.baseline.seeds,
    }


def _faults(study: Study, contract: Contract) -> list[str]:
    """Return the problems that must be fixed before a contract is agreed."""
    faults = [f"seeds: {each}; pools must be disjoint." for each in overlaps(contract)]
    if not study.folder.protocol.is_file():
        return faults
    adapter = study.adapter if study.folder.adapter.is_file() else None
    return [*faults, *evaluation_problems(study.protocol, study.contract, adapter)]


def overlaps(contract: Contract) -> list[str]:
    """Return the names of seed pools that overlap."""
    pools = {role: contract.seeds.pool(role) for role in SEED_ROLES}
    return [
        f"{one} and {two} share {min(pools[one] & pools[two])}"
        for one, two in combinations(SEED_ROLES, 2)
        if pools[one] & pools[two]
    ]


def amend(study: Study, actor: StudyActor, reason: str) -> JournalEntry:
    """Record the current contract.yaml as a new agreed version, with the reason.

    Agents may record the first version and changes before any approval. Later changes require a
    human. The hashes of the metric and protocol files are filled in.
    """
    if not reason:
        raise StudyError("E_REASON", "An amendment requires a reason.", hint="Add --reason TEXT.")
    folder = study.folder
    with study.locked():
        state = study.state
        if state.contract_version is not None and state.approvals and actor.kind != "human":
            raise GateRefused(
                "E_HUMAN_ONLY",
                f"{actor.label} must not amend a contract after a person has approved parts of it.",
                hint="Ask the person to run contract amend in a terminal.",
            )
        fill: dict[str, dict[str, str | None]] = {}
        if study.metric_spec_hash is not None:
            fill["metrics"] = {"spec_hash": study.metric_spec_hash}
        if study.protocol_hash is not None:
            fill["evaluation"] = {"protocol_hash": study.protocol_hash}
        if study.is_git and study.contract.baseline.commit is None:
            fill["baseline"] = {"commit": git_read.head_commit(study.root)}
        filled = merged(study.contract.written_data(), fill)
        contract = Contract.parse({**filled, "version": state.contract_version or 1}, "contract")
        if problems := _faults(study, contract):
            raise InvalidDocument("E_CONTRACT", " ".join(problems))
        if contract_hash(contract) == state.contract_hash:
            raise StudyError("E_UNCHANGED", "The contract has not changed since it was recorded.")
        version = (state.contract_version or 0) + 1
        update_yaml(folder.contract, {**fill, "version": version})
        contract = read_document(folder.contract, Contract)
        written = contract.written_data()
        facts = {
            "version": version,
            "hash": contract_hash(contract),
            "commit": contract.baseline.commit,
            "reason": reason,
            "text": read_text(folder.contract),
            "protocol_hash": contract.evaluation.protocol_hash,
            "required": required_approvals(contract),
            "budget": written.get("budget", {}),
            "automation": written.get("automation", {}),
            "stop_rules": written.get("stop_rules", []),
        }
        return study.append("contract.amended", None, facts, actor)


def contract_diff(study: Study) -> str:
    """Return the difference between contract.yaml and its agreed version, and of their commits."""
    agreed = [entry.data for entry in study.events_of("contract.amended")][-1:]
    old, new = "".join(str(x.get("text", "")) for x in agreed), read_text(study.folder.contract)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "agreed", "now", lineterm="")
    base = "".join(str(x.get("commit") or "") for x in agreed)
    commit, code = study.contract.baseline.commit or "", ""
    if base not in ("", commit):
        how = ("--no-ext-diff", "--no-textconv", "--text", "--no-relative")  # hides no line
        answer = git_read.ask(study.root, "diff", *how, base, commit)
        if not answer.is_yes:
            raise TelicError(f"git cannot compare the commits {base} and {commit}: {answer.error}")
        code = answer.out
    return "\n".join([*lines, code])


# ---------------------------------------------------------------------------- approvals


def required_approvals(contract: Contract) -> tuple[ApprovalKey, ...]:
    """Return the approvals that this contract requires before a launch."""
    keys, automation = list(ALWAYS_REQUIRED), contract.automation
    if contract.network is not None and contract.network.destinations:
        keys.append("network")
    if contract.generated_code is not None and contract.generated_code.allowed:
        keys.append("generated_code")
    if automation.autoloop or automation.launch != "ask" or automation.decide != "ask":
        keys.append("autonomy")
    return tuple(keys)


def approval_subject(study: Study, key: ApprovalKey) -> dict[str, Any]:
    """Return the content that an approval covers. The approval is bound to the content's hash."""
    if key not in _SECTIONS:
        raise StudyError("E_APPROVAL", f"{key} is an approval of a candidate, not of the contract.")
    written = study.contract.written_data()
    card, path = study.folder.task_card, study.folder.adapter
    subject: dict[str, Any] = {name: written.get(name) for name in _SECTIONS[key]}
    is_adapted = key in ("hardware", "adapter") and path.is_file()
    adapter: dict[str, Any] = read_yaml(path) if is_adapted else {}
    match key:
        case "task_definition":
            subject["card"] = file_hash(card) if card.is_file() else None
        case "metric_and_guardrails":
            subject |= _content(study.folder.metric_spec)
        case "evaluation_protocol":
            protocol = _content(study.folder.protocol)
            subject |= {"protocol_hash": study.protocol_hash, **protocol}
        case "hardware":  # includes how runs are started, since a probe is also a command
            subject["launcher"] = adapter.get("launcher")
        case "adapter":
            subject |= {name: adapter.get(name) for name in _APPROVED_PARTS}
        case _:
            pass
    return subject


def _content(path: Path) -> dict[str, Any]:
    return {path.name: read_yaml(path) if path.is_file() else None}


def hash_evaluator(study: Study, files: Sequence[str] = ()) -> dict[str, Sha]:
    """Write the hashes of evaluator files to eval_protocol.yaml, and return all its hashes.

    By default, the evaluator files are those already listed in the protocol, or else those in the
    adapter. The contract must be amended afterwards, because the protocol changes and the commit of
    the evaluator becomes the current one.
    """
    names = list(files) or list(study.protocol.evaluator_files)
    if not names and study.folder.adapter.is_file():
        names = evaluator_files(study.root, study.adapter)
    if not names:
        raise StudyError(
            "E_NO_FILE",
            "Neither the protocol nor the adapter lists an evaluator file.",
            hint="Add one: telic study contract --evaluator PATH",
        )
    hashes: dict[str, Sha] = {}
    for name in names:
        path = study.root / name
        if not path.resolve().is_relative_to(study.root.resolve()) or not path.is_file():
            raise StudyError("E_NO_FILE", f"{name} is not a file in the repository {study.root}.")
        hashes[name] = file_hash(path)
    update_yaml(study.folder.protocol, {"evaluator_files": hashes})
    if study.contract.baseline.commit is not None and study.is_git:
        commit = git_read.head_commit(study.root)
        update_yaml(study.folder.contract, {"baseline": {"commit": commit}})
    return study.refresh().protocol.evaluator_files


def evaluator_files(root: Path, adapter: Adapter | None) -> list[str]:
    """Return the repository files that the adapter lists as evaluators."""
    globs = adapter.files.evaluator.globs if adapter else ()
    found = {path for pattern in globs for path in root.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in found)
