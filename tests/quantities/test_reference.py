from pathlib import Path

from telic import quantities as q
from telic.envs.catalogue import describe
from telic.quantities.reference import quantities_page
from telic.rewards.load import provided_names

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "quantities.md"


def test_the_reference_page_is_up_to_date():
    expected = quantities_page()
    assert PAGE.read_text() == expected, (
        "Write it anew: python -c 'from telic import quantities as q; "
        f'print(quantities_page(), end="")\' > docs/reference/{PAGE.name}'
    )


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


def test_a_description_says_how_to_call_it():
    told = {each.name: each for each in q.describe_quantities(describe("Walker2d-v5"))}
    assert told["body_height"].usage == "quantities.body_height(info, body)"
    assert told["air_time"].usage == "memory, value = quantities.air_time.update(memory, info)"
    assert told["foot_contact"].shape == "(N, feet)"


def test_reward_code_is_handed_the_quantities_and_nothing_else():
    assert provided_names()["telic"]["quantities"] == dict(q.QUANTITIES)
