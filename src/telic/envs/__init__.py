"""Vectorized environments with a common interface.

Names are imported when needed, because many commands need only `simulators.names`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telic.envs.factory import make_named as make
    from telic.envs.spec import EnvSpec
    from telic.envs.vector import Info, Step, VecEnv

__all__ = ["EnvSpec", "Info", "Step", "VecEnv", "make"]
_WHERE = {"make": "factory", "EnvSpec": "spec"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'telic.envs' has no attribute {name!r}")
    module = import_module(f"telic.envs.{_WHERE.get(name, 'vector')}")
    return getattr(module, "make_named" if name == "make" else name)
