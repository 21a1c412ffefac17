"""Nobody decides as a person without the yes that a door asked for."""

import pytest

from telic.studies.approvals import Consent
from telic.studies.documents.base import StudyActor
from telic.studies.errors import GateRefused
from telic.verbs.study_candidates import DecideRequest, decide

HUMAN = StudyActor(kind="human", name="ada")
AGENT = StudyActor(kind="agent", name="robot")


@pytest.mark.parametrize("verdict", ["accept", "keep", "revert"])
def test_a_human_name_alone_accepts_nothing(tmp_path, verdict):
    with pytest.raises(GateRefused, match="E_NO_HUMAN"):
        decide("c-0001-x", verdict, because="x", root=_study(tmp_path), actor=HUMAN)


def test_an_agent_decides_as_itself_and_a_yes_makes_it_the_persons():
    request = DecideRequest(candidate="c-0001-x", verdict="accept", actor=AGENT)
    assert request.decider(needs_person=True) == AGENT
    yes = Consent(by="ada", method="tty", at="2026-08-01T09:00:00Z")
    agreed = DecideRequest(candidate="c-0001-x", verdict="accept", actor=AGENT, consent=yes)
    assert agreed.decider(needs_person=True) == HUMAN


def _study(root):
    from telic.verbs.study import init

    init(task="toy", study="gain", root=root, actor=AGENT)
    return root
