"""Reward terms, penalties and terminations of a user's Python file (`telic track train --terms`).

    def error_left_hand(t, *, weight=1.0, sigma=0.2):
        "Squared error (N,) of the left hand, rewarded by exp(-error / sigma^2)."
        return (t.relative.pos[:, 11] - t.bodies.pos[:, 11]).square().sum(-1)

    def penalty_speed(t, *, weight=-0.1, limit=3.0):
        "Penalty (N,), scaled by its weight."
        return (t.bodies.lin_vel[:, 0].norm(dim=-1) - limit).clamp_min(0.0)

    def termination_drift(t, *, limit=0.5):
        "Mask (N,) of episodes that end."
        return (t.target.pos[:, 0] - t.bodies.pos[:, 0]).norm(dim=-1) > limit

`t` is a `telic.tracking.scores.Tracked`. The prefix of a function is its kind, the rest is the
name of the term, and its keyword arguments are the term's settings. The file is ordinary Python
that runs in this process, so a folder of another user that contains one does not run it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from torch import Tensor

from telic.errors import ConfigError
from telic.storage.keys import require_permitted
from telic.tracking.config import TrackingReward

_KINDS = {"error": ("weight", "sigma"), "penalty": ("weight", "limit"), "termination": ("limit",)}
"""settings of each kind of term"""


class OwnTerms(NamedTuple):
    """Functions of a file by the name of the term, and the settings of its rewards."""

    errors: dict[str, Callable[..., Tensor]]
    penalties: dict[str, Callable[..., Tensor]]
    terminations: dict[str, Callable[..., Tensor]]
    rewards: dict[str, TrackingReward]


NO_TERMS = OwnTerms({}, {}, {}, {})


def permission(source: str) -> str:
    """Return the name under which a file's source is permitted. See `telic.storage.keys`."""
    return f"tracking terms {hashlib.sha256(source.encode()).hexdigest()}"


@cache
def load_terms(source: str) -> OwnTerms:
    """Run the source of a file and return its terms.

    Raises:
        Refused: the user has not permitted this source.
        ConfigError: the source fails, or it contains no valid terms.
    """
    scope: dict[str, Any] = {"__name__": "tracking_terms"}
    if source:
        require_permitted(permission(source))
        try:
            exec(compile(source, "<terms>", "exec"), scope)
        except Exception as error:
            raise ConfigError(f"The terms raised {type(error).__name__}: {error}.") from error
    own = OwnTerms({}, {}, {}, {})
    by_kind = {
        "error": own.errors,
        "penalty": own.penalties,
        "termination": own.terminations,
    }
    for name, function in scope.items():
        kind, _, term = name.partition("_")
        if kind in _KINDS and term and inspect.isfunction(function):
            by_kind[kind][term] = function
            settings = _settings(name, function, _KINDS[kind])
            if kind != "termination":
                own.rewards[term] = TrackingReward.parse(settings)
    if source and not any(by_kind.values()):
        raise ConfigError(
            "The file defines no terms.",
            hint="Name functions error_NAME, penalty_NAME or termination_NAME.",
        )
    return own


def _settings(
    name: str, function: Callable[..., Tensor], allowed: tuple[str, ...]
) -> dict[str, Any]:
    """Return the defaults of a function's keyword arguments."""
    state, *settings = inspect.signature(function).parameters.values()
    missing = [each.name for each in settings if each.default is each.empty]
    if missing or {each.name for each in settings} != {*allowed}:
        wanted = ", ".join(f"{each}=NUMBER" for each in allowed)
        raise ConfigError(f"Define {name}({state.name}, *, {wanted}).")
    return {each.name: each.default for each in settings}
