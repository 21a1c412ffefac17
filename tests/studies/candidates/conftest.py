import pytest

from tests.studies.candidates.small_study import established, make_study, promoted


def _promoted(root):
    study = make_study(root)
    established(study)
    promoted(study, 0.2)


@pytest.fixture
def study(kept):
    """A study with an agreed contract."""
    return kept("small", make_study)


@pytest.fixture
def based(kept):
    """A study whose baseline is the incumbent."""
    return kept("based", lambda root: established(make_study(root)))


@pytest.fixture
def claimed(kept):
    """A study with a baseline and a better candidate at the end of its promotion."""
    return kept("promoted", _promoted)
