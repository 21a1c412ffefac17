"""Every prompt of a session begins with the same bytes, and they say what is true of the robot."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import telic
from telic import quantities
from telic.authors._context import calls, configured, prompt_source, session_context
from telic.authors.author import Brief
from telic.authors.request import SessionConfig
from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.episode import RecordedEpisode
from telic.quantities import QUANTITIES
from telic.quantities.reference import describe_quantities
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import Trajectory, TrajectoryFacts
from tests.training.small import small_job, train_here


def context(folder, name, **options):
    env = make(name, num_envs=1)
    env.close()
    config = SessionConfig.parse({"intent": "run", "env": name, **options})
    return session_context(Brief(config, env.spec, SessionFolder(folder / "session")))


def rows_of(text):
    table = text.partition("|---|")[2].splitlines()[1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line]
    return {row[0].partition("(")[0]: row for row in cells}


def test_it_is_made_once_and_says_how_the_session_decides(tmp_path):
    first = context(tmp_path, "HalfCheetah-v5", threshold=0.7, iterations=3, max_steps=5_000_000)
    for part in (
        "reaches 0.7 over 64 or more",
        "for 2 of 3 training seeds",
        "3 rewards",
        "5,000,000 steps",
        "noise of ±0.1",
        "bfoot 0.63 m from hip to ground",
        "does not observe x (`qpos[0]`)",
        "`rooty` (`qpos[2]`) is an unwrapped angle",
        "+6.28 for every front flip",
    ):
        assert part in first, part
    (tmp_path / "session" / "context.md").write_text(first + "kept")
    assert context(tmp_path, "HalfCheetah-v5") == first + "kept"


def test_a_policy_of_the_native_reward_adds_a_column(tmp_path):
    train_here(small_job(evaluations=1), tmp_path)
    text = context(tmp_path, "HalfCheetah-v5")
    assert "| random actions | native policy | meaning |" in text
    assert ".." in rows_of(text)["forward_velocity"][5]


def test_quantities_have_numbers_of_the_start_pose_and_under_random_actions(tmp_path):
    text = context(tmp_path, "Walker2d-v5")
    assert "| no action (start → end) | random actions | meaning |" in text
    rows = rows_of(text)
    start, end = map(float, rows["height"][3].split(" → "))
    assert start == pytest.approx(1.25, abs=0.02) and end < 1.0, "it stands, and then it has fallen"
    low, high = map(float, rows["forward_velocity"][4].split(".."))
    assert low < 0 < high
    assert len(rows["foot_height"][3].split(" → ")[0].split()) == 2, "one per foot"
    assert ".." in rows["contact_force"][4] and "those of foot" in text


def test_reward_authors_get_calls_and_shapes_as_they_are(tmp_path):
    text = context(tmp_path, "Ant-v5")
    env = make("Ant-v5", num_envs=3)
    env.reset()
    info = env.step(torch.zeros(3, env.spec.act_dim)).info
    listed = text.partition("N environments: ")[2].partition(". `contacts`")[0].split("; ")
    for shape, names in (each.split(" `") for each in listed):
        for name in names.strip("`").split():
            assert str(tuple(info[name].shape)).replace("3", "N", 1) == shape, name
    body, joint = "torso", env.spec.joints[-1].name
    for call in calls(env.spec):
        args = {"body": body, "joint": joint, "point": (0.0, 0.0, 0.0), "info": info}
        value = eval(call, {"quantities": quantities, **args})
        assert len(value) == 3, call
    env.close()


@pytest.mark.parametrize("name", ["Ant-v5", "Walker2d-v5"])
def test_the_memory_of_every_quantity_is_the_one_it_needs(tmp_path, name):
    env = make(name, num_envs=2, seed=1)
    env.reset()
    info = env.step(torch.zeros(2, env.spec.act_dim)).info
    rows = rows_of(context(tmp_path, name))
    for row in describe_quantities(env.spec):
        kind = rows[row.name][2]
        assert kind.startswith("A") == (row.kind == "accumulated")
        if row.kind == "accumulated":
            memory = torch.zeros(2, int(re.findall(r"\d+", kind)[0]))
            after, _ = QUANTITIES[row.name].update(memory, info)
            assert after.shape == memory.shape, row.name
    env.close()


@pytest.mark.parametrize("name", ["Ant-v5", "Pusher-v5", "CartPole-v1"])
def test_documented_recordings_are_usable_by_a_judge(tmp_path, name):
    text = context(tmp_path, name)
    listed = re.findall(r"\(N[^)]*\) `([^`]*)`", text.partition("environments: ")[2])
    others = set(text.partition("Not recorded: `")[2].partition("`")[0].split())
    columns = {name for names in listed for name in names.split()} - others - {"dt"}
    env = make(name, num_envs=1)
    env.close()
    facts = TrajectoryFacts(env_id=env.spec.id, dt_s=env.spec.dt_s)
    recording = Trajectory({key: np.zeros((2, 1, 6)) for key in columns}, facts)
    for column in others:
        judge = JudgeCode(f"def judge(episode):\n    return episode['{column}']\n")
        verdict = judge(recording, env.spec)
        assert verdict.score is None and column in (verdict.reason or "")


def test_length_and_end_are_those_of_the_session():
    here = configured("Ant-v5", {"max_episode_steps": 60, "terminate_when_unhealthy": False})
    assert "at most 60 steps (3 s)" in here[0] and "never end early" in here[1]
    ends = configured("Ant-v5", {"terminate_when_unhealthy": True})[1]
    assert "ends early: torso height outside healthy_z_range" in ends and "[0.2, 1.0]" in ends
    dog = str(Path(telic.__file__).parent / "bench" / "suites" / "robots" / "dog.xml")
    assert "never end early" in configured(dog, {})[1]
    assert "when it is unhealthy" in configured(dog, {"healthy_z_range": (0.1, 1.0)})[1]


def test_a_judge_author_is_offered_all_that_an_episode_has():
    shown = prompt_source("judge_contract")
    offered = {name for name in vars(RecordedEpisode) if not name.startswith("_")} - {"quantity"}
    assert not [name for name in sorted(offered) if f".{name}" not in shown]
