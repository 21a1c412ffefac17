"""Personal decisions require a confirmation through the interface."""

import pytest

from telic.studies.documents.base import StudyActor
from telic.studies.errors import GateRefused
from telic.verbs.study_candidates import decide

HUMAN = StudyActor(kind="human", name="ada")
AGENT = StudyActor(kind="agent", name="robot")


@pytest.mark.parametrize("verdict", ["accept", "keep", "revert"])
def test_a_human_name_alone_accepts_nothing(tmp_path, verdict):
    with pytest.raises(GateRefused, match="E_NO_HUMAN"):
        decide("c-0001-x", verdict, because="x", root=_study(tmp_path), actor=HUMAN)


def _study(root):
    from telic.verbs.study import init

    init(task="toy", study="gain", root=root, actor=AGENT)
    return root
