"""Confidence bounds are calibrated in simulated sessions with known true scores."""

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # of the modules that scripts share
MODULE = runpy.run_path(str(BENCHMARKS / "confidence.py"))
calibrate, SCENARIOS = MODULE["calibrate"], MODULE["SCENARIOS"]


@pytest.mark.parametrize(
    ("name", "sessions"),
    [
        ("a mixture around the threshold", 60),
        *[pytest.param(name, 1000, marks=pytest.mark.long) for name in SCENARIOS],
    ],
)
def test_what_a_session_claims_holds_in_nineteen_of_twenty(name, sessions):
    found = calibrate(name, sessions)
    assert found.held >= 0.93 and found.passed_wrongly <= 0.05


def test_good_policies_pass_although_nothing_is_taken_for_granted():
    assert calibrate("good: smooth, 0.9", 20).passed > 0.9
