"""Budgets: reserve, settle, refuse; nothing is counted twice or lost."""

import pytest

from telic.studies.documents.base import RUNNER, update_yaml
from telic.studies.documents.contract import Resources
from telic.studies.errors import StudyBudgetExceeded
from telic.studies.state import shortfalls
from tests.studies.core.small import complete

LIMITS = {"gpu_h": 10, "launches": 3, "per_candidate": {"gpu_h": 6}}


@pytest.fixture
def limited(study):
    update_yaml(study.folder.contract, {"budget": LIMITS})
    complete(study)
    return study


def intend(study, run, **reservation):
    data = {"run": run, "candidate": "c-0001-x", "phase": "promotion", "seed": 1, "nonce": run}
    study.append("launch.intent", "c-0001-x", {**data, "reservation": reservation}, RUNNER)


def end(study, run, how="finished", **actual):
    study.append(f"run.{how}", run, {"actual": actual}, RUNNER)


def test_a_launch_reserves_and_its_end_settles_once(limited):
    intend(limited, "r-1", gpu_h=4)
    left = limited.state.budget.left
    assert (left.gpu_h, left.launches) == (6, 2)
    for _ in range(2):
        end(limited, "r-1", gpu_h=1.5)
    budget = limited.state.budget
    assert (budget.spent.gpu_h, budget.reserved.gpu_h) == (1.5, None)
    assert (budget.left.gpu_h, budget.left.launches) == (8.5, 2)
    intend(limited, "r-2", gpu_h=4)
    end(limited, "r-2", "lost")
    assert limited.state.budget.left.gpu_h == 4.5, "what is not known is charged as reserved"
    intend(limited, "r-3", gpu_h=4)
    assert limited.state.budget.left.launches == 0
    limited.append("launch.aborted", None, {"run": "r-3", "reason": "killed"}, RUNNER)
    left = limited.state.budget.left
    assert (left.gpu_h, left.launches) == (4.5, 1), "an aborted launch gives everything back"


def test_more_than_is_left_is_refused(limited):
    intend(limited, "r-1", gpu_h=5)
    assert shortfalls(limited.state, Resources(gpu_h=5), "c-0002-y") == []
    (printed,) = shortfalls(limited.state, Resources(gpu_h=5.1), "c-0002-y")
    assert "5 left for the study" in printed and StudyBudgetExceeded.exit_code == 7
    (printed,) = shortfalls(limited.state, Resources(gpu_h=2), "c-0001-x")
    assert "1 left for c-0001-x" in printed
