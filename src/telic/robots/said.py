"""What a description says of a robot beside its mechanics, carried in its model as texts.

Whoever reads the model reads them back: in another process, and from a file alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import mujoco

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
    text = said_text(model, name)
    return None if text is None else [str(each) for each in json.loads(text)]


def said_numbers(model: mujoco.MjModel, name: str) -> list[float] | None:
    """Return the numbers that a model says under a name; None: none."""
    text = said_text(model, name)
    return None if text is None else [float(each) for each in json.loads(text)]


def said_text(model: mujoco.MjModel, name: str) -> str | None:
    """Return a text of a model as it is; None: it has none of that name."""
    number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXT, name)
    if number < 0:
        return None
    first, size = int(model.text_adr[number]), int(model.text_size[number])
    return bytes(model.text_data[first : first + size]).split(b"\0")[0].decode()
