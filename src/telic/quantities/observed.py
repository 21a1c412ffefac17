"""Values computed from the observations of environments without a robot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from telic.errors import UnknownName

ObservedKind = Literal["column", "angle", "distance", "car energy", "tip height"]


def observed_value(obs: Tensor, kind: str, columns: Sequence[int]) -> Tensor:
    """Return a value of the given kind computed from observations (..., n).

    Args:
        obs: batch of observations.
        kind: "column", "angle" (from a cosine and a sine), "distance" (between the points in the
            first and the second half of the columns), "car energy" (from position and velocity in
            the valley of MountainCar) or "tip height" (from Acrobot's cosines and sines).
        columns: observation columns to use.
    """
    of = [obs[..., column] for column in columns]
    match kind:
        case "column":
            return of[0]
        case "angle":
            return torch.atan2(of[1], of[0])
        case "distance":
            half = len(columns) // 2
            apart = obs[..., list(columns[:half])] - obs[..., list(columns[half:])]
            return (apart**2).sum(-1) ** 0.5
        case "car energy":
            # Gravity accelerates the car by -0.0025 cos(3 x) a step: v^2 / 2 + 0.0025 sin(3 x) / 3.
            return 0.5 * of[1] ** 2 + torch.sin(3.0 * of[0]) * 0.0025 / 3.0
        case "tip height":
            return -of[0] - (of[0] * of[2] - of[1] * of[3])
        case _:
            raise UnknownName("kind of observed value", kind, list(get_args(ObservedKind)))
