"""The contract: check it, agree on it as a version with a reason; which parts people approve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

from telic.core.config import Record
from telic.storage.files import write_text
from telic.storage.journal import JournalEntry
from telic.storage.reading import file_hash, read_text
from telic.studies.canonical import content_hash
from telic.studies.documents.base import Sha, StudyActor, merged, read_yaml, update_yaml
from telic.studies.documents.contract import ApprovalKey, Contract, SeedRole
from telic.studies.documents.metrics import Protocol
from telic.studies.errors import GateRefused, InvalidDocument, StudyError

if TYPE_CHECKING:
    from telic.studies.study import Study

ALWAYS_REQUIRED: tuple[ApprovalKey, ...] = (
    "task_definition",
    "metric_and_guardrails",
    "tuning_scope",
    "budget",
    "hardware",
    "baseline_command",
    "evaluation_protocol",
)
_SECTIONS: dict[ApprovalKey, tuple[str, ...]] = {
    "task_definition": ("task",),
    "metric_and_guardrails": ("metrics",),
    "tuning_scope": ("scope", "exceptions"),
    "budget": ("budget", "stop_rules"),
    "hardware": ("hardware",),
    "baseline_command": ("baseline",),
    "evaluation_protocol": ("evaluation", "seeds"),
    "network": ("network",),
    "generated_code": ("generated_code",),
    "autonomy": ("automation",),
}
"""what of the contract is approved under a key"""
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


def contract_hash(contract: Contract) -> Sha:
    """Return the hash of everything but the approvals, as it was written."""
    written = contract.written_data()
    written.pop("approvals", None)
    return content_hash(written)


def protocol_hash(protocol: Protocol, metric_spec_hash: Sha | None) -> Sha:
    """Return the hash that decides which results may be compared."""
    kept = protocol.as_data()
    for name in ("schema", "command", "metric_spec_hash"):
        kept.pop(name)
    if protocol.dataset is None:  # as it was before there was such a field
        kept.pop("dataset")
    argv = None if protocol.command is None else protocol.command.argv
    return content_hash({**kept, "argv": argv, "metric_spec_hash": metric_spec_hash})


def draft_contract(study: Study, answers: dict[str, Any]) -> Contract:
    """Write answers (dotted place to value) into contract.yaml; a bad one leaves it as it was."""
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
    """Say what is wrong with the contract on disk and what is still to be asked."""
    contract, agreed = study.contract, study.state.contract_hash
    problems = [*_mismatches(study), *_overlaps(contract), *_unmeasurable(study)]
    if agreed is None:
        problems.append("No version is agreed on yet: record this one with contract amend.")
    elif study.contract_hash != agreed:
        problems.append("It was edited after it was agreed on: record it with contract amend.")
    return ContractCheck(
        version=contract.version,
        hash=study.contract_hash,
        agreed_hash=agreed,
        problems=tuple(problems),
        questions=tuple(_questions(study)),
    )


def amend(study: Study, actor: StudyActor, reason: str) -> JournalEntry:
    """Agree on contract.yaml as it is now: a new version, with what changed and why.

    The first version and changes before any approval may come from an agent; later ones need a
    person. The hashes of the metric and protocol files are filled in.
    """
    if not reason:
        raise StudyError("E_REASON", "An amendment needs a reason.", hint="Add --reason TEXT.")
    folder = study.folder
    with study.locked():
        state = study.state
        if state.contract_version is not None and state.approvals and actor.kind != "human":
            raise GateRefused(
                "E_HUMAN_ONLY",
                f"{actor.label} may not amend a contract that a person has approved parts of.",
                hint="Ask the person to run contract amend in a terminal.",
            )
        fill = _file_hashes(study)
        contract = _filled(study.contract, fill, state.contract_version or 1)
        if problems := [*_overlaps(contract), *_unmeasurable(study)]:
            raise InvalidDocument("E_CONTRACT", " ".join(problems))
        if contract_hash(contract) == state.contract_hash:
            raise StudyError("E_UNCHANGED", "The contract is the agreed one already.")
        before = _agreed(study)
        update_yaml(folder.contract, {**fill, "version": (state.contract_version or 0) + 1})
        contract = folder.read_contract()
        write_text(folder.contract_version(contract.version), read_text(folder.contract))
        return study.append("contract.amended", None, _facts(contract, before, reason), actor)


def _file_hashes(study: Study) -> dict[str, dict[str, Sha]]:
    """Return the hashes that the contract should name, of the files that exist."""
    hashes: dict[str, dict[str, Sha]] = {}
    if study.metric_spec_hash is not None:
        hashes["metrics"] = {"spec_hash": study.metric_spec_hash}
    if study.protocol_hash is not None:
        hashes["evaluation"] = {"protocol_hash": study.protocol_hash}
    return hashes


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
        "diff": {} if before is None else differences(before, written),
        "protocol_hash": contract.evaluation.protocol_hash,
        "required": required_approvals(contract),
        "budget": written.get("budget", {}),
        "automation": written.get("automation", {}),
        "stop_rules": written.get("stop_rules", []),
    }


def differences(before: Any, after: Any, place: str = "") -> dict[str, list[Any]]:
    """Return what differs, as dotted place to [before, after]; at most a hundred places."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return {} if before == after else {place: [before, after]}
    old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
    changed: dict[str, list[Any]] = {}
    for key in old | new:
        if key != "approvals" or place:
            inner = f"{place}.{key}" if place else str(key)
            changed |= differences(old.get(key), new.get(key), inner)
    return dict(list(changed.items())[:_MOST_DIFFERENCES])


def _agreed(study: Study) -> dict[str, Any] | None:
    version = study.state.contract_version
    if version is None:
        return None
    path = study.folder.contract_version(version)
    return read_yaml(path) if path.is_file() else {}


