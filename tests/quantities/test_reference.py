import runpy
from pathlib import Path

from telic import quantities as q

SCRIPT = Path(__file__).parents[2] / "scripts" / "quantities_page.py"


def test_the_reference_page_is_up_to_date():
    script = runpy.run_path(str(SCRIPT))
    expected = script["quantities_page"]()
    assert script["PAGE"].read_text() == expected, "Run python scripts/quantities_page.py"


def test_every_quantity_states_its_unit_and_formula_and_is_a_public_name():
    for name, quantity in q.QUANTITIES.items():
        assert getattr(q, name) is quantity
        assert quantity.unit and quantity.latex and quantity.formula.endswith(".")
