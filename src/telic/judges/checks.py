"""Measure a quantity over a part of a recorded episode, to settle what judges disagree on."""

from __future__ import annotations

import numpy as np

from telic.envs.spec import EnvSpec
from telic.judges.episode import Episode
from telic.judges.evidence import Measured
from telic.quantities import QUANTITIES
from telic.quantities.quantity import NotRecorded, Quantity
from telic.storage.trajectories import Trajectory


def measurable(spec: EnvSpec) -> list[Quantity]:
    """Return the quantities of an environment that are one number a step and need no name."""
    return [
        each
        for each in QUANTITIES.values()
        if each.available(spec) and each.per is None and not each.arguments
    ]


def measure_between(
    trajectory: Trajectory, spec: EnvSpec, quantity: str, between_s: tuple[float, float] | None
) -> Measured | None:
    """Return a quantity over a part of an episode, by default over all of it.

    None where there is no clock, where the recording lacks a column that it needs, or where the
    simulation broke and it is not a number.
    """
    dt_s = trajectory.facts.dt_s
    if dt_s is None:
        return None
    first, last = 0, len(trajectory) - 1
    if between_s is not None:
        # Row n is the state after its step, at (n + 1) dt_s.
        first, last = (min(max(round(at / dt_s) - 1, 0), last) for at in between_s)
    try:
        track = Episode(trajectory, spec)[quantity][first : last + 1]
    except NotRecorded:
        return None
    if not np.isfinite(track).all():
        return None
    return Measured(
        quantity=quantity,
        unit=QUANTITIES[quantity].unit,
        start_s=(first + 1) * dt_s,
        end_s=(last + 1) * dt_s,
        first=float(track[0]),
        last=float(track[-1]),
        mean=float(track.mean()),
        lowest=float(track.min()),
        highest=float(track.max()),
    )