def _mismatches(study: Study) -> list[str]:
    contract, problems = study.contract, list[str]()
    for name, agreed, now in (
        ("metrics.spec_hash", contract.metrics.spec_hash, study.metric_spec_hash),
        ("evaluation.protocol_hash", contract.evaluation.protocol_hash, study.protocol_hash),
    ):
        if now is None:
            problems.append(f"{name}: the file it stands for does not exist yet.")
        elif agreed is not None and agreed != now:
            problems.append(f"{name}: the file has changed since the contract was agreed on.")
    here, named = study.folder.task_id, contract.task.task_id
    if named != here:
        problems.append(f"task.task_id is {named}, the folder's is {here}.")
    return problems


def _overlaps(contract: Contract) -> list[str]:
    roles: tuple[SeedRole, ...] = ("selection", "promotion", "validation")
    return [
        f"seeds: {one} and {two} share {min(shared)}; pools must be disjoint."
        for one, two in combinations(roles, 2)
        if (shared := contract.seeds.pool(one) & contract.seeds.pool(two))
    ]


def _unmeasurable(study: Study) -> list[str]:
    """Return what is wrong with how the contract has results evaluated."""
    from telic.studies.launch.evaluations import evaluation_problems

    if not study.folder.protocol.is_file():
        return []
    adapter = study.adapter if study.folder.adapter.is_file() else None
    return evaluation_problems(study.protocol, study.contract, adapter)


def _questions(study: Study) -> list[str]:
    folder, contract = study.folder, study.contract
    asked: list[str] = []
    if not contract.task.success_definition:
        asked.append("When has the robot done the task? (task.success_definition)")
    if not folder.metric_spec.is_file():
        asked.append("Which number decides, and which must not get worse? (metric_spec.yaml)")
    if not folder.protocol.is_file():
        asked.append("How is a result measured, so that two can be compared? (eval_protocol.yaml)")
    elif study.protocol.command is None and study.protocol.perturbations:
        asked.append("Which command evaluates under perturbations? (eval_protocol.yaml: command)")
    if not contract.scope.params and not contract.scope.files.allow:
        asked.append("Which parameters or files may be changed? (scope)")
    if all(value is None for name, value in contract.budget if name != "launches"):
        asked.append("How much time, GPU and money may it cost? (budget)")
    if not contract.baseline.seeds:
        asked.append("With which seeds is the baseline measured? (baseline.seeds)")
    return asked


# ---------------------------------------------------------------------------- what is approved


def required_approvals(contract: Contract) -> tuple[ApprovalKey, ...]:
    """Return the approvals that this contract needs before anything starts."""
    keys = list(ALWAYS_REQUIRED)
    if contract.network is not None and contract.network.destinations:
        keys.append("network")
    if contract.generated_code is not None and contract.generated_code.allowed:
        keys.append("generated_code")
    automation = contract.automation
    if automation.autoloop or automation.launch != "ask" or automation.decide != "ask":
        keys.append("autonomy")
    return tuple(keys)


def approval_subject(study: Study, key: ApprovalKey) -> dict[str, Any]:
    """Return what a person approves under a key, as plain values; its hash binds the approval."""
    if key not in _SECTIONS:
        raise StudyError("E_APPROVAL", f"{key} is approved for a candidate, not for the contract.")
    written = study.contract.written_data()
    return {name: written.get(name) for name in _SECTIONS[key]} | _beside_contract(study, key)


def _beside_contract(study: Study, key: ApprovalKey) -> dict[str, Any]:
    """Return what other files say about a subject."""
    card, adapter_file = study.folder.task_card, study.folder.adapter
    if key == "task_definition":
        return {"card": file_hash(card) if card.is_file() else None}
    if key == "metric_and_guardrails":
        return {"file": study.metric_spec_hash}
    if key == "evaluation_protocol":
        return {"protocol_hash": study.protocol_hash}
    adapter: dict[str, Any] = read_yaml(adapter_file) if adapter_file.is_file() else {}
    if key == "hardware":
        # How a run is started is part of where it runs: a custom launcher is a command line, too.
        return {"launcher": adapter.get("launcher")}
    if key == "baseline_command":
        return {"command": adapter.get("commands", {}).get(study.contract.baseline.command)}
    return {}


# ---------------------------------------------------------------------------- evaluator files


def hash_evaluator(study: Study, files: Sequence[str] = ()) -> dict[str, Sha]:
    """Write the hashes of evaluator files into eval_protocol.yaml and return all it names.

    Without files it is those that the protocol names already, or else those that the adapter says
    evaluate. The contract has to be amended after that: the protocol is another one now.
    """
    names = list(files) or list(study.protocol.evaluator_files) or _of_adapter(study)
    if not names:
        raise StudyError(
            "E_NO_FILE",
            "Neither the protocol nor the adapter names a file that evaluates.",
            hint="Name them: telic study contract --evaluator PATH",
        )
    hashes = {name: _evaluator_hash(study, name) for name in names}
    update_yaml(study.folder.protocol, {"evaluator_files": hashes})
    return study.refresh().protocol.evaluator_files


def _of_adapter(study: Study) -> list[str]:
    if not study.folder.adapter.is_file():
        return []
    paths = [
        path.relative_to(study.root).as_posix()
        for pattern in study.adapter.files.evaluator.globs
        for path in sorted(study.root.glob(pattern))
        if path.is_file()
    ]
    return list(dict.fromkeys(paths))


def _evaluator_hash(study: Study, name: str) -> Sha:
    path = study.root / name
    if not path.resolve().is_relative_to(study.root.resolve()) or not path.is_file():
        raise StudyError("E_NO_FILE", f"{name} is not a file of the repository {study.root}.")
    return file_hash(path)
