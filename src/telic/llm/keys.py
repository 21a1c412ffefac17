"""Read API keys, and remove them from everything that is written, emitted or raised.

A key is read from an environment variable at the moment of a call. It is never kept in an object,
so it cannot appear in a repr or in a file. Every file, event and error of this package passes
through this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from telic.core.text import is_mapping, is_row
from telic.errors import TelicError, UsageError
from telic.llm.records import ModelUnavailable
from telic.storage.files import plain, write_bytes, write_json, write_text

KEY_NAMES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "vllm": ("VLLM_API_KEY",),
    "lmstudio": ("LMSTUDIO_API_KEY",),
    "openai-compatible": ("OPENAI_COMPATIBLE_API_KEY",),
}
NEEDS_KEY = frozenset({"anthropic", "openai", "google", "openrouter"})
REMOVED = "[key removed]"

_SHORTEST = 8  # a shorter value is a placeholder; removing it would tear ordinary words apart
# Keys that were handed out: they must be removed even after the environment has changed.
_handed_out: set[str] = set()


def find_key(provider: str) -> str | None:
    """Return the provider's key; None where it works without one, else raises UsageError."""
    names = KEY_NAMES[provider]
    for key in map(os.environ.get, names):
        if key and key.strip():
            _handed_out.add(key.strip())
            return key.strip()
    if provider not in NEEDS_KEY:
        return None
    raise UsageError(
        f"No key for {provider}: {' or '.join(names)} is not set.",
        hint=f"Set it in the environment: export {names[0]}=... Keys are never written to disk.",
    )


def redact(text: str) -> str:
    """Return `text` without any known key, as it stands or as part of an address."""
    for key in _known():
        if key in text:
            text = text.replace(key, REMOVED)
        quoted = quote(key, safe="")
        if quoted in text:
            text = text.replace(quoted, REMOVED)
    return text


def redact_value(value: Any) -> Any:
    """Return plain data (dictionaries, lists, text, numbers) without any known key."""
    if isinstance(value, str):
        return redact(value)
    if is_mapping(value):
        return {redact(str(name)): redact_value(item) for name, item in value.items()}
    if is_row(value):
        return [redact_value(item) for item in value]
    return value


def save_json(path: Path, value: Any) -> None:
    """Write a record or plain data by rename, without keys."""
    write_json(path, redact_value(plain(value)))


def save_image(path: Path, data: bytes) -> None:
    """Write a picture by rename."""
    write_bytes(path, data)


def save_text(path: Path, text: str) -> None:
    """Write a text by rename, without keys."""
    write_text(path, redact(text))


def without_keys(error: Exception) -> TelicError:
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


def _known() -> list[str]:
    """Return every known key, longest first: a key may be the start of another."""
    named = (os.environ.get(name) for names in KEY_NAMES.values() for name in names)
    keys = {key.strip() for key in named if key} | _handed_out
    return sorted((key for key in keys if len(key) >= _SHORTEST), key=len, reverse=True)
