"""Suites: complete, balanced, and chosen from in the same way every time."""

from collections import Counter

import pytest

from telic.bench.results import Suite, load_suite
from telic.envs.catalogue import catalogue
from telic.errors import ConfigError, UnknownName

CASE = {
    "id": "a",
    "env": "Ant-v5",
    "intent": "walk",
    "category": "locomotion",
    "difficulty": "easy",
}


def test_core_covers_every_robot_and_difficulty():
    cases = load_suite("core").case
    assert len(cases) >= 36
    assert {each.env for each in cases} == {each.id for each in catalogue() if each.fast}
    counts = Counter(each.difficulty for each in cases)
    assert counts["easy"] >= 12 and counts["medium"] >= 12 and counts["hard"] >= 9


@pytest.mark.parametrize("name", ["arms", "core", "exotic", "files", "legged"])
def test_every_case_is_checked_by_the_suite_itself(name):
    assert [each.id for each in load_suite(name).case if not each.checks] == []


def test_a_sample_keeps_the_proportions_and_is_the_same_every_time():
    suite = load_suite("core")
    sample = suite.select(sample=19)
    counts = Counter(each.difficulty for each in suite.case)
    for name, own in Counter(each.difficulty for each in sample).items():
        assert abs(own - counts[name] / 2) <= 1, "half of the 38"
    assert sample == suite.select(sample=19) and len(sample) == 19
    assert [each for each in suite.case if each in sample] == list(sample)
    assert suite.select(sample=1000) == suite.case


def test_unknown_names_are_reported():
    suite = load_suite("core")
    with pytest.raises(UnknownName, match=r'"ant-wlak".*') as error:
        suite.select(only=["ant-wlak"])
    assert "ant-walk" in error.value.near
    with pytest.raises(UnknownName, match="difficulty"):
        suite.select(difficulty=["esay"])
    with pytest.raises(ConfigError, match="No case"):
        suite.select(env="Pogo-v1")
    with pytest.raises(UnknownName, match="suite"):
        load_suite("croe")
    with pytest.raises(ConfigError, match="does not exist"):
        load_suite("nowhere/mine.toml")


def test_a_wrong_suite_file_is_refused_with_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[[case]]\nid = "a"\n')
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        load_suite(str(path))
    path.write_text("name = ")
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        load_suite(str(path))
    with pytest.raises(ConfigError, match='Two cases have the id "a"'):
        Suite.parse({"name": "x", "case": [CASE, CASE]})
