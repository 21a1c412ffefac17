"""A setting that people write and nobody reads is a lie: every field of every document is read."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from telic.studies.documents import adapter, candidate, contract, metrics
from telic.studies.evidence import curriculum, probes

SOURCE = Path(adapter.__file__).parents[2]
FOR_PEOPLE = {
    "Seeds.deterministic": "what an audit found out; shown with the adapter",
    "Quote.quote_hash": "proves where in the repository a finding was made",
    "ContractException.approved_by": "whose exception it is; approved with the scope",
    "TaskSection.card_hash": "the card itself is hashed into its approval",
    "Network.purposes": "what a destination is for; approved with the network",
    "Component.kernel": "how a term is shaped; approved with the metrics",
    "Normalisation.basis": "what 0 and 1 stand for; approved with the metrics",
    "MetricSpec.no_guardrails_because": "approved with the metrics",
    "Protocol.deterministic": "part of the protocol's hash: what differs is not compared",
    "Times.planned_at": "when a run was announced; the ledger has it, too",
    "StudyRun.cmd_hash": "what a run was started with; the ledger has it, too",
    "BatchCandidate.expected_output": "a plan for people",
    "BatchCandidate.promotion_criteria": "a plan for people",
    "Idea.idea": "a plan for people",
    "Experiments.backlog": "a plan for people",
    "Learnability.case_set": "which cases are meant",
    "ProbedPolicy.checkpoint_sha": "which policy was probed; part of the evidence",
    "ParameterSummary.cliffs": "a finding for people",
}


@pytest.fixture(scope="module")
def source():
    """Every name that is asked for as an attribute or named in quotes, outside of the documents."""
    files = [path for path in SOURCE.rglob("*.py") if "documents" not in path.parts]
    text = "\n".join(path.read_text() for path in files)
    return {*re.findall(r"\.(\w+)", text), *re.findall(r"[\"'](\w+)[\"']", text)}


def test_every_field_of_every_document_is_read_or_is_for_people(source):
    unread = set()
    for module in (adapter, contract, metrics, candidate, curriculum, probes):
        for name, kind in vars(module).items():
            is_own = isinstance(kind, type) and getattr(kind, "__module__", "") == module.__name__
            if not is_own or not issubclass(kind, BaseModel):
                continue
            for field in kind.model_fields:
                if field not in source:
                    unread.add(f"{name}.{field}")
    assert unread == set(FOR_PEOPLE)
