"""What a source was asked for, as the contract, metric spec and protocol of its study."""

from __future__ import annotations

from typing import Any

from telic.retelling.tale import Tale
from telic.storage.files import write_text
from telic.studies.contract import contract_hash
from telic.studies.documents.adapter import (
    Adapter,
    Commands,
    ConfigSpec,
    Files,
    LauncherSpec,
    Logging,
    MetricMap,
    Outputs,
    Seeds,
)
from telic.studies.documents.base import Actor
from telic.studies.documents.contract import Contract
from telic.studies.documents.files import write_yaml
from telic.studies.study import Study


def agree(study: Study, tale: Tale, actor: Actor) -> None:
    """Write the documents and enter the contract; a request that changed is a new version.

    No approval is asked for: nothing is launched under this contract, it says under which terms the
    work was done.
    """
    folder, state = study.folder, study.state
    if not folder.adapter.is_file():
        write_yaml(folder.adapter, _adapter(tale).as_data())
    if not folder.metric_spec.is_file() or folder.read_metric_spec() != tale.spec:
        write_yaml(folder.metric_spec, tale.spec.as_data())
    if not folder.protocol.is_file() or folder.read_protocol() != tale.protocol:
        write_yaml(folder.protocol, tale.protocol.as_data())
    study.refresh()
    agreed = _contract(study, tale, state.contract_version or 1)
    if contract_hash(agreed) == state.contract_hash:
        return
    version = (state.contract_version or 0) + 1
    contract = _contract(study, tale, version)
    write_yaml(folder.contract, contract.written_data())
    write_text(folder.contract_version(version), folder.contract.read_text())
    contract = folder.read_contract()
    written = contract.written_data()
    facts = {
        "version": version,
        "hash": contract_hash(contract),
        "reason": f"the terms of the {tale.source} {tale.name}",
        "protocol_hash": contract.evaluation.protocol_hash,
        "required": [],
        "budget": written["budget"],
        "automation": written["automation"],
        "stop_rules": [],
    }
    study.append("contract.amended", None, facts, actor)


def _contract(study: Study, tale: Tale, version: int) -> Contract:
    folder = study.folder
    data: dict[str, Any] = {
        "schema": "telic.contract/1",
        "version": version,
        "task": {
            "task_id": tale.task_id,
            "statement": tale.statement,
            "env_ids": list(tale.env_ids),
            "success_definition": tale.success,
        },
        "metrics": {"spec": folder.metric_spec.name, "spec_hash": study.metric_spec_hash},
        "scope": {"kinds": list(tale.kinds)},
        "budget": tale.budget.written_data(),
        "hardware": {},
        "baseline": {},
        "evaluation": {
            "protocol": folder.protocol.name,
            "protocol_hash": study.protocol_hash,
        },
        "seeds": {
            "selection": "",
            "promotion": ",".join(map(str, sorted(tale.seeds))),
            "validation": "",
        },
        "automation": {
            "autoloop": True,
            "launch": "pre_approved",
            "decide": "auto",
            "micro_trials": {"max": tale.trials_at_most},
        },
        "x-request": tale.settings,
    }
    return Contract.parse(data, "the contract")


def _adapter(tale: Tale) -> Adapter:
    """Return an adapter without commands: the source starts its runs, and nobody else does."""
    return Adapter(
        commands=Commands(train=None, eval=None, smoke=None, resume=None),
        config=ConfigSpec(
            system="custom", detail=f"made by the {tale.source} itself", override_style="file"
        ),
        logging=Logging(),
        metrics=MetricMap(),
        files=Files(),
        launcher=LauncherSpec(kind="local"),
        seeds=Seeds(controllable=False),
        outputs=Outputs(),
    )
