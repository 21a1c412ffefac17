"""How well a robot does what it is told: its velocity beside the commanded one.

A command is a speed ahead, a speed to the left and a turning rate, all as the robot sees them along
the ground. Environments that give commands tell them in the infos `command_forward`,
`command_sideways` and `command_turn`; a robot that is told nothing has commands of zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from telic.quantities.motion import direction, heading_rate, heading_velocity, velocity
from telic.quantities.quantity import Fields, Need, instant, moves_along, turns_about

_TOLD = ("command_forward", "command_sideways", "command_turn")
TOLD = Need("commands", lambda spec: set(_TOLD) <= set(spec.info_keys))
_ON_GROUND = moves_along("x", "y") & turns_about("z")


@instant(unit="m/s", latex=r"v_y \cos\psi - v_x \sin\psi", need=_ON_GROUND)
def sideways_velocity(info: Fields) -> Tensor:
    """Velocity over the ground to the robot's own left; to its right is negative."""
    x, y = direction(info, 0, 0), direction(info, 0, 1)
    aside = velocity(info, "y") * x - velocity(info, "x") * y
    return aside / torch.hypot(x, y).clamp_min(1e-9)


@instant(
    unit="m/s",
    latex=r"\sqrt{(v_\text{ahead} - v_\text{ahead}^*)^2 + (v_\text{left} - v_\text{left}^*)^2}",
    need=_ON_GROUND & TOLD,
)
def command_error(info: Fields) -> Tensor:
    """Distance between the velocity over the ground, as the robot sees it, and the command."""
    ahead = heading_velocity.function(info) - info["command_forward"]
    return torch.hypot(ahead, sideways_velocity.function(info) - info["command_sideways"])


@instant(unit="rad/s", latex=r"|\omega_z - \omega_z^*|", need=turns_about("z") & TOLD)
def turn_command_error(info: Fields) -> Tensor:
    """Size of the difference between the rate of turning and the commanded one."""
    return (heading_rate.function(info) - info["command_turn"]).abs()
