from pathlib import Path

import pytest

from telic import bench
from telic.envs import make
from telic.rewards.library import library_names
from telic.rewards.load import load_reward
from telic.rewards.probe import probe
from telic.robots.build import build
from telic.robots.record import guessed

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"

MADE_FOR = {
    "ant_forward": ["Ant-v5"],
    "backflip_memory": ["HalfCheetah-v5"],
    "hop": ["Hopper-v5"],
    "run_forward": ["HalfCheetah-v5", "Walker2d-v5", "Hopper-v5"],
    "stand_up": ["HumanoidStandup-v5", "Humanoid-v5"],
}
# For any robot that takes commands: a dog that telic drives by position.
MADE_FOR_DRIVEN = {"obey_commands": {"commands": {}}}
CASES = [(name, env) for name, envs in MADE_FOR.items() for env in envs]


def test_every_reward_of_the_library_says_what_it_is_made_for():
    assert {*MADE_FOR, *MADE_FOR_DRIVEN} == set(library_names())


@pytest.mark.parametrize(("name", "env_id"), CASES)
def test_a_library_reward_is_sound(name, env_id):
    check(name, make(env_id, num_envs=4, seed=0))


@pytest.mark.parametrize("name", MADE_FOR_DRIVEN)
def test_a_library_reward_for_driven_robots_is_sound(name, tmp_path):
    dog = str(build(guessed(DOG), tmp_path, "dog"))
    check(name, make(dog, num_envs=4, seed=0, **MADE_FOR_DRIVEN[name]))


def check(name, env):
    report = probe(load_reward(name), env, transitions=32)
    env.close()
    assert report.mode == "batched"
    # A term may rest on the first steps; everything else would be a fault.
    assert {finding.name for finding in report.findings} <= {"dead_term"}
    assert report.spec.latex
    assert {term.name for term in report.spec.terms} == {term.name for term in report.terms}
    assert {term.name for term in report.spec.terms if term.weight is None} == set()
