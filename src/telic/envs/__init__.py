"""Environments: N of them stepped together, behind one contract."""

from telic.envs.make import make
from telic.envs.spec import EnvSpec
from telic.envs.vector import Info, Step, VecEnv

__all__ = ["EnvSpec", "Info", "Step", "VecEnv", "make"]
