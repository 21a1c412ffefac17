"""Quantities measured on robots, shared by rewards, judges, dashboards and docs.

    from telic import quantities

    quantities.forward_velocity(info)                                   # (N,), m/s
    self.m, turns = quantities.pitch_turns.update(self.m, info)         # since the episode began
    quantities.pitch_turns.over(quantities.Recording(fields, env.spec))  # (T,)

`describe_quantities(env.spec)` lists the quantities that an environment provides.
"""

from typing import Any

# Importing these modules registers their quantities.
from telic.quantities import _bodies, _episode, _gait, _motion
from telic.quantities.quantity import QUANTITIES as QUANTITIES
from telic.quantities.quantity import Quantity as Quantity
from telic.quantities.quantity import Recording as Recording
from telic.quantities.quantity import current_names
from telic.quantities.reference import QuantityDescription as QuantityDescription
from telic.quantities.reference import describe_quantities as describe_quantities

# Every registered quantity is an attribute of this package, so that rewards access it by name.
_MODULES = (_bodies, _episode, _gait, _motion)
globals().update(QUANTITIES)


def __getattr__(name: str) -> Any:
    """Return quantities by names of earlier versions. Type checkers accept any quantity name."""
    if (current := current_names(name)) != name and current in QUANTITIES:
        return QUANTITIES[current]
    raise AttributeError(f"Unknown quantity {name}. See describe_quantities.")
