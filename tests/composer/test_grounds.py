"""Ground in words: stairs, slopes and rough ground are laid, climbed and judged."""

import pytest

from telic.composer.compose import compose
from telic.composer.reader import parse
from telic.envs import make
from telic.errors import BadEnvironment
from telic.judges.validation import GOOD, try_here

CLIMBING = {"passes by", "turns round half way", "falls off half way"}


@pytest.mark.parametrize(
    ("words", "kind", "start", "titles"),
    [
        ("climb the stairs", "stairs", "foot", ("climbs 6 steps",)),
        ("walk up the steps", "stairs", "foot", ("climbs 6 steps",)),
        (
            "go upstairs without falling",
            "stairs",
            "foot",
            ("climbs 6 steps", "does not terminate early"),
        ),
        ("walk down the stairs", "stairs", "top", ("gets down 6 steps",)),
        ("walk up the slope", "slopes", "foot", ("climbs 2 m of the slope",)),
        ("run uphill", "slopes", "foot", ("climbs 2 m of the slope",)),
        ("walk downhill", "slopes", "top", ("gets down 2 m of the slope",)),
        ("walk over rough ground", "rough", "top", ()),
        ("trot across uneven terrain", "rough", "top", ("its diagonal feet land together",)),
    ],
)
def test_ground_is_laid_and_what_is_climbed_of_it_is_judged(spec, words, kind, start, titles):
    made = compose(words, spec)
    assert not made.not_understood and not made.dropped
    assert (made.env_args["terrain"], made.env_args["terrain_start"]) == (kind, start)
    assert set(titles) <= {each.title for each in made.criteria}
    assert made.motions and not made.motions[0].left_mps


@pytest.mark.parametrize(("first", "other"), [("up", "down"), ("down", "up")])
@pytest.mark.parametrize("ground", ["stairs", "slope"])
@pytest.mark.parametrize("then", ["and {other} again", "and {other} the {ground}"])
def test_of_up_and_down_the_first_is_judged_and_the_other_named(spec, first, other, ground, then):
    words = f"walk {first} the {ground} {then.format(other=other, ground=ground)}"
    made = compose(words, spec)
    assert made.env_args["terrain_start"] == {"up": "foot", "down": "top"}[first]
    assert any(other in each.split() for each in (*made.not_understood, *made.dropped))


@pytest.mark.parametrize("words", ["climb", "go up", "walk down"])
def test_climbing_without_a_terrain_is_a_question(spec, words):
    with pytest.raises(BadEnvironment, match="the stairs"):
        compose(words, spec)


def test_ground_is_refused_where_it_cannot_be_laid():
    ant = make("Ant-v5", num_envs=1).spec
    with pytest.raises(BadEnvironment, match="its environment is flat"):
        compose("climb the stairs", ant)
    assert parse("climb the stairs", ant).unread == ()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["climb the stairs", "walk up the slope"])
def test_judge_distinguishes_climbing_from_bypassing_turning_back_and_falling(dog, spec, words):
    made = compose(words, spec)
    examples = try_here(dog, made).examples
    scores = {each.name: each.score for each in examples}
    pays = {each.name: each.pay for each in examples}
    assert scores[GOOD] >= 0.9
    assert all(scores[name] < 0.2 and pays[name] < 0.8 * pays[GOOD] for name in CLIMBING)
