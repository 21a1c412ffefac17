"""The end of a study, and the hashes of its evaluator."""

import pytest

from telic.studies.administration import set_study_status
from telic.studies.candidates import new_candidate
from telic.studies.contract import hash_evaluator
from telic.studies.documents.base import RUNNER
from telic.studies.errors import GateRefused, StudyError
from telic.studies.next import next_step
from tests.studies.core.small import HUMAN, add_candidate


def test_a_closed_study_takes_nothing_more(agreed):
    set_study_status(agreed, "closed", HUMAN, "the question is answered")
    study = agreed
    assert study.state.study_status == "closed"
    assert next_step(study).args == {"rule": "closed"}
    with pytest.raises(GateRefused, match="the study is closed"):
        new_candidate(agreed, "more", {"kind": "baseline"}, HUMAN)
    with pytest.raises(StudyError, match="E_CLOSED"):
        set_study_status(agreed, "open", HUMAN, "one more")


def test_a_study_is_not_closed_over_a_live_run(agreed):
    add_candidate(agreed)
    study = agreed
    intent = {"run": "r-1", "candidate": "c-0001-try", "phase": "smoke", "seed": 1, "nonce": "n"}
    study.append("launch.intent", "c-0001-try", intent, RUNNER)
    with pytest.raises(GateRefused, match="r-1 still runs"):
        set_study_status(agreed, "closed", HUMAN, "enough")


def test_hashes_of_the_evaluator_are_filled_in(agreed):
    with pytest.raises(StudyError, match="Neither the protocol nor the adapter"):
        hash_evaluator(agreed)
    (agreed.root / "evaluate.py").write_text("one")
    first = hash_evaluator(agreed, ["evaluate.py"])
    (agreed.root / "evaluate.py").write_text("two")
    again = hash_evaluator(agreed)
    assert again == agreed.protocol.evaluator_files
    assert again.keys() == first.keys() and again != first
    with pytest.raises(StudyError, match="not a file of the repository"):
        hash_evaluator(agreed, ["../other.py"])
