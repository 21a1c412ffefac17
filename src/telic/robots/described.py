"""A robot's record as a TOML file that a person can edit: every field with what it means."""

from __future__ import annotations

import json
from typing import cast

from telic.robots.record import RobotRecord

_TABLES = ("model", "pose", "drives")
"""what is written in a place of its own"""


def as_toml(record: RobotRecord) -> str:
    """Return the record as a file; what is unsaid in it stands there as a comment."""
    lines = [
        "# A robot: its model is untouched; change here how it stands and is driven.",
        f"model = {_quoted(record.model)}",
    ]
    for name, field in type(record).model_fields.items():
        if name in _TABLES:
            continue
        value = getattr(record, name)
        said = f"# {name} =" if value is None else f"{name} = {_value(value)}"
        lines.append(f"{said}  # {field.description}")
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
        ]
    return "\n".join(lines) + "\n"


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
