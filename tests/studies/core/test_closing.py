"""The end of a study, files that a crash left, and anchors outside of the ledger."""

import json
import os
import subprocess

import pytest

from telic.studies.documents.base import RUNNER
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evaluator_files import hash_evaluator
from telic.studies.evidence.store import add_evidence
from telic.studies.git_notes import note_head, require_noted
from telic.studies.ledger import Ledger
from telic.studies.looking import next_step
from telic.studies.orphans import collect_orphans
from telic.studies.pausing import close_study, resume_study
from tests.studies.core.small import AGENT, CONSENT, add_candidate


def test_a_closed_study_takes_nothing_more(agreed):
    close_study(agreed, CONSENT, "the question is answered")
    ledger = Ledger(agreed)
    assert ledger.state().study_status == "closed" and ledger.verify().anchors_proven == 1
    assert next_step(ledger).args == {"rule": "closed"}
    with pytest.raises(GateRefused, match="the study is closed"):
        add_candidate(agreed)
    with pytest.raises(StudyError, match="E_CLOSED"):
        resume_study(agreed, CONSENT, "one more")


def test_a_study_is_not_closed_over_a_live_run(agreed):
    add_candidate(agreed)
    ledger = Ledger(agreed)
    intent = {"run": "r-1", "candidate": "c-0001-try", "phase": "smoke", "seed": 1, "nonce": "n"}
    ledger.append("launch.intent", "c-0001-try", intent, RUNNER)
    with pytest.raises(GateRefused, match="r-1 still runs"):
        close_study(agreed, CONSENT, "enough")


def test_what_a_crash_left_is_put_aside_after_a_week(agreed):
    ledger = Ledger(agreed)
    known = add_evidence(ledger, "metrics", {"x": 1}, AGENT, candidate="c-0001-x").id
    left = {
        agreed.evidence / "e-000000000000.json": "{}",
        agreed.audits / "a-1.json": "{}",
        agreed.decisions / "d-0001.json": "{}",
        agreed.candidates / "c-0009-x" / "candidate.json": "{}",
        agreed.path / ".unfinished-1-state.json": "",
    }
    for path, text in left.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert collect_orphans(ledger) == (), "somebody may be about to commit them"
    for path in agreed.path.rglob("*"):
        os.utime(path, (0, 0))
    found = collect_orphans(ledger)
    assert len(found) == len(left) and not any(path.exists() for path in left)
    assert agreed.evidence_file(known).is_file()
    assert (agreed.path / "orphans" / "candidates" / "c-0009-x" / "candidate.json").is_file()
    assert ledger.events()[-1].data["orphans"] == list(found)
    assert collect_orphans(ledger) == ()


def test_a_git_note_tells_a_rewritten_ledger(agreed):
    def git(*words):
        made = subprocess.run(["git", *words], cwd=agreed.root, check=True, capture_output=True)
        return made.stdout.decode()

    ledger = Ledger(agreed)
    assert require_noted(ledger) == 0
    git("init", "-q")
    with pytest.raises(StudyError, match="E_NO_COMMIT"):
        note_head(ledger)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    before = git("status", "--porcelain")
    ledger.anchor()
    note_head(ledger)
    note_head(ledger)
    assert require_noted(ledger) == 2 and git("status", "--porcelain") == before
    head = json.loads(git("notes", "--ref=telic", "show", "HEAD").splitlines()[0])
    assert head == {"study": agreed.name, **ledger.head.as_data()}
    agreed.state.unlink()
    lines = agreed.ledger.read_bytes().splitlines(keepends=True)
    agreed.ledger.write_bytes(b"".join(lines[:-1]))
    shorter = Ledger(agreed)
    assert shorter.verify().ok, "the chain alone cannot tell"
    with pytest.raises(BrokenIntegrity, match="it was rewritten"):
        require_noted(shorter)


def test_hashes_of_the_evaluator_are_filled_in(agreed):
    with pytest.raises(StudyError, match="Neither the protocol nor the adapter"):
        hash_evaluator(agreed)
    (agreed.root / "evaluate.py").write_text("one")
    first = hash_evaluator(agreed, ["evaluate.py"])
    (agreed.root / "evaluate.py").write_text("two")
    again = hash_evaluator(agreed)
    assert again == agreed.read_protocol().evaluator_files
    assert again.keys() == first.keys() and again != first
    with pytest.raises(StudyError, match="not a file of the repository"):
        hash_evaluator(agreed, ["../other.py"])
