"""Every term of a composed reward pays or charges somewhere: one that never does is a mistake."""

import pytest

from telic.composer.compose import compose
from telic.envs import make
from telic.judges.validation import try_here

SLOW = pytest.mark.slow
CASES = [
    ("HalfCheetah-v5", "jump once"),
    *(
        pytest.param(env, intent, marks=SLOW)
        for env, intents in {
            "HalfCheetah-v5": ("run forward fast", "do a backflip", "walk backward, then stop"),
            "Hopper-v5": ("hop forward", "jump once, then stand still", "jump every second"),
            "Walker2d-v5": ("walk forward for two seconds, then run", "stand on one leg"),
            "Ant-v5": ("turn left on the spot", "trot forward at 0.5 m/s"),
        }.items()
        for intent in intents
    ),
]
QUIET = {"body", "level"}
"""costs of what neither puppets nor bad habits happen to do"""


@pytest.mark.parametrize(("env", "intent"), CASES)
def test_every_term_pays_or_charges_in_some_example(env, intent):
    made = compose(intent, make(env, num_envs=1).spec)
    short = {**made.env_args, "max_episode_steps": min(250, made.env_args["max_episode_steps"])}
    results, _ = try_here(env, short, made.reward, made.judge, made.motions, made.fine)
    names = results[0].terms
    silent = {name for name in names if not any(each.terms.get(name) for each in results)}
    assert {name.rpartition("_")[0] or name for name in silent} <= QUIET, silent
