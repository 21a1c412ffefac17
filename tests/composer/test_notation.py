"""Specifications as engineers write them: without a verb, and with symbols."""

import pytest

from telic.composer.compose import compose
from tests.composer.specs import spec_of

PAIRS = [
    *[("Ant-v5", f"{name} command {x} m/s", f"go at {x} m/s") for name in ("Velocity", "Speed")
      for x in ("0.5", "-0.5")],
    *[("Ant-v5", f"v_x = {x}", f"go at {x} m/s") for x in ("0.5", "-0.5")],
    *[("Ant-v5", f"yaw rate {sign} {x} rad/s", f"turn at {x} rad/s")
      for sign in ("=", "of") for x in ("0.5", "-0.5")],
    ("Walker2d-v5", "Stride frequency around 1.5 Hz", "walk at around 1.5 Hz"),
    ("Walker2d-v5", "|pitch| < 5°", "keep the pitch within 5 degrees"),
    ("Ant-v5", "torso z above 0.5 m", "torso height above 0.5 m"),
    ("InvertedDoublePendulum-v5", "tip z above 1.15 m", "tip height above 1.15 m"),
    ("CartPole-v1", "Keep |θ| < 3° and |x| < 0.3", "keep theta within 3° and x within 0.3"),
]  # fmt: skip


@pytest.mark.parametrize(("env", "spec", "sentence"), PAIRS)
def test_a_specification_means_the_sentence(env, spec, sentence):
    one, other = (compose(each, spec_of(env)).criteria for each in (spec, sentence))
    assert [each.title for each in one] == [each.title for each in other]


def test_a_negative_speed_along_x_is_backward():
    titles = [each.title for each in compose("go at -0.5 m/s along x", spec_of("Ant-v5")).criteria]
    assert any("backward" in title for title in titles)


@pytest.mark.parametrize("words", ["sway", "rock the cart", "swing it"])
@pytest.mark.parametrize("way", ["back and forth", "from side to side"])
def test_a_cart_goes_back_and_forth(words, way):
    made = compose(f"{words} {way}", spec_of("CartPole-v1"))
    assert any("goes back and forth" in each.title for each in made.criteria)
    assert not made.not_understood


def test_what_is_replaced_stays_named():
    made = compose("Instead of walking, hop forward", spec_of("Ant-v5"))
    assert any("Instead" in each for each in made.not_understood)
