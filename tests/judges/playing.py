"""Episodes for tests, played in this process."""

from telic.core.seeds import derive
from telic.judges.demonstrations import demonstrate
from telic.judges.recorder import RolloutSpec, play


def record(policy, env, env_args, paths, purpose="judge"):
    seed = derive(purpose, env)
    names = tuple(map(str, paths))
    play(policy, RolloutSpec(policy="", env=env, env_args=env_args, seed=seed, paths=names))
    return list(paths)


def demonstration(env, env_args, motions):
    """Return the episode of a robot that follows motions."""
    return demonstrate(env, env_args, {"shown": tuple(motions)}).trajectory("shown")
