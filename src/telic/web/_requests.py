"""Request bodies: the fields of a verb that a page may set, and their permitted values.

An environment must be registered; files and importable code are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from telic.core.text import integer_list, read_count
from telic.core.verb import Verb
from telic.errors import Refused
from telic.robots.catalogue import robot_names

_OFFERED = ("argument", "option", "context")
_REGISTERED = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")
_FILE_NAME = re.compile(r"[\w-]+(\.xml)?")
"""a word, or a model that is part of the environment"""
_TEXTS = (integer_list, read_count)
"""parsers of text that a page may send in command-line form: 1-3, 300k"""


def check_env(values: Mapping[str, Any]) -> None:
    """Raise Refused for an environment defined only by a file or foreign code."""
    arguments: Mapping[str, Any] = values.get("env_args") or {}
    for key, value in arguments.items():
        if isinstance(value, str) and not _FILE_NAME.fullmatch(value):
            raise Refused(
                f'Invalid environment argument {key[:60]}: "{value[:60]}".',
                hint="Files can only be used on the command line: telic train --env-arg.",
            )
    name = values.get("env")
    if name is not None and not _REGISTERED.fullmatch(name) and name not in robot_names():
        raise Refused(
            f'"{name[:100]}" is not a registered environment.',
            hint="Files and code can only be used on the command line: telic run --env FILE.",
        )


def body_of(verb: Verb[Any, Any], name: str, hidden: tuple[str | None, ...]) -> type[BaseModel]:
    """Return the model of a request body; the server sets places and files."""
    fields: dict[str, Any] = {}
    for field in verb.fields:
        if field.how.scope not in _OFFERED or field.name in hidden or Path in field.alternatives:
            continue
        kind = str | field.type if field.how.read in _TEXTS else field.type
        fields[field.name] = (kind, verb.request.model_fields[field.name])
    config = ConfigDict(extra="forbid", title=name)
    return create_model(name, __config__=config, __doc__=verb.help, **fields)


def given_values(verb: Verb[Any, Any], asked: BaseModel) -> dict[str, Any]:
    """Return the fields set by a body as plain data; text is parsed as on the command line."""
    values = asked.model_dump(mode="json", exclude_unset=True)
    for field in verb.fields:
        if field.how.read in _TEXTS and isinstance(values.get(field.name), str):
            values[field.name] = field.how.read(values[field.name], field.name.replace("_", " "))
    return values
