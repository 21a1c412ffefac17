"""From every state that a random life leads to, `next` names what is accepted, or a question.

The long walk: python -m tests.studies.walk.walking WALKS SEED FOLDER
"""

import pytest

from tests.studies.walk.walking import run_walks


def test_a_study_does_not_get_stuck(tmp_path):
    found = run_walks(2, 30_000, tmp_path, steps=18)
    assert found["stuck"] == 0 and found["states"] > 5


@pytest.mark.long
def test_a_thousand_lives_do_not_get_stuck(tmp_path):
    found = run_walks(1000, 0, tmp_path, steps=40)
    print(found)
    assert found["stuck"] == 0 and found["states"] > 1000
