"""Errors by commanded speed and direction, in closed form."""

import math

import numpy as np
import pytest

from telic.envs import make
from telic.judges.command_tracking import command_errors, settled
from telic.storage.trajectories import COMMANDS, Trajectory, TrajectoryFacts

DT = 0.05


@pytest.fixture(scope="module")
def spec():
    env = make("Ant-v5", num_envs=1)
    env.close()
    keys = {**env.spec.info_keys, **dict.fromkeys(COMMANDS, "")}
    return env.spec.model_copy(update={"info_keys": keys, "dt_s": DT})


def episode(spec, told, done, seconds=4.0):
    """An Ant that is told one command and does something at constant rates."""
    steps = round(seconds / DT)
    ahead, aside, turn = done
    yaw = np.arange(steps) * turn * DT
    rate = np.stack(
        (ahead * np.cos(yaw) - aside * np.sin(yaw), ahead * np.sin(yaw) + aside * np.cos(yaw)), -1
    )
    qpos = np.tile(np.array(spec.robot.rest_qpos), (steps, 1))
    qpos[:, :2] = np.cumsum(rate, 0) * DT
    qpos[:, 3:7] = np.stack((np.cos(yaw / 2), 0 * yaw, 0 * yaw, np.sin(yaw / 2)), -1)
    columns = {"qpos": qpos, "action": np.zeros((steps, spec.act_dim))}
    columns |= {name: np.full(steps, told[k]) for k, name in enumerate(COMMANDS)}
    return Trajectory(columns, TrajectoryFacts(env_id=spec.id, dt_s=DT))


def by_name(rows):
    return {row.kind: row for row in rows if row.seconds}


def test_each_direction_and_speed_has_its_own_error(spec):
    told = [(1.0, 0, 0), (0.4, 0, 0), (-1.0, 0, 0), (0, 0.8, 0), (0, -0.2, 0), (0, 0, 0)]
    done = [(0.9, 0, 0), (0.4, 0.1, 0), (-0.5, 0, 0), (0, 0.8, 0), (0, 0.2, 0), (0.05, 0, 0)]
    rows = by_name(command_errors(map(lambda t, d: episode(spec, t, d), told, done), spec))
    errors = {name: row.error for name, row in rows.items()}
    assert errors == pytest.approx(
        {
            "go ahead, faster": 0.1,
            "go ahead, up to 0.5 m/s": 0.1,
            "go back, faster": 0.5,
            "go to the left, faster": 0.0,
            "go to the right, up to 0.5 m/s": 0.4,
            "stand: speed": 0.05,
            "stand: turning": 0.0,
        },
        abs=2e-3,
    )
    assert rows["go back, faster"].share == pytest.approx(0.5, abs=1e-2)
    assert rows["go to the right, up to 0.5 m/s"].share == pytest.approx(2.0, abs=1e-2)
    assert rows["stand: speed"].share is None


def test_turning_is_measured_whatever_it_faces(spec):
    told = [(0.5, 0.2, 0.8), (0, 0, -0.8), (0, 0, 0.2)]
    done = [(0.5, 0.2, 0.6), (0, 0, -0.8), (0, 0, -0.2)]
    rows = by_name(command_errors(map(lambda t, d: episode(spec, t, d), told, done), spec))
    assert rows["turn left, faster"].error == pytest.approx(0.2, abs=1e-3)
    assert rows["turn right, faster"].error == pytest.approx(0.0, abs=1e-3)
    assert rows["turn left, up to 0.4 rad/s"].error == pytest.approx(0.4, abs=1e-3)
    # A way that bends is as long as it looks over half a second, to a percent.
    assert rows["go ahead, faster"].error < 0.02 * math.hypot(0.5, 0.2)


def test_all_the_time_that_counts_is_somewhere(spec):
    random = np.random.default_rng(0)
    told = random.uniform((-1, -0.5, -1), (1, 0.5, 1), (12, 3))
    rows = command_errors((episode(spec, each, each) for each in told), spec)
    going = sum(row.seconds for row in rows if row.kind.startswith("go"))
    slow = np.hypot(told[:, 0], told[:, 1])
    moved = (slow > 0.05 * slow.max()).sum()
    assert going == pytest.approx(moved * settled(np.ones((80, 3)), DT).sum() * DT)
    assert all(row.error < 0.03 for row in rows)


def test_a_new_command_counts_only_once_it_could_be_answered():
    told = np.repeat([[1.0, 0, 0], [0, 0, 0], [0, 0.01, 0]], 40, axis=0)
    counts = settled(told, DT)
    answer = round(0.75 / DT)
    assert not counts[:answer].any() and counts[answer:30].all()
    assert not counts[36 : 40 + answer].any()
    assert counts[40 + answer :].all()  # 0.01 m/s more is no other command


def test_without_commands_there_is_nothing_to_say(spec):
    silent = episode(spec, (0, 0, 0), (1, 0, 0))
    assert command_errors([silent], spec) == []
    assert command_errors([], spec) == []
    other = spec.model_copy(update={"info_keys": {"qpos": ""}})
    assert command_errors([episode(spec, (1, 0, 0), (1, 0, 0))], other) == []
