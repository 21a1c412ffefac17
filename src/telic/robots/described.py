"""A robot's record as a TOML file that a person can edit: every field with what it means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from telic.robots.record import Drive, RobotRecord

_TABLES = ("model", "pose", "drives")
"""what is written in a place of its own"""


def as_toml(record: RobotRecord, facts: Mapping[str, Any] | None = None) -> str:
    """Return the record as a file.

    What is unsaid in it stands there as a comment, with what telic takes it for according to
    `facts`: take off the # to hold on to it, or to change it.
    """
    facts = facts or {}
    guesses = {
        "height": facts.get("height_m"),
        "feet": _patterns(facts.get("feet")),
        "goal": facts.get("goal"),
        "illegal_contacts": _patterns(facts.get("illegal_contacts")),
    }
    lines = [
        "# A robot: its model is untouched; change here how it stands and is driven.",
        f"model = {_quoted(record.model)}",
    ]
    for name, field in type(record).model_fields.items():
        if name in _TABLES:
            continue
        value = getattr(record, name)
        said = f"{name} = {_value(value)}"
        if value is None:
            guess = guesses.get(name)
            said = f"# {name} =" if guess is None else f"# {name} = {_value(guess)}"
        lines.append(f"{said}  # {field.description}")
    lines += [f"# {name}: {value}" for name, value in _remarks(facts).items()]
    lines += ["", "[pose]  # joints by pattern, radians or metres"]
    lines += [f"{_quoted(name)} = {value:g}" for name, value in record.pose.items()]
    for drive in record.drives:
        stiffness, damping = drive.gains
        lines += [
            "",
            "[[drives]]",
            f"joints = {_quoted(drive.joints)}",
            f"effort = {drive.effort:g}",
            f"armature = {drive.armature:g}",
            f"stiffness = {stiffness:.4g}",
            f"damping = {damping:.4g}",
            _scale(drive, facts.get("action_scales") or {}),
        ]
    return "\n".join(lines) + "\n"


def _patterns(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(re.escape(name) for name in names)


def _remarks(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what was measured and follows from the rest."""
    words = {
        "kind": "what it is taken for",
        "mass_kg": "mass, kg",
        "leg_m": "length of its legs, m",
        "imu": "site of its inertial sensor",
    }
    return {words[key]: str(facts[key]) for key in words if facts.get(key) is not None}


def _scale(drive: Drive, scales: Mapping[str, float]) -> str:
    """Return the line on how far an action of 1 goes."""
    if drive.scale is not None:
        return f"scale = {drive.scale:g}"
    own = [value for name, value in scales.items() if re.fullmatch(drive.joints, name)]
    guess = f"{min(own):g}" if own else ""
    most = f" to {max(own):g}" if own and max(own) > min(own) else ""
    return f"# scale = {guess}  # from the pose, at an action of 1{most}: by the joints' ranges"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        several = cast("tuple[object, ...]", value)
        return f"[{', '.join(_value(each) for each in several)}]"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    # A literal string of TOML has no escapes; patterns are full of backslashes.
    return f"'{text}'" if "'" not in text and text.isprintable() else json.dumps(text)
