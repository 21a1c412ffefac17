"""Budgets: reserve, settle, refuse; nothing is counted twice or lost."""

import pytest

from telic.studies._ledger import Ledger
from telic.studies.documents.base import RUNNER, SYSTEM, update_yaml
from telic.studies.documents.contract import Amounts
from telic.studies.errors import StudyBudgetExceeded
from telic.studies.state import shortfalls
from tests.studies.core.small import complete

LIMITS = {
    "gpu_h": 10,
    "launches": 3,
    "per_candidate": {"gpu_h": 6},
}


@pytest.fixture
def limited(study):
    update_yaml(study.folder.contract, {"budget": LIMITS})
    complete(study)
    return study


def intend(study, run, phase="promotion", candidate="c-0001-x", **reservation):
    data = {
        "run": run,
        "candidate": candidate,
        "phase": phase,
        "seed": 1,
        "nonce": run,
        "reservation": reservation,
    }
    Ledger(study.folder).append("launch.intent", candidate, data, RUNNER)


def end(study, run, how="finished", **actual):
    Ledger(study.folder).append(f"run.{how}", run, {"actual": actual}, RUNNER)


def left(study):
    return Ledger(study.folder).state().budget.left


def test_a_launch_reserves_and_its_end_settles(limited):
    intend(limited, "r-1", gpu_h=4)
    assert (left(limited).gpu_h, left(limited).launches) == (6, 2)
    end(limited, "r-1", gpu_h=1.5)
    state = Ledger(limited.folder).state()
    assert (state.budget.spent.gpu_h, state.budget.reserved.gpu_h) == (1.5, None)
    assert (state.budget.left.gpu_h, state.budget.left.launches) == (8.5, 2)


def test_what_is_not_known_is_charged_as_reserved(limited):
    intend(limited, "r-1", gpu_h=4)
    end(limited, "r-1", "lost")
    assert left(limited).gpu_h == 6


def test_an_aborted_launch_gives_everything_back(limited):
    intend(limited, "r-1", gpu_h=4)
    Ledger(limited.folder).append(
        "launch.aborted", None, {"run": "r-1", "reason": "killed"}, SYSTEM
    )
    assert (left(limited).gpu_h, left(limited).launches) == (10, 3)


def test_settling_twice_charges_once(limited):
    intend(limited, "r-1", gpu_h=4)
    end(limited, "r-1", gpu_h=2)
    end(limited, "r-1", gpu_h=2)
    assert left(limited).gpu_h == 8


def test_more_than_is_left_is_refused(limited):
    intend(limited, "r-1", gpu_h=5)
    state = Ledger(limited.folder).state()
    assert shortfalls(state, Amounts(gpu_h=5), "c-0002-y") == []
    (said,) = shortfalls(state, Amounts(gpu_h=5.1), "c-0002-y")
    assert "5 is left for the study" in said and StudyBudgetExceeded.exit_code == 7
    (said,) = shortfalls(state, Amounts(gpu_h=2), "c-0001-x")
    assert "1 is left for c-0001-x" in said


def test_launches_are_counted_to_the_end(limited):
    for run in ("r-1", "r-2", "r-3"):
        intend(limited, run, gpu_h=1)
    state = Ledger(limited.folder).state()
    assert state.budget.left.launches == 0
