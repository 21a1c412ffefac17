import pytest

from tests.studies.evidence.claimed_study import established_study


@pytest.fixture
def study(kept):
    """A study with an accepted baseline."""
    return kept("established", established_study)
