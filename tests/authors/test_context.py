"""Every prompt of a session begins with the same bytes, and they say what is true of the robot."""

import re
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from telic import quantities
from telic.authors._context import calls, prompt_source, session_context
from telic.authors.author import Brief
from telic.authors.request import SessionConfig
from telic.envs import make
from telic.judges.episode import RecordedEpisode
from telic.quantities import QUANTITIES
from telic.quantities.reference import describe_quantities
from telic.storage.layout import SessionFolder


def context(folder, name, **options):
    env = make(name, num_envs=1)
    env.close()
    config = SessionConfig.parse({"intent": "run", "env": name, **options})
    return session_context(Brief(config, env.spec, SessionFolder(folder / "session")))


@lru_cache
def context_of(name):
    with TemporaryDirectory() as folder:
        return context(Path(folder), name)


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


def test_quantities_have_numbers_of_the_start_pose_and_under_random_actions():
    text = context_of("Walker2d-v5")
    assert "| no action (start → end) | random actions | meaning |" in text
    rows = rows_of(text)
    start, end = map(float, rows["height"][3].split(" → "))
    assert start == pytest.approx(1.25, abs=0.02) and end < 1.0, "it stands, and then it has fallen"
    low, high = map(float, rows["forward_velocity"][4].split(".."))
    assert low < 0 < high
    assert len(rows["foot_height"][3].split(" → ")[0].split()) == 2, "one per foot"
    assert ".." in rows["contact_force"][4] and "those of foot" in text


def test_reward_authors_get_calls_and_shapes_as_they_are():
    text = context_of("Ant-v5")
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
def test_the_memory_of_every_quantity_is_the_one_it_needs(name):
    env = make(name, num_envs=2, seed=1)
    env.reset()
    info = env.step(torch.zeros(2, env.spec.act_dim)).info
    rows = rows_of(context_of(name))
    for row in describe_quantities(env.spec):
        kind = rows[row.name][2]
        assert kind.startswith("A") == (row.kind == "accumulated")
        if row.kind == "accumulated":
            memory = torch.zeros(2, int(re.findall(r"\d+", kind)[0]))
            after, _ = QUANTITIES[row.name].update(memory, info)
            assert after.shape == memory.shape, row.name
    env.close()


def test_a_judge_author_is_offered_all_that_an_episode_has():
    shown = prompt_source("judge_contract")
    offered = {name for name in vars(RecordedEpisode) if not name.startswith("_")} - {"quantity"}
    assert not [name for name in sorted(offered) if f".{name}" not in shown]
