"""A robot that telic drives by position: it takes commands, and ground can be laid for it."""

from pathlib import Path

import pytest

from telic import bench
from telic.envs import make
from telic.robots.build import build_robot
from telic.robots.record import guessed

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"


@pytest.fixture(scope="session")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


@pytest.fixture(scope="session")
def spec(dog):
    made = make(dog, num_envs=1)
    made.close()
    return made.spec
