"""The one way out: everything this package writes, reports or raises loses its keys here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.events import Listener, ModelEvent, from_facts
from telic.errors import TelicError
from telic.llm.errors import ModelUnavailable
from telic.llm.keys import redact, redact_value
from telic.storage.files import plain, write_bytes, write_json, write_text


def save_json(path: Path, value: Any) -> None:
    """Write a record or plain data by rename, without keys."""
    write_json(path, redact_value(plain(value)))


def save_text(path: Path, text: str) -> None:
    """Write a text by rename, without keys."""
    write_text(path, redact(text))


def save_picture(path: Path, data: bytes) -> None:
    """Write a picture by rename."""
    write_bytes(path, data)


def report(listener: Listener, kind: type[ModelEvent], facts: dict[str, Any]) -> None:
    """Tell a listener what happened, without keys."""
    listener(from_facts(kind, redact_value(plain(facts))))


def cleaned(error: Exception) -> TelicError:
    """Return the error to raise instead of `error`: one of ours, without keys and without causes.

    A cause or context would carry the original text into a traceback.
    """
    if isinstance(error, TelicError):
        error.message = redact(error.message)
        error.hint = None if error.hint is None else redact(error.hint)
        error.args = (error.message,)
        error.__cause__ = error.__context__ = None
        return error
    return ModelUnavailable(
        redact(f"The provider failed with {type(error).__name__}: {error}"),
        hint="This is not an outage of the service; it looks like a fault in the provider.",
    )
