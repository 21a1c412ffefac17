"""Small documents that core tests share."""

from __future__ import annotations

from telic.storage.files import write_json
from telic.studies import approvals, contract
from telic.studies.administration import create_study
from telic.studies.approvals import Consent
from telic.studies.documents.base import StudyActor, write_yaml
from telic.studies.documents.candidate import Candidate, Hypothesis, Origin
from telic.studies.documents.contract import Extractor, MetricSpec, Primary, Protocol

AGENT = StudyActor(kind="agent", name="coder")
HUMAN = StudyActor(kind="human", name="ada")
ENGINE = StudyActor(kind="engine", name="loop")
CONSENT = Consent(by="ada", method="tty", at="2026-08-01T09:00:00.000Z")


def begin(root):
    """Make a study as `init` leaves it."""
    root.mkdir()
    return create_study(root, "g1-walk", "speed", AGENT, statement="walk")


def complete(study):
    """Write the files a contract stands for and agree on it."""
    spec = MetricSpec(
        primary=Primary(key="success", direction="max"),
        guardrails=(),
        no_guardrails_because="toy",
        extractor=Extractor(kind="jsonl", path="metrics.jsonl"),
    )
    write_yaml(study.folder.metric_spec, spec.as_data())
    write_yaml(study.folder.protocol, Protocol(episodes=10, env_ids=("G1Flat",)).as_data())
    contract.amend(study, AGENT, "first version")
    return study


def approve_all(study):
    for each in study.missing_approvals:
        approvals.grant(study, each.key, CONSENT)


def add_candidate(study, name="c-0001-try", kind="config", actor=AGENT):
    """Write a candidate's file and enter it in the ledger as a draft."""
    made = Candidate(
        id=name,
        created_at="2026-08-01T09:00:00Z",
        created_by=actor,
        task_id=study.folder.task_id,
        study_id=study.folder.study_id,
        kind=kind,
        hypothesis=Hypothesis(statement="it helps", falsifier="it does not"),
        origin=Origin(engine="agent"),
    )
    write_json(study.folder.candidate_file(name), made.as_data())
    facts = {"kind": kind, "content_hash": made.compute_hash(), "to": "draft"}
    study.append("candidate.created", name, facts, actor)
    return made


def content(folder):
    """Every file below a folder with its bytes."""
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
