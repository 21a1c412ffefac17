"""Descriptions of environments, each created once for all tests of the composer."""

import re
from functools import lru_cache
from itertools import product

from telic.composer.compose import compose
from telic.envs import make
from telic.judges.code import JudgeCode
from tests.judges.playing import demonstration


@lru_cache
def spec_of(env, **arguments):
    made = make(env, num_envs=1, **arguments)
    made.close()
    return made.spec


def measured(made):
    """Return the criteria of a composition without their titles."""
    return made.criteria, made.judge.partition('"""\n')[2], made.env_args


def named(made):
    """The words that no criterion carries."""
    return " ".join((*made.not_understood, *made.dropped))


def written_out(phrases):
    """The phrases that those with alternatives, "(a|b) c", stand for; none with a reader."""
    found = []
    for phrase in (each for each in phrases if "{" not in each):
        parts = [part.split("|") for part in re.split(r"[()]", phrase)]
        found += dict.fromkeys(" ".join("".join(each).split()) for each in product(*parts))
    return found


def judged(env, intent, motions=None):
    """Judge a scripted demonstration: the composer's own, or other motions."""
    made = compose(intent, spec_of(env))
    shown = demonstration(env, made.env_args, made.motions if motions is None else motions)
    return judged_as(made, shown)


def judged_as(made, trajectory):
    """Judge an episode by a composition."""
    arguments = {k: v if not isinstance(v, list) else tuple(v) for k, v in made.env_args.items()}
    verdict = JudgeCode(made.judge)(trajectory, spec_of(made.env, **arguments))
    assert verdict.score is not None, verdict.reason
    return verdict
