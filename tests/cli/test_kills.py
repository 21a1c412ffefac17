"""Every command may be killed at any moment: the same command again ends as if nothing had been."""

import random

import pytest

from tests.cli.kills import KilledCommand, commands, kill_again_and_again, whole


def check(command: KilledCommand, folder, wanted: int, seed: int) -> None:
    report = kill_again_and_again(command, folder, wanted, random.Random(seed))
    print(folder.name, dict(report.kills), "finished", report.finished)
    assert not report.differed, report.differed[0]
    assert sum(report.kills.values()) == wanted and report.finished


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param("train", marks=pytest.mark.long),
        pytest.param("train apart", marks=pytest.mark.slow),
        pytest.param("search", marks=pytest.mark.slow),
    ],
)
def test_killed_command_resumes_exactly(verb, tmp_path):
    check(commands(tmp_path, is_long=False)[verb], tmp_path, wanted=2, seed=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "kills"),
    [("train", 60), ("train apart", 30), ("search", 60)],
)
def test_a_hundred_and_fifty_kills_change_nothing(verb, kills, tmp_path):
    check(commands(tmp_path, is_long=True)[verb], tmp_path, wanted=kills, seed=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "0"
    whole(commands(folder, is_long=False)["train"], folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "kills"),
    [("train", 60), ("train apart", 30), ("search", 60), ("export", 50), ("run", 30)],
)
def test_two_hundred_kills_change_nothing(verb, kills, trained, tmp_path):
    check(commands(trained, is_long=True)[verb], tmp_path, wanted=kills, seed=2)
