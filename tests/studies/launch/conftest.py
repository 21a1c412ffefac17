import time

import pytest

from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import reconcile
from tests.studies.launch.toy_study import make_baseline, make_study


@pytest.fixture
def study(kept):
    """An approved study with a validated candidate; runs that a test leaves behind are ended."""
    made = kept("launching", lambda root: make_baseline(make_study(root)))
    yield made
    for folder in made.folder.runs.glob("*"):
        RunProcess(folder).ask_to_stop("user", "the test is over")


@pytest.fixture
def candidate(study):
    return next(iter(study.state.candidates))


def wait_until_over(study, seconds: float = 120.0):
    """Reconcile until no run is active; return the state."""
    deadline = time.monotonic() + seconds
    while True:
        reconcile(study)
        state = study.state
        if not state.active_runs:
            return state
        assert time.monotonic() < deadline, f"{state.active_runs} did not end"
        time.sleep(0.02)


@pytest.fixture
def until_over():
    return wait_until_over
