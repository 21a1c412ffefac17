"""A person says what an adapter's field is, or that what was inferred is right."""

from __future__ import annotations

import shlex
from typing import Any, cast

from telic.errors import UnknownName
from telic.studies.documents.adapter import Adapter

_COMMANDS = ("commands.train", "commands.eval", "commands.smoke", "commands.resume")
FIELDS = (
    *_COMMANDS,
    "config",
    "logging",
    "metrics",
    "seeds",
    "outputs",
    "launcher",
    "files.reward",
    "files.termination",
    "files.curriculum",
    "files.randomization",
    "files.policy",
    "files.evaluator",
)
"""parts of an adapter that a person confirms as one"""


def confirm_field(adapter: Adapter, name: str, value: Any = None) -> Adapter:
    """Return the adapter with a field confirmed, and changed when a value is given.

    `name` is one of FIELDS or something below one, such as seeds.flag; confirming a detail confirms
    its field. A command may be given as one line. Raises UnknownName, or InvalidDocument when the
    value does not fit.
    """
    field = next((each for each in FIELDS if name == each or name.startswith(f"{each}.")), None)
    if field is None:
        raise UnknownName("adapter field", name, list(FIELDS))
    data = adapter.as_data()
    if value is not None:
        _put(data, name, _as_command(value) if name in _COMMANDS else value)
    held = data["provenance"].get(field, {"evidence": []})
    data["provenance"][field] = {**held, "status": "confirmed", "confidence": 1.0}
    return Adapter.parse(data, "adapter")


def _as_command(value: Any) -> Any:
    if value == "null":  # there is none, and a person says so
        return None
    return {"argv": shlex.split(value)} if isinstance(value, str) else value


def _put(data: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for each in path:
        inner = data.get(each)
        if not isinstance(inner, dict):
            raise UnknownName("adapter field", name, [key for key in data if key != "schema"])
        data = cast("dict[str, Any]", inner)
    is_map = bool(path) and path[-1] in {"map", "options", "env", "offline_env"}
    if last not in data and not is_map:
        raise UnknownName("adapter field", name, list(data))
    data[last] = value
