"""Every prompt is told of the environment as it is configured in the session."""

import numpy as np
import pytest

from telic.authors.scene import own_facts, own_scene
from telic.envs import make
from telic.envs.tasks import TASKS
from telic.judges.code import JudgeCode
from telic.storage.trajectories import Trajectory, TrajectoryFacts


def facts(name, **arguments):
    env = make(name, num_envs=1, **arguments)
    env.close()
    return own_facts(env.spec)


def test_length_and_end_are_those_of_the_session():
    told = own_scene("jump", "Ant-v5", {"max_episode_steps": 60, "terminate_when_unhealthy": False})
    assert "at most 60 steps, 3 s" in told["environment"]
    assert "never ends early" in told["environment"] and "1000" not in told["environment"]
    assert "20 times a second" in told["environment"]
    ends = facts("Ant-v5", terminate_when_unhealthy=True)
    assert "ends early: torso height outside healthy_z_range" in ends and "[0.2, 1.0]" in ends
    assert "never ends early" not in ends


def test_what_the_policy_does_not_see_is_named():
    assert "does not observe x (`qpos[0]`) and y (`qpos[1]`)" in facts("Ant-v5")
    assert "does not observe x (`qpos[0]`):" in facts("Hopper-v5")
    seeing = facts("Hopper-v5", exclude_current_positions_from_observation=False)
    assert "does not observe" not in seeing
    assert "does not observe" not in facts("CartPole-v1"), "nobody knows its columns"


def test_angles_that_are_not_wrapped_are_named_with_the_sign_of_a_turn():
    told = facts("HalfCheetah-v5")
    assert "`rooty` (`qpos[2]`) is an angle that is not wrapped" in told
    assert "+6.28 for every front flip" in told
    assert "quaternion" in facts("Ant-v5") and "quaternion" not in told


@pytest.mark.parametrize("name", [*sorted(TASKS), "CartPole-v1"])
def test_what_is_said_to_be_recorded_is_what_a_judge_can_use(name):
    told = facts(name)
    columns = told.partition("after every step: `")[2].partition("`")[0].split()
    assert {"obs", "action"} <= set(columns)
    others = told.partition("cannot use it: `")[2].partition("`")[0].split()
    assert not set(columns) & set(others)
    env = make(name, num_envs=1)
    env.close()
    recording = Trajectory({key: np.zeros((2, 1, 6)) for key in columns}, _facts(env))
    for column in others:
        judge = JudgeCode(f"def judge(episode):\n    return episode['{column}']\n")
        verdict = judge(recording, env.spec)
        assert verdict.score is None and column in (verdict.reason or "")


def _facts(env):
    return TrajectoryFacts(env_id=env.spec.id, dt_s=env.spec.dt_s)
