"""Facts about a driven robot are shown, and given values override inferred ones."""

import shutil
import tomllib
from pathlib import Path

import pytest
import torch

from telic import bench
from telic.envs import make
from telic.envs.robot_facts import robot_facts
from telic.robots.build import build_robot
from telic.robots.record import RobotRecord, as_toml, guessed

ROBOTS = Path(bench.__file__).parent / "suites" / "robots"
DOG = ROBOTS / "dog.xml"
STONE = '<geom name="stone" pos="9 9 0" size="0.1"/>'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("driven")


def built(place, **says):
    return build_robot(RobotRecord.parse({"model": str(DOG), **says}), place, "dog")


def test_given_feet_scales_and_contacts_are_used(place):
    guess = robot_facts(built(place))
    feet = guess.feet[:2]
    drive = guessed(DOG).drives[0].replace(joints=".*", scale=0.3)
    path = built(place, feet=feet, illegal_contacts=[guess.feet[3]], drives=[drive.model_dump()])
    facts = robot_facts(path)
    assert facts.feet == feet and facts.illegal_contacts == (guess.feet[3],)
    assert set(facts.action_scales.values()) == {0.3}
    env = make(str(path), num_envs=2)
    assert env.spec.feet == feet
    assert torch.allclose(env.action_high - env.action_low, torch.tensor(0.6))


def test_a_description_says_what_is_guessed_and_holding_on_to_it_changes_nothing(place, tmp_path):
    record = guessed(DOG)
    facts = robot_facts(built(place))
    text = as_toml(record, facts.model_dump())
    for name in ("feet", "illegal_contacts", "height", "scale"):
        assert f"# {name} = " in text
    held = [
        line.removeprefix("# ") if line.startswith(("# feet", "# illegal", "# scale")) else line
        for line in text.splitlines()
    ]
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(held))
    printed = tomllib.loads(file.read_text())
    assert printed["feet"] and all("scale" in drive for drive in printed["drives"])
    again = robot_facts(build_robot(RobotRecord.read(file), place, "dog"))
    assert again.model_dump(exclude={"action_scales"}) == facts.model_dump(
        exclude={"action_scales"}
    )


def test_an_episode_ends_when_a_body_touches_the_ground_that_may_not(place):
    foot = robot_facts(built(place)).feet[0]
    for says, ends in (({}, False), ({"illegal_contacts": [foot]}, True)):
        env = make(str(built(place, **says)), num_envs=2, terminate_when_unhealthy=True)
        env.reset()
        ended = [env.step(env.action_rest.expand(2, -1)).terminated for _ in range(20)]
        assert bool(torch.stack(ended).any(0).all()) is ends


def test_robot_is_rebuilt_when_an_included_file_changes(tmp_path, monkeypatch):
    folder = Path(shutil.copytree(ROBOTS, tmp_path / "robots"))
    part, model = folder / "dog.xml", folder / "whole.xml"
    model.write_text('<mujoco><include file="dog.xml"/></mujoco>')
    record = RobotRecord.parse({"model": str(model)})
    first = build_robot(record, tmp_path / "out", "dog")
    part.write_text(DOG.read_text().replace("<worldbody>", f"<worldbody>{STONE}"))
    second = build_robot(record, tmp_path / "out", "dog")
    assert first != second and first.is_file()
    part.write_text(DOG.read_text())
    monkeypatch.setattr("telic.robots.build.driven", None)
    assert build_robot(record, tmp_path / "out", "dog") == first
