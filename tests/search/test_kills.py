"""A repeatedly killed search of several processes gives the same bytes."""

import pytest

from tests.search.kills import run_kills


@pytest.mark.slow
def test_three_kills_change_no_byte(tmp_path):
    assert run_kills(3, 3, tmp_path, episodes=400)["kills"] == 3


@pytest.mark.long
def test_fifty_kills_change_no_byte(tmp_path):
    seen = run_kills(50, 17, tmp_path, episodes=2000)
    print(dict(seen))
    assert seen["kills"] == 50 and seen["kills with work done"] > 10
