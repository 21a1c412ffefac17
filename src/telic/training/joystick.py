"""Steer a trained robot: the keys of a terminal are a joystick, or one command is given throughout.

    w s   faster ahead, faster back        a d   to the left, to the right
    q e   turn left, turn right            space stand        Esc   end

The arrow keys go ahead and back and turn. The commands count instead of those that episodes draw.
"""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from telic.envs.commands import NAMES, VelocityCommands
from telic.envs.driven import RobotTask
from telic.envs.mujoco import MujocoEnv
from telic.envs.vector import VecEnv
from telic.errors import UsageError
from telic.quantities import QUANTITIES
from telic.rendering.sketch import LINES, stick_figure
from telic.storage.layout import MemberFolder
from telic.storage.trajectories import Environment
from telic.training.policy import record_episode

_LONGEST_S = 600.0
_CONTROL_STEP_S = 0.02
_KEYS = {"w": (0, 1), "s": (0, -1), "a": (1, 1), "d": (1, -1), "q": (2, 1), "e": (2, -1)}
_ARROWS = {"\x1b[A": "w", "\x1b[B": "s", "\x1b[C": "e", "\x1b[D": "q"}
_END = ("\x1b", "\x03", "\x04")
_NOTCH = 0.25
"""of the largest rate, by which a key changes it"""
_SHOWN_EVERY_S = 0.1
_UNITS = {"forward": "m/s", "sideways": "m/s", "turn": "rad/s"}


def spans_of(env_args: Mapping[str, Any]) -> VelocityCommands:
    """Return the commands a policy was trained with, or refuse one without commands."""
    if env_args.get("commands") is None:
        raise UsageError(
            "This policy was trained without commands, so there is nothing to tell it.",
            hint='Train one that obeys: telic run "obey velocity commands" --env unitree-go1.',
        )
    return VelocityCommands.parse(env_args["commands"])


def read_command(text: str, spans: VelocityCommands) -> tuple[float, float, float]:
    """Return a command, "0.5,0,0": speed ahead and to the left, and turning rate to the left."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(NAMES) or not all(map(math.isfinite, values)):
        raise UsageError(
            f'--command "{text}" is not understood.',
            hint="Give speed ahead and to the left in m/s and turning rate to the left in rad/s: "
            "--command 0.5,0,0.",
        )
    for name, value in zip(NAMES, values, strict=True):
        low, high = getattr(spans, name)
        if not min(low, 0.0) <= value <= max(high, 0.0):
            raise UsageError(
                f"This policy was trained with {name} commands of {low:g} to {high:g} "
                f"{_UNITS[name]}, and {value:g} is none of them.",
                hint="Give a smaller number, or train with larger commands.",
            )
    ahead, aside, turn = values
    return ahead, aside, turn


def always_told(env_args: Mapping[str, Any], command: Sequence[float]) -> dict[str, Any]:
    """Return arguments of an environment that gives one command throughout."""
    same = {name: [value, value] for name, value in zip(NAMES, command, strict=True)}
    return {**env_args, "commands": {**same, "still": 0.0, "heading": 0.0}}


class Joystick:
    """Keys that add up to a command."""

    def __init__(self, spans: VelocityCommands) -> None:
        self._spans = [getattr(spans, name) for name in NAMES]
        self.command = [0.0] * len(NAMES)

    def press(self, keys: str) -> bool:
        """Apply typed keys; return whether to continue."""
        for arrow, key in _ARROWS.items():
            keys = keys.replace(arrow, key)
        for key in keys.lower():
            if key in _END:
                return False
            if key == " ":
                self.command = [0.0] * len(NAMES)
            elif key in _KEYS:
                self._turn(*_KEYS[key])
        return True

    def _turn(self, place: int, way: int) -> None:
        low, high = min(self._spans[place][0], 0.0), max(self._spans[place][1], 0.0)
        notch = _NOTCH * max(-low, high)
        value = round((self.command[place] + way * notch) / notch) * notch if notch else 0.0
        self.command[place] = min(max(value, low), high)


class TerminalKeys:
    """The keys that were pressed in this terminal; asking for them waits for none."""

    def __init__(self) -> None:
        if not sys.stdin.isatty():
            raise UsageError(
                "The joystick is the keyboard of a terminal, and this is none.",
                hint="Start it in a terminal, or give one command for a video: --command 0.5,0,0.",
            )
        self._file = sys.stdin.fileno()

    def __enter__(self) -> TerminalKeys:
        import termios
        import tty

        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import termios

        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def __call__(self) -> str:
        """Return what was typed since the last time."""
        ready, _, _ = select.select([self._file], [], [], 0.0)
        return os.read(self._file, 64).decode(errors="ignore") if ready else ""


class Steering:
    """Sets the command of the joystick before each step, and shows the robot."""

    def __init__(
        self,
        joystick: Joystick,
        keys: Callable[[], str],
        show: Callable[[str], object],
        is_live: bool = True,
    ) -> None:
        self._joystick, self._keys, self._show = joystick, keys, show
        self._is_live = is_live
        self._steps = 0
        self._gone_m = 0.0
        self._began = 0.0

    def __call__(self, env: VecEnv) -> bool:
        """Set the command; return whether to continue."""
        assert isinstance(env, MujocoEnv) and isinstance(env.task, RobotTask)  # it takes commands
        if not self._joystick.press(self._keys()):
            return False
        command = self._joystick.command
        env.task.commanded = torch.tensor([command], dtype=env.task.qpos.dtype)
        dt = env.dt or 0.02
        if self._steps % max(1, round(_SHOWN_EVERY_S / dt)) == 0:
            self._show(self._picture(env, command))
        if self._steps == 0:
            self._began = time.monotonic()
        self._steps += 1
        if self._is_live:  # no faster than the robot would be
            time.sleep(max(0.0, self._began + self._steps * dt - time.monotonic()))
        return True

    def _picture(self, env: MujocoEnv, command: Sequence[float]) -> str:
        info = env.present()
        measured = ("heading_velocity", "sideways_velocity", "heading_rate", "heading")
        *rates, facing = (float(QUANTITIES[name](info)[0]) for name in measured)
        self._gone_m += rates[0] * _SHOWN_EVERY_S
        lines = stick_figure(
            info["xpos"][0].numpy(), env.model.body_parentid.tolist(), facing, self._gone_m
        )
        told = "   ".join(
            f"{name} {rate:+.2f} of {asked:+.2f} {_UNITS[name]}"
            for name, rate, asked in zip(NAMES, rates, command, strict=True)
        )
        lines += [told, "w s ahead, back   a d left, right   q e turn   space stand   Esc end"]
        up = f"\x1b[{LINES + 2}A" if self._steps else ""
        return up + "".join(f"\r{line}\x1b[K\n" for line in lines)


def told_episode(
    folder: MemberFolder, step: int | None, seed: int, environment: Environment, text: str | None
) -> Path:
    """Record an episode under one command, or, without any, steered by the keys of the terminal."""
    env, env_args = environment
    spans = spans_of(env_args)
    if text is not None:
        told = always_told(env_args, read_command(text, spans))
        return record_episode(folder, step, seed, (env, told), label="told")
    longer = (env, {**env_args, "max_episode_steps": round(_LONGEST_S / _CONTROL_STEP_S)})
    with TerminalKeys() as keys:
        return record_episode(
            folder,
            step,
            seed,
            longer,
            label="steered",
            steer=Steering(Joystick(spans), keys, sys.stderr.write),
        )
