import runpy
from pathlib import Path

from telic import quantities as q
from telic.envs.catalogue import describe
from telic.rewards.load import provided_names

SCRIPT = Path(__file__).parents[2] / "scripts" / "quantities_page.py"


def test_the_reference_page_is_up_to_date():
    script = runpy.run_path(str(SCRIPT))
    expected = script["quantities_page"]()
    assert script["PAGE"].read_text() == expected, "Run python scripts/quantities_page.py"


def test_every_quantity_states_its_unit_and_formula_and_is_a_public_name():
    for name, quantity in q.QUANTITIES.items():
        assert getattr(q, name) is quantity
        assert quantity.unit and quantity.latex and quantity.formula.endswith(".")


def test_an_environment_lists_what_it_has():
    hopper = {each.name for each in q.describe_quantities(describe("Hopper-v5"))}
    assert {"forward_velocity", "air_time", "pitch_turns", "uprightness"} <= hopper
    assert not {"lateral_velocity", "heading", "stride_alternation", "pole_angle"} & hopper
    pendulum = {each.name for each in q.describe_quantities(describe("InvertedPendulum-v5"))}
    assert {"pole_angle", "tip_height", "forward_velocity"} <= pendulum
    assert not {"air_time", "height", "uprightness"} & pendulum
    assert len(q.describe_quantities()) == len(q.QUANTITIES)


def test_reward_code_is_handed_the_quantities_and_nothing_else():
    assert provided_names()["telic"]["quantities"] == dict(q.QUANTITIES)
