"""Frozen configuration records that reject unknown keys and support dotted overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from telic.core.text import closest, is_mapping, read_value
from telic.errors import ConfigError


class Record(BaseModel):
    """Base class for frozen records that are stored, sent through the API, or used as settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Config(Record):
    """Base class for settings, whose fields have defaults and one-line help texts."""

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Create a record from plain values. Raises a ConfigError that lists all invalid values."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(explain(cls, error)) from None

    def override(self, assignments: Iterable[str]) -> Self:
        """Return a copy with dotted `key=value` assignments applied. Values are JSON or text."""
        values = self.model_dump()
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals:
                raise ConfigError(
                    f'Invalid setting "{assignment}".',
                    hint="Use key=value, e.g. gamma=0.98.",
                )
            _assign(values, key.strip().replace("-", "_"), read_value(text))
        return self.parse(values)

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return self.parse({**self.model_dump(), **changes})


def dotted(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if is_mapping(value) and value:
            out |= dotted(value, f"{before}{name}.")
        else:
            out[f"{before}{name}"] = value
    return out


def _assign(values: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        if not isinstance(values.get(name), dict):
            raise ConfigError(_unknown(name, values))
        values = values[name]
    if last not in values:
        raise ConfigError(_unknown(last, values))
    values[last] = value


def _unknown(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = closest(name, known)
    return f'No setting named "{name}". ' + (
        f"Closest: {', '.join(near)}." if near else f"Known: {', '.join(sorted(known))}."
    )


def explain(model: type[BaseModel], error: ValidationError) -> str:
    """Format all errors of a validation as one paragraph."""
    parts: list[str] = []
    for problem in error.errors():
        where = ".".join(str(each) for each in problem["loc"]) or model.__name__
        if problem["type"] == "extra_forbidden":
            parts.append(_unknown(str(problem["loc"][-1]), model.model_fields))
        elif problem["type"] == "value_error":
            parts.append(str(problem["msg"]).removeprefix("Value error, "))
        else:
            parts.append(f"{where}={problem['input']!r}: {problem['msg']}.")
    return " ".join(parts)
