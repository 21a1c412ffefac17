from telic.rewards._source import parse_docstring
from telic.rewards.load import load_reward

from .conftest import REFERENCE


def terms(spec):
    return {each.name: (each.description, each.latex, each.weight) for each in spec.terms}


def test_a_docstring_gives_formula_and_terms_as_typed():
    spec = load_reward(REFERENCE / "forward_bare.py").spec
    assert spec.latex == r"r = v_x - 0.1 \|a\|^2"
    assert spec.description == "Reward running forward."
    assert terms(spec) == {
        "forward": ("speed along x", "v_x", None),
        "ctrl": ("control cost", r"-0.1 \|a\|^2", 0.1),
    }


def test_backslashes_that_python_would_swallow_survive():
    head = "def reward_fn(obs, action, next_obs, info):\n"
    text = head + '    """Go.\n\n    $$r = \\frac{v}{\\theta}$$\n    """\n'
    assert load_reward(text).spec.latex == r"r = \frac{v}{\theta}"


def test_other_layouts_are_read_too():
    spec = parse_docstring(
        """Stand tall.

        r_t = h + u

        Reward Terms:
            1. `height`: how high
               Equation: $h = z / z_0$
            * **upright** — how upright

        Returns:
            total: the sum
        """
    )
    assert spec.latex == "r_t = h + u"
    assert terms(spec) == {
        "height": ("how high", "h = z / z_0", None),
        "upright": ("how upright", None, None),
    }


def test_attributes_and_properties_come_first():
    spec = load_reward(REFERENCE / "class_with_properties.py").spec
    assert spec.latex == r"r = v_x + e^{-\theta^2}"
    assert spec.description == "Gallop with a level back."
    assert terms(spec) == {
        "speed": ("forward speed", None, None),
        "level": ("level back", None, None),
    }


def test_a_term_shows_the_weight_of_its_name():
    spec = load_reward("run_forward", weights={"speed": 2.5}).spec
    assert terms(spec)["speed"] == ("forward velocity in m/s", None, 2.5)


def test_terms_may_be_listed_in_several_ways():
    text = "class R(RewardFunction):\n    terms = {}\n".format(
        '["a", ("b", "second"), {"name": "c", "description": "third", "latex": "x"}]'
    )
    assert terms(load_reward(text).spec) == {
        "a": ("", None, None),
        "b": ("second", None, None),
        "c": ("third", "x", None),
    }
