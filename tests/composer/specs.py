"""What environments are like: each is made once for all tests of words."""

import re
from functools import lru_cache
from itertools import product

from telic.envs import make


@lru_cache
def spec_of(env, **arguments):
    made = make(env, num_envs=1, **arguments)
    made.close()
    return made.spec


def written_out(phrases):
    """The phrases that those with alternatives, "(a|b) c", stand for; none with a reader."""
    found = []
    for phrase in (each for each in phrases if "{" not in each):
        parts = [part.split("|") for part in re.split(r"[()]", phrase)]
        found += dict.fromkeys(" ".join("".join(each).split()) for each in product(*parts))
    return found
