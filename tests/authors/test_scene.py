"""Every prompt is told of the environment as it is configured in the session."""

import re
from pathlib import Path

import numpy as np
import pytest
import telic.authors.scene as scene_module
import torch
from telic.authors.scene import own_facts, own_scene, scene

import telic
from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.episode import RecordedEpisode
from telic.quantities import QUANTITIES
from telic.quantities.reference import describe_quantities
from telic.storage.trajectories import Trajectory, TrajectoryFacts


def facts(name, **arguments):
    env = make(name, num_envs=1, **arguments)
    env.close()
    return own_facts(env.spec)


def test_length_and_end_are_those_of_the_session():
    told = own_scene("jump", "Ant-v5", {"max_episode_steps": 60, "terminate_when_unhealthy": False})
    assert "at most 60 steps (3 s)" in told["environment"]
    assert "never ends early" in told["environment"] and "1000" not in told["environment"]
    ends = facts("Ant-v5", terminate_when_unhealthy=True)
    assert "ends early: torso height outside healthy_z_range" in ends and "[0.2, 1.0]" in ends
    assert "never ends early" not in ends


def test_a_robot_from_a_file_without_limits_of_health_never_ends_early():
    dog = str(Path(telic.__file__).parent / "bench" / "suites" / "robots" / "dog.xml")
    assert "never ends early" in facts(dog)
    assert "ends early: when it is unhealthy" in facts(dog, healthy_z_range=(0.1, 1.0))


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


@pytest.mark.parametrize("name", ["Ant-v5", "Pusher-v5", "CartPole-v1"])
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


@pytest.mark.parametrize("name", ["Ant-v5", "Walker2d-v5"])
def test_the_memory_of_every_quantity_is_told_and_is_the_one_it_needs(name):
    env = make(name, num_envs=2, seed=1)
    env.reset()
    info = env.step(torch.zeros(2, env.spec.act_dim)).info
    told = scene("move", env.spec)["quantities"]
    rows = re.findall(r"- `(\w+)` \[.*?\], accumulated.* with a memory of (\d+), `memory", told)
    assert {found for found, _ in rows} == {
        row.name for row in describe_quantities(env.spec) if row.kind == "accumulated"
    }
    for quantity, size in rows:
        memory = torch.zeros(2, int(size))
        after, _ = QUANTITIES[quantity].update(memory, info)
        assert after.shape == memory.shape, quantity
    env.close()


def test_what_has_a_value_per_foot_says_so():
    told = own_scene("jump", "HalfCheetah-v5", {})["quantities"]
    assert "`foot_contact` [1], instant of shape (N, feet)" in told
    assert "`height` [m], instant, `quantities.height(info)`" in told


def test_a_judge_is_told_of_all_that_an_episode_offers():
    prompt = Path(scene_module.__file__).with_name("prompts").joinpath("judge_author.md")
    told = prompt.read_text(encoding="utf-8")
    offered = {name for name in vars(RecordedEpisode) if not name.startswith("_")} - {"quantity"}
    assert not [name for name in sorted(offered) if f".{name}" not in told]
