"""From verbs to the API's schema: a body from the fields of a request, an answer from its result.

Nothing is defined a second time: a field's help, default and bounds are those of the verb, and an
answer's type is what `as_data` makes of the result, the document that every door writes.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from telic.core.annotations import field_type, hints_of, return_type
from telic.core.request import RequestField
from telic.core.verb import Verb, Wrapped

OFFERED = ("argument", "option", "context")
_ANY = dict[str, Any]


def body_of(verb: Verb[..., Any, Any], name: str, hidden: Sequence[str] = ()) -> type[BaseModel]:
    """Return the model of what a request may hold; where to work and files are the server's."""
    fields: dict[str, Any] = {
        field.name: (kind, _field(field, kind))
        for field in verb.fields
        if field.help.scope in OFFERED and field.name not in hidden
        for kind in (field_type(field),)
        if Path not in _parts(kind)
    }
    config = ConfigDict(extra="forbid", title=name)
    return create_model(name, __config__=config, __doc__=verb.help, **fields)


def _field(field: RequestField, kind: Any) -> Any:
    how: dict[str, Any] = {"description": field.help.help}
    is_number = any(part in (int, float) for part in _parts(kind))
    if is_number and field.help.minimum is not None:
        how["ge"] = field.help.minimum
    if is_number and field.help.maximum is not None:
        how["le"] = field.help.maximum
    if not field.is_required:
        how["default"] = field.default
    return Field(**how)


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union; the type itself if it is none."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def answer_of(verb: Verb[..., Any, Any]) -> Any:
    """Return the type of the document that a verb's result is written as."""
    return document_type(return_type(verb.do))


@cache
def document_type(kind: Any) -> Any:
    """Return the type of what `core.verb.as_data` makes of a value of some type."""
    if kind is None or kind is NoneType:
        return None
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return Union[tuple(document_type(part) for part in get_args(kind))]  # noqa: UP007
    if origin is Literal or kind is Any:
        return kind
    if origin is not None:
        return _container(origin, get_args(kind))
    return _plain(kind) if inspect.isclass(kind) else Any


def _container(origin: Any, parts: tuple[Any, ...]) -> Any:
    inner = tuple(part if part is Ellipsis else document_type(part) for part in parts)
    if inspect.isclass(origin) and issubclass(origin, collections.abc.Mapping):
        return dict[str, inner[1]]
    if origin is tuple and Ellipsis not in inner:
        return tuple[inner]
    return list[inner[0]]


def _plain(kind: type[Any]) -> Any:
    """Return the document of a class."""
    if issubclass(kind, Path):
        return str
    if issubclass(kind, Wrapped):
        return document_type(hints_of(kind)[next(iter(kind.__annotations__))])
    own = cast("Callable[..., Any] | None", getattr(kind, "as_data", None))
    if own is not None:
        return document_type(return_type(own))
    if issubclass(kind, BaseModel) or not hasattr(kind, "_fields"):
        return kind if issubclass(kind, BaseModel | str | int | float | bool) else _ANY
    fields: dict[str, Any] = {
        name: (document_type(each), ...) for name, each in hints_of(kind).items()
    }
    return create_model(kind.__name__, __doc__=kind.__doc__, **fields)
