"""Play a trained robot under one commanded velocity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from telic.envs.commands import NAMES, VelocityCommands
from telic.errors import UsageError
from telic.storage.layout import MemberFolder
from telic.storage.trajectories import Environment
from telic.training.policy import record_episode

_UNITS = {"forward": "m/s", "sideways": "m/s", "turn": "rad/s"}


def spans_of(env_args: Mapping[str, Any]) -> VelocityCommands:
    """Return the commands a policy was trained with, or refuse one without commands."""
    if env_args.get("commands") is None:
        raise UsageError(
            "This policy was trained without velocity commands.",
            hint='Train one that takes them: telic run "obey velocity commands" --env unitree-go1.',
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


def with_command(env_args: Mapping[str, Any], command: Sequence[float]) -> dict[str, Any]:
    """Return arguments of an environment that gives one command throughout."""
    same = {name: [value, value] for name, value in zip(NAMES, command, strict=True)}
    return {**env_args, "commands": {**same, "still": 0.0, "heading": 0.0}}


def commanded_episode(
    folder: MemberFolder, step: int | None, seed: int, environment: Environment, text: str
) -> Path:
    """Record an episode under one command, "0.5,0,0"; returns its file."""
    env, env_args = environment
    given = with_command(env_args, read_command(text, spans_of(env_args)))
    return record_episode(folder, step, seed, (env, given), label="told")
