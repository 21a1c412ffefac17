"""Train robot policies from descriptions of behaviors and verify that they work.

    import telic

    env = telic.make("HalfCheetah-v5", num_envs=64, seed=0)
    run = telic.train("HalfCheetah-v5", reward="reward.py", steps=1_000_000, seeds=(1, 2, 3))
    policy = telic.load_policy(run.path)

Names are imported lazily to keep `import telic` fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from telic import quantities as quantities
    from telic.authors.author import MeasurableIntent
    from telic.envs import make as make
    from telic.errors import TelicError as TelicError
    from telic.judges.criteria import require as require
    from telic.judges.criteria import score as score
    from telic.judges.criteria import score_near as score_near
    from telic.rewards.contract import RewardFunction as RewardFunction
    from telic.session.loop import Session
    from telic.training.job import TrainJob
    from telic.training.policy import load_policy as load_policy
    from telic.training.run import Run
    from telic.verbs.search import search as search

    _Done = TypeVar("_Done", covariant=True)
    _Plan = TypeVar("_Plan", covariant=True)

    class _DryRunVerb(Protocol[_Done, _Plan]):
        @overload
        def __call__(self, *given: Any, dry_run: Literal[True], **values: Any) -> _Plan: ...
        @overload
        def __call__(self, *given: Any, dry_run: Literal[False] = ..., **values: Any) -> _Done: ...

    run: _DryRunVerb[Session, MeasurableIntent]
    train: _DryRunVerb[Run, TrainJob]

__version__ = "0.2.0"

SAFE_PATH = ("PYTHONSAFEPATH", "telic")
"""variable that keeps the current folder off Python's import path; the value shows who set it"""

_WHERE = {
    "RewardFunction": "telic.rewards.contract",
    "require": "telic.judges.criteria",
    "run": "telic.verbs.session",
    "score": "telic.judges.criteria",
    "score_near": "telic.judges.criteria",
    "TelicError": "telic.errors",
    "load_policy": "telic.training.policy",
    "make": "telic.envs",
    "quantities": "telic.quantities",
    "search": "telic.search",
    "train": "telic.verbs.train",
}

__all__ = [
    "RewardFunction",
    "TelicError",
    "__version__",
    "load_policy",
    "make",
    "quantities",
    "require",
    "run",
    "score",
    "score_near",
    "search",
    "train",
]


def protect_imports() -> None:
    """Keep the current folder off the import path of Python processes that libraries start."""
    os.environ.setdefault(*SAFE_PATH)


if sys.flags.safe_path:  # a process that telic started
    protect_imports()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'telic' has no attribute {name!r}")
    module = import_module(_WHERE[name])
    value = module if name in ("quantities", "search") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def lazy_modules(package: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package whose modules are imported on first use."""

    def load(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            raise AttributeError(name) from None

    return load


class VerbPackage(ModuleType):
    """Package that can be called to run its operation, e.g. `telic.search("CartPole-v1")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operation with the specified arguments."""
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"telic.verbs.{name}"), name)(*args, **kwargs)


def is_also_a_verb(package: str) -> None:
    """Make a package callable, since it hides the operation of the same name."""
    sys.modules[package].__class__ = VerbPackage
