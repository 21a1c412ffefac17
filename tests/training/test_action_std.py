"""The initial action std of an unknown robot is calibrated."""

import shutil
from pathlib import Path

import pytest

from telic.bench.results import SUITES
from telic.training.plan import _LEVELS, calibrate_action_std, plan

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


def test_plan_calibrates_the_action_std_unless_it_is_given(dogs):
    soft = dogs("0.5")
    withstood = calibrate_action_std(soft, {})
    assert withstood is not None and withstood < _LEVELS[0]
    assert {each.settings.log_std for each in plan(soft, seeds=(1, 2)).members} == {withstood}
    for reported in ({"log_std": -0.7}, ("log_std=-0.7",)):
        assert plan(soft, settings=reported).members[0].settings.log_std == -0.7
    assert plan("Ant-v5").members[0].settings.log_std == -1.0


def test_what_stands_on_nothing_or_falls_anyhow_is_not_asked():
    assert calibrate_action_std(str(ROBOTS / "ostrich.xml"), {}) is None
    assert calibrate_action_std("HalfCheetah-v5", {}) is None
    assert calibrate_action_std("nothing.xml", {}) is None
    assert calibrate_action_std(str(ROBOTS / "dog.xml"), {"starts": "asleep"}) is None
