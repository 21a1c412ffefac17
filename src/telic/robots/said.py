"""What a description says of a robot beside its mechanics, carried in its model as texts.

Whoever reads the model reads them back: in another process, and from a file alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, cast

import mujoco

from telic.errors import BadEnvironment, BadFile
from telic.storage.reading import parse_json

DRIVEN: Final = "telic_driven"
"""says that the drives of a model were built here"""
FEET: Final = "telic_feet"
ILLEGAL: Final = "telic_illegal_contacts"
SCALES: Final = "telic_action_scales"
GOAL: Final = "telic_goal"


def say(spec: mujoco.MjSpec, name: str, values: Sequence[str | float]) -> None:
    """Write values into a model, under a name."""
    spec.add_text(name=name, data=json.dumps(list(values)))


def said(model: mujoco.MjModel, name: str) -> list[str] | None:
    """Return what a model says under a name; None: nothing."""
    values = _values(model, name)
    return None if values is None else [str(each) for each in values]


def said_numbers(model: mujoco.MjModel, name: str) -> list[float] | None:
    """Return the numbers that a model says under a name; None: none."""
    values = _values(model, name)
    if values is None:
        return None
    try:
        return [float(each) for each in values]
    except (TypeError, ValueError):
        raise _not_ours(name, "numbers") from None


def said_bodies(model: mujoco.MjModel, name: str) -> tuple[int, ...] | None:
    """Return the bodies that a model names under a name; None: it says nothing."""
    names = said(model, name)
    if names is None:
        return None
    try:
        return tuple(int(model.body(each).id) for each in names)
    except KeyError:
        raise _not_ours(name, "bodies that it has") from None


def _values(model: mujoco.MjModel, name: str) -> list[Any] | None:
    text = said_text(model, name)
    if text is None:
        return None
    try:
        values = parse_json(text, name)
    except BadFile:
        values = None
    if not isinstance(values, list):
        raise _not_ours(name, "values")
    return cast("list[Any]", values)


def _not_ours(name: str, wanted: str) -> BadEnvironment:
    return BadEnvironment(
        f'The text "{name}" of the model does not list {wanted}. Texts of that name are telic\'s '
        "own, written for the model as it was.",
        hint="Take that text out of the model: what it said is guessed then.",
    )


def said_text(model: mujoco.MjModel, name: str) -> str | None:
    """Return a text of a model as it is; None: it has none of that name."""
    number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXT, name)
    if number < 0:
        return None
    first, size = int(model.text_adr[number]), int(model.text_size[number])
    return bytes(model.text_data[first : first + size]).split(b"\0")[0].decode()
