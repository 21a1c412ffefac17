"""Velocity commands that change within an episode, e.g. for joystick control.

A command is a forward velocity, a sideways velocity and a yaw rate in the robot's frame. It is
resampled every few seconds. Some commands are zero, and some specify a heading instead of a yaw
rate, which is then proportional to the heading error.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Config

NAMES = ("forward", "sideways", "turn")
_TURN_PER_RAD = 0.5
"""Gain from heading error to yaw rate, 1/s."""
_PER_COMMAND = 5
"""Random numbers per command: three rates, standing still, and heading mode."""
_MOST = 64
"""Maximum number of commands per episode, after which they repeat."""

Span = Annotated[tuple[float, float], Field(description="lowest and highest")]


class VelocityCommands(Config):
    """Ranges of velocity commands and their resampling period."""

    forward: Span = Field((-1.0, 1.0), description="m/s ahead; negative: back")
    sideways: Span = Field((-0.5, 0.5), description="m/s to the left; negative: to the right")
    turn: Span = Field((-1.0, 1.0), description="rad/s to the left; negative: to the right")
    every_s: float = Field(5.0, gt=0, description="seconds until another command")
    still: float = Field(0.1, ge=0, le=1, description="share of commands to stand still")
    heading: float = Field(0.3, ge=0, le=1, description="share of commands that give a heading")


class Commander:
    """Computes the current command from an episode's random numbers."""

    def __init__(self, commands: VelocityCommands, longest_s: float | None, like: Tensor) -> None:
        self._commands = commands
        wanted = _MOST if longest_s is None else math.ceil(longest_s / commands.every_s)
        self.count = max(1, min(_MOST, wanted))
        spans = [getattr(commands, name) for name in NAMES]
        self._low, high = like.new_tensor(spans).T
        self._width = high - self._low

    @property
    def numbers(self) -> int:
        """Number of random numbers per episode."""
        return self.count * _PER_COMMAND

    def at(self, drawn: Tensor, time: Tensor, yaw: Tensor) -> Tensor:
        """Return forward, sideways and yaw rates, (N, 3), from samples in [0, 1), (N, numbers).

        `time` is in seconds since the start of the episode, `yaw` is in rad; (N,) each.
        """
        which = (time / self._commands.every_s + 1e-6).long() % self.count
        every = drawn.view(-1, self.count, _PER_COMMAND)
        own = every.gather(1, which[:, None, None].expand(-1, 1, _PER_COMMAND)).squeeze(1)
        rates = self._low + self._width * own[:, :3]
        # The same random number determines the yaw rate or the heading.
        away = math.tau * own[:, 2] - math.pi - yaw
        away = torch.atan2(torch.sin(away), torch.cos(away))
        toward = torch.clamp(_TURN_PER_RAD * away, self._low[2], self._low[2] + self._width[2])
        turn = torch.where(own[:, 4] < self._commands.heading, toward, rates[:, 2])
        rates = torch.cat((rates[:, :2], turn[:, None]), dim=1)
        return rates * (own[:, 3] >= self._commands.still)[:, None]
