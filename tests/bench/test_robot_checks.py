"""Checks of robots by name can be evaluated, and who does nothing does not meet them."""

import pytest

from telic.bench.intents import hold
from telic.bench.results import load_suite
from telic.composer.compose import compose
from telic.envs import make
from telic.judges.failure_modes import failure_modes
from telic.robots import robot_path
from telic.storage.trajectories import write_trajectory

CASES = [case for name in ("arms", "legged") for case in load_suite(name).case]
AT_REST = {"go2-stand"}
"""intents that who holds the pose fulfils; a G1 that only holds it topples over"""


@pytest.mark.slow  # robots are fetched and played
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_checks_can_be_evaluated_and_are_not_met_by_doing_nothing(case, tmp_path):
    env = str(robot_path(case.env))
    made = compose(case.intent, make(env, num_envs=1).spec)
    nothing = failure_modes(env, made.env_args).trajectory("does nothing")
    write_trajectory(tmp_path / "nothing.npz", nothing)
    environment = (env, made.env_args)
    held = hold(case.checks, [tmp_path / "nothing.npz"], tmp_path / "checked", environment)
    assert set(held) == set(case.checks)
    assert (min(held.values()) == 1.0) is (case.id in AT_REST), held
