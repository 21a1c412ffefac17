"""The contract: check what is on disk, and agree on it as a version with a reason."""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.storage.files import write_text
from telic.studies.documents.base import Actor, Sha
from telic.studies.documents.contract import Contract
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.state import StudyState
from telic.studies.subjects import (
    contract_hash,
    current_protocol_hash,
    metric_spec_hash,
    required_approvals,
)
from telic.studies.yaml_files import merged, read_yaml, update_yaml

_MOST_DIFFERENCES = 100


class ContractCheck(Record):
    """What stands between a contract and a launch."""

    version: int
    hash: Sha
    agreed_hash: Sha | None
    """hash of the version in the ledger"""
    problems: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    """what only a person can answer"""

    @property
    def ok(self) -> bool:
        """Nothing is wrong with the document itself and it is the agreed one."""
        return not self.problems and self.hash == self.agreed_hash


def draft_contract(folder: StudyFolder, answers: dict[str, Any]) -> Contract:
    """Write answers (dotted place to value) into contract.yaml; a bad one leaves it as it was."""
    held = read_yaml(folder.contract)
    changes: dict[str, Any] = {}
    for place, value in answers.items():
        section = changes
        *path, last = place.split(".", 2) if place.startswith("scope.params.") else place.split(".")
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
    draft = Contract.parse(merged(held, changes), str(folder.contract))
    if changes:
        update_yaml(folder.contract, changes)
    return draft


def check_contract(folder: StudyFolder) -> ContractCheck:
    """Say what is wrong with the contract on disk and what is still to be asked."""
    contract = folder.read_contract()
    state = Ledger(folder).state()
    problems = [*_mismatches(folder, contract), *_overlaps(contract)]
    if state.contract_hash is None:
        problems.append("No version is agreed on yet: record this one with contract amend.")
    elif contract_hash(contract) != state.contract_hash:
        problems.append("It was edited after it was agreed on: record it with contract amend.")
    return ContractCheck(
        version=contract.version,
        hash=contract_hash(contract),
        agreed_hash=state.contract_hash,
        problems=tuple(problems),
        questions=tuple(_questions(folder, contract)),
    )


def amend(folder: StudyFolder, actor: Actor, reason: str) -> LedgerEvent:
    """Agree on contract.yaml as it is now: a new version, with what changed and why.

    The first version and changes before any approval may come from an agent; later ones need a
    person. The hashes of the metric and protocol files are filled in.
    """
    if not reason:
        raise StudyError("E_REASON", "An amendment needs a reason.", hint="Add --reason TEXT.")
    ledger = Ledger(folder)
    with ledger.locked():
        state = ledger.state()
        if state.contract_version is not None and state.approvals and actor.kind != "human":
            raise GateRefused(
                "E_HUMAN_ONLY",
                f"{actor.label} may not amend a contract that a person has approved parts of.",
                hint="Ask the person to run contract amend in a terminal.",
            )
        fill = _file_hashes(folder)
        contract = _filled(folder.read_contract(), fill, state.contract_version or 1)
        if problems := _overlaps(contract):
            raise InvalidDocument("E_CONTRACT", " ".join(problems))
        if contract_hash(contract) == state.contract_hash:
            raise StudyError("E_UNCHANGED", "The contract is the agreed one already.")
        before = _agreed(folder, state)
        update_yaml(folder.contract, {**fill, "version": (state.contract_version or 0) + 1})
        contract = folder.read_contract()
        write_text(folder.contract_version(contract.version), folder.contract.read_text())
        return ledger.append("contract.amended", None, _facts(contract, before, reason), actor)


def _file_hashes(folder: StudyFolder) -> dict[str, dict[str, Sha]]:
    """Return the hashes that the contract should name, of the files that exist."""
    spec, protocol = metric_spec_hash(folder), current_protocol_hash(folder)
    found: dict[str, dict[str, Sha]] = {}
    if spec is not None:
        found["metrics"] = {"spec_hash": spec}
    if protocol is not None:
        found["evaluation"] = {"protocol_hash": protocol}
    return found


def _filled(contract: Contract, fill: dict[str, dict[str, Sha]], version: int) -> Contract:
    written = contract.written_data()
    for section, values in fill.items():
        written[section] = {**(written.get(section) or {}), **values}
    return Contract.parse({**written, "version": version}, "contract.yaml")


def _facts(contract: Contract, before: dict[str, Any] | None, reason: str) -> dict[str, Any]:
    written = contract.written_data()
    return {
        "version": contract.version,
        "hash": contract_hash(contract),
        "reason": reason,
        "diff": differences(before or {}, written) if before is not None else {},
        "protocol_hash": contract.evaluation.protocol_hash,
        "required": required_approvals(contract),
        "budget": written.get("budget", {}),
        "automation": written.get("automation", {}),
        "stop_rules": written.get("stop_rules", []),
    }


def differences(before: Any, after: Any, place: str = "") -> dict[str, list[Any]]:
    """Return what differs, as dotted place to [before, after]; at most a hundred places."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: dict[str, list[Any]] = {}
        for key in dict.fromkeys([*before, *after]):
            if key != "approvals" or place:
                inner = f"{place}.{key}" if place else str(key)
                found |= differences(before.get(key), after.get(key), inner)
        return dict(list(found.items())[:_MOST_DIFFERENCES])
    return {} if before == after else {place: [before, after]}


def _agreed(folder: StudyFolder, state: StudyState) -> dict[str, Any] | None:
    if state.contract_version is None:
        return None
    path = folder.contract_version(state.contract_version)
    return read_yaml(path) if path.is_file() else {}


def _mismatches(folder: StudyFolder, contract: Contract) -> list[str]:
    found: list[str] = []
    pairs = (
        ("metrics.spec_hash", contract.metrics.spec_hash, metric_spec_hash(folder)),
        (
            "evaluation.protocol_hash",
            contract.evaluation.protocol_hash,
            current_protocol_hash(folder),
        ),
    )
    for name, agreed, now in pairs:
        if now is None:
            found.append(f"{name}: the file it stands for does not exist yet.")
        elif agreed is not None and agreed != now:
            found.append(f"{name}: the file has changed since the contract was agreed on.")
    if contract.task.task_id != folder.task_id:
        found.append(f"task.task_id is {contract.task.task_id}, the folder's is {folder.task_id}.")
    return found


def _overlaps(contract: Contract) -> list[str]:
    pools = {
        "selection": contract.seeds.pool("selection"),
        "promotion": contract.seeds.pool("promotion"),
        "validation": contract.seeds.pool("validation"),
    }
    names = list(pools)
    return [
        f"seeds: {one} and {two} share {min(pools[one] & pools[two])}; pools must be disjoint."
        for place, one in enumerate(names)
        for two in names[place + 1 :]
        if pools[one] & pools[two]
    ]


def _questions(folder: StudyFolder, contract: Contract) -> list[str]:
    asked: list[str] = []
    if not contract.task.success_definition:
        asked.append("When has the robot done the task? (task.success_definition)")
    if not folder.metric_spec.is_file():
        asked.append("Which number decides, and which must not get worse? (metric_spec.yaml)")
    if not folder.protocol.is_file():
        asked.append("How is a result measured, so that two can be compared? (eval_protocol.yaml)")
    if not contract.scope.params and not contract.scope.files.allow:
        asked.append("Which parameters or files may be changed? (scope)")
    if all(value is None for name, value in contract.budget if name != "launches"):
        asked.append("How much time, GPU and money may it cost? (budget)")
    if not contract.baseline.seeds:
        asked.append("With which seeds is the baseline measured? (baseline.seeds)")
    return asked
