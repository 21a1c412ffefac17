"""From every state that a random life leads to, `next` names what is accepted, or a question.

The long walk: python -m tests.studies.walk.walking LIVES SEEDS FOLDER
"""

import pytest

from tests.studies.walk.walking import explore


def test_a_study_does_not_get_stuck(tmp_path):
    found = explore(12, 30_000, tmp_path / "home")
    assert not found.stuck and len(found.states) > 5


@pytest.mark.long
def test_ten_thousand_lives_do_not_get_stuck(tmp_path):
    found = explore(10_000, 0, tmp_path / "home")
    print(found.summary())
    assert not found.stuck and len(found.states) > 3000
    assert len(found.sequences) > 9000
