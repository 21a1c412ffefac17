"""What environments are like: each is made once for all tests of words."""

from functools import lru_cache

from telic.envs import make


@lru_cache
def spec_of(env, **arguments):
    made = make(env, num_envs=1, **arguments)
    made.close()
    return made.spec
