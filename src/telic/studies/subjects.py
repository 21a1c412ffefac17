"""What each approval is about, and the hashes that bind it: every line belongs to one approval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telic.studies.canonical import content_hash, file_hash
from telic.studies.documents.base import Sha
from telic.studies.documents.contract import ApprovalKey, Contract
from telic.studies.documents.metrics import Protocol
from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder
from telic.studies.yaml_files import read_yaml

ALWAYS_REQUIRED: tuple[ApprovalKey, ...] = (
    "task_definition",
    "metric_and_guardrails",
    "tuning_scope",
    "budget",
    "hardware",
    "baseline_command",
    "evaluation_protocol",
)


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
    argv = None if protocol.command is None else protocol.command.argv
    return content_hash({**kept, "argv": argv, "metric_spec_hash": metric_spec_hash})


def current_protocol_hash(folder: StudyFolder) -> Sha | None:
    """Return the hash of the protocol as it is on disk; None while there is none."""
    if not folder.protocol.is_file():
        return None
    return protocol_hash(folder.read_protocol(), metric_spec_hash(folder))


def metric_spec_hash(folder: StudyFolder) -> Sha | None:
    """Return the hash of the metric file as it is on disk; None while there is none."""
    return content_hash(read_yaml(folder.metric_spec)) if folder.metric_spec.is_file() else None


def adapter_hash(folder: StudyFolder) -> Sha | None:
    """Return the hash of the adapter as it is on disk; None while there is none."""
    return content_hash(read_yaml(folder.adapter)) if folder.adapter.is_file() else None


# ---------------------------------------------------------------------------- what is approved


def subject(folder: StudyFolder, contract: Contract, key: ApprovalKey) -> Any:
    """Return what a person approves under a key, as plain values; its hash binds the approval."""
    maker = _SUBJECTS.get(key)
    if maker is None:
        raise StudyError("E_APPROVAL", f"{key} is approved for a candidate, not for the contract.")
    return maker(folder, contract)


def readable(folder: StudyFolder, contract: Contract, key: ApprovalKey) -> Any:
    """Return what a person reads before approving: the subject, with the file behind its hash."""
    held = subject(folder, contract, key)
    path = {
        "metric_and_guardrails": folder.metric_spec,
        "evaluation_protocol": folder.protocol,
    }.get(key)
    return held if path is None or not path.is_file() else {**held, path.name: read_yaml(path)}


def subject_hash(folder: StudyFolder, contract: Contract, key: ApprovalKey) -> Sha:
    """Return the hash of what a person approves under a key."""
    return content_hash(subject(folder, contract, key))


def required_approvals(contract: Contract) -> tuple[ApprovalKey, ...]:
    """Return the approvals that this contract needs before anything starts."""
    found = list(ALWAYS_REQUIRED)
    if contract.network is not None and contract.network.destinations:
        found.append("network")
    if contract.generated_code is not None and contract.generated_code.allowed:
        found.append("generated_code")
    automation = contract.automation
    if automation.autoloop or automation.launch != "ask" or automation.decide != "ask":
        found.append("autonomy")
    return tuple(found)


def _section(contract: Contract, *names: str) -> dict[str, Any]:
    written = contract.written_data()
    return {name: written.get(name) for name in names}


def _card_hash(folder: StudyFolder) -> Sha | None:
    return file_hash(folder.task_card) if folder.task_card.is_file() else None


def _adapter(folder: StudyFolder) -> dict[str, Any]:
    return read_yaml(folder.adapter) if folder.adapter.is_file() else {}


def _baseline(folder: StudyFolder, contract: Contract) -> Any:
    command = _adapter(folder).get("commands", {}).get(contract.baseline.command)
    return {**_section(contract, "baseline"), "command": command}


def _hardware(folder: StudyFolder, contract: Contract) -> Any:
    # How a run is started is part of where it runs: a custom launcher is a command line, too.
    return {**_section(contract, "hardware"), "launcher": _adapter(folder).get("launcher")}


_SUBJECTS: dict[ApprovalKey, Callable[[StudyFolder, Contract], Any]] = {
    "task_definition": lambda f, c: {**_section(c, "task"), "card": _card_hash(f)},
    "metric_and_guardrails": lambda f, c: {**_section(c, "metrics"), "file": metric_spec_hash(f)},
    "tuning_scope": lambda f, c: _section(c, "scope", "exceptions"),
    "budget": lambda f, c: _section(c, "budget", "stop_rules"),
    "hardware": _hardware,
    "baseline_command": _baseline,
    "evaluation_protocol": lambda f, c: {
        **_section(c, "evaluation", "seeds"),
        "protocol_hash": current_protocol_hash(f),
    },
    "network": lambda f, c: _section(c, "network"),
    "generated_code": lambda f, c: _section(c, "generated_code"),
    "autonomy": lambda f, c: _section(c, "automation"),
}
