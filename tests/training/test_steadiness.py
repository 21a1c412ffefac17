"""A robot that nobody knows begins with actions that it bears."""

import shutil
from pathlib import Path

import pytest

from telic.bench.results import SUITES
from telic.training.plan import plan
from telic.training.steadiness import LEVELS, borne_log_std

ROBOTS = SUITES / "robots"


@pytest.fixture
def dogs(tmp_path: Path):
    """Return what makes a dog with other drives."""
    folder = Path(shutil.copytree(ROBOTS, tmp_path / "robots"))

    def made(kv: str) -> str:
        path = folder / f"dog_{kv}.xml"
        path.write_text((folder / "dog.xml").read_text().replace('kv="1"', f'kv="{kv}"'))
        return str(path)

    return made


def test_the_less_its_drives_damp_the_gentler_it_begins(dogs):
    soft, damped = borne_log_std(dogs("0.5"), {}), borne_log_std(dogs("3.5"), {})
    assert soft is not None and damped is not None
    assert soft < damped == LEVELS[0]


def test_what_stands_on_nothing_or_falls_anyhow_is_not_asked():
    assert borne_log_std(str(ROBOTS / "ostrich.xml"), {}) is None
    assert borne_log_std("HalfCheetah-v5", {}) is None
    assert borne_log_std("nothing.xml", {}) is None
    assert borne_log_std(str(ROBOTS / "dog.xml"), {"starts": "asleep"}) is None


def test_a_plan_begins_gently_unless_it_is_told_how(dogs):
    soft = dogs("0.5")
    borne = borne_log_std(soft, {})
    assert borne is not None and borne < LEVELS[0]
    assert {each.settings.log_std for each in plan(soft, seeds=(1, 2)).members} == {borne}
    for told in ({"log_std": -0.7}, ("log_std=-0.7",)):
        assert plan(soft, settings=told).members[0].settings.log_std == -0.7
    assert plan("Ant-v5").members[0].settings.log_std == -1.0
