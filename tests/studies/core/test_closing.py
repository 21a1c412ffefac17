"""The end of a study, files that a crash left, and anchors outside of the ledger."""

import json
import os
import subprocess

import pytest

from telic.studies.administration import (
    close_study,
    collect_orphans,
    note_head,
    require_noted,
    resume_study,
)
from telic.studies.contract import hash_evaluator
from telic.studies.documents.base import RUNNER
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.store import add_evidence
from telic.studies.next import next_step
from tests.studies.core.small import AGENT, CONSENT, add_candidate
from tests.studies.fresh import FreshStudy


def test_a_closed_study_takes_nothing_more(agreed):
    close_study(agreed, CONSENT, "the question is answered")
    study = agreed
    assert study.state.study_status == "closed" and study.ledger.verify().anchors_proven == 1
    assert next_step(study).args == {"rule": "closed"}
    with pytest.raises(GateRefused, match="the study is closed"):
        add_candidate(agreed)
    with pytest.raises(StudyError, match="E_CLOSED"):
        resume_study(agreed, CONSENT, "one more")


def test_a_study_is_not_closed_over_a_live_run(agreed):
    add_candidate(agreed)
    study = agreed
    intent = {"run": "r-1", "candidate": "c-0001-try", "phase": "smoke", "seed": 1, "nonce": "n"}
    study.append("launch.intent", "c-0001-try", intent, RUNNER)
    with pytest.raises(GateRefused, match="r-1 still runs"):
        close_study(agreed, CONSENT, "enough")


def test_what_a_crash_left_is_put_aside_after_a_week(agreed):
    study = agreed
    known = add_evidence(study, "metrics", {"x": 1}, AGENT, candidate="c-0001-x").id
    left = {
        agreed.folder.evidence / "e-000000000000.json": "{}",
        agreed.folder.audits / "a-1.json": "{}",
        agreed.folder.decisions / "d-0001.json": "{}",
        agreed.folder.candidates / "c-0009-x" / "candidate.json": "{}",
        agreed.folder.path / ".unfinished-1-state.json": "",
    }
    for path, text in left.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert collect_orphans(study) == (), "somebody may be about to commit them"
    for path in agreed.folder.path.rglob("*"):
        os.utime(path, (0, 0))
    found = collect_orphans(study)
    assert len(found) == len(left) and not any(path.exists() for path in left)
    assert agreed.folder.evidence_file(known).is_file()
    assert (agreed.folder.path / "orphans" / "candidates" / "c-0009-x" / "candidate.json").is_file()
    assert study.events[-1].data["orphans"] == list(found)
    assert collect_orphans(study) == ()


def test_a_git_note_tells_a_rewritten_ledger(agreed):
    def git(*words):
        made = subprocess.run(["git", *words], cwd=agreed.root, check=True, capture_output=True)
        return made.stdout.decode()

    study = agreed
    assert require_noted(study.ledger) == 0
    git("init", "-q")
    with pytest.raises(StudyError, match="E_NO_COMMIT"):
        note_head(study.ledger)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    before = git("status", "--porcelain")
    study.ledger.anchor()
    note_head(study.ledger)
    note_head(study.ledger)
    assert require_noted(study.ledger) == 2 and git("status", "--porcelain") == before
    head = json.loads(git("notes", "--ref=telic", "show", "HEAD").splitlines()[0])
    assert head == {"study": agreed.name, **study.ledger.head.as_data()}
    agreed.folder.state.unlink()
    lines = agreed.folder.ledger.read_bytes().splitlines(keepends=True)
    agreed.folder.ledger.write_bytes(b"".join(lines[:-1]))
    shorter = FreshStudy(agreed.folder).ledger
    assert not shorter.verify().ok, "the heads kept outside of the folder tell"
    with pytest.raises(BrokenIntegrity, match="it was rewritten"):
        require_noted(shorter)


def test_hashes_of_the_evaluator_are_filled_in(agreed):
    with pytest.raises(StudyError, match="Neither the protocol nor the adapter"):
        hash_evaluator(agreed)
    (agreed.root / "evaluate.py").write_text("one")
    first = hash_evaluator(agreed, ["evaluate.py"])
    (agreed.root / "evaluate.py").write_text("two")
    again = hash_evaluator(agreed)
    assert again == agreed.folder.read_protocol().evaluator_files
    assert again.keys() == first.keys() and again != first
    with pytest.raises(StudyError, match="not a file of the repository"):
        hash_evaluator(agreed, ["../other.py"])
