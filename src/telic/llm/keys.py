"""Read API keys and redact them from all files, events and errors.

Keys are read from environment variables, or else from the system's keyring, for each call and
never stored on objects, so they cannot appear in a repr or file. All files, events and errors of
this package pass through this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from telic.core.text import is_mapping, is_row
from telic.errors import TelicError, UsageError
from telic.llm.names import CLOUD
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
REMOVED = "[key removed]"

_MIN_LENGTH = 8  # shorter values are placeholders; redacting them would corrupt ordinary text
# Keys returned so far. They are redacted even after the environment has changed.
_handed_out: set[str] = set()


def find_key(provider: str) -> str | None:
    """Return the provider's API key, or None. Raises UsageError if a required key is missing."""
    names = KEY_NAMES[provider]
    given = (key for name in names if (key := os.environ.get(name, "").strip()))
    if key := next(given, None) or _from_keyring(provider):
        _handed_out.add(key)
        return key
    if provider not in CLOUD:
        return None
    raise UsageError(
        f"No key for {provider}: {' or '.join(names)} is not set.",
        hint=f"Set it in the environment: export {names[0]}=... Keys are never written to disk. Or "
        f"store it in the keyring: pip install 'telic[keyring]'; keyring set telic {provider}",
    )


def _from_keyring(provider: str) -> str | None:
    if find_spec("keyring") is None:
        return None
    import keyring  # pyrefly: ignore[missing-import]

    try:
        return keyring.get_password("telic", provider)
    except keyring.errors.KeyringError:  # a machine without a keyring, or it is locked
        return None


def redact(text: str) -> str:
    """Redact all known keys in a text, plain or URL-encoded."""
    for key in _known():
        if key in text:
            text = text.replace(key, REMOVED)
        quoted = quote(key, safe="")
        if quoted in text:
            text = text.replace(quoted, REMOVED)
    return text


def redact_value(value: Any) -> Any:
    """Redact all known keys in plain data (dictionaries, lists, text, numbers)."""
    if isinstance(value, str):
        return redact(value)
    if is_mapping(value):
        return {redact(str(name)): redact_value(item) for name, item in value.items()}
    if is_row(value):
        return [redact_value(item) for item in value]
    return value


def save_json(path: Path, value: Any) -> None:
    """Atomically write a record or plain data as JSON with keys redacted."""
    write_json(path, redact_value(plain(value)))


def save_image(path: Path, data: bytes) -> None:
    """Atomically write an image."""
    write_bytes(path, data)


def save_text(path: Path, text: str) -> None:
    """Atomically write a text with keys redacted."""
    write_text(path, redact(text))


def without_keys(error: Exception) -> TelicError:
    """Return a `TelicError` that replaces `error`, with keys redacted and without a cause.

    With a cause or context, the traceback would show the original text.
    """
    if isinstance(error, TelicError):
        error.message = redact(error.message)
        error.hint = None if error.hint is None else redact(error.hint)
        error.args = (error.message,)
        error.__cause__ = error.__context__ = None
        return error
    return ModelUnavailable(
        redact(f"The provider failed with {type(error).__name__}: {error}"),
        hint="This is probably a bug in the provider, not an outage of the service.",
    )


def _known() -> list[str]:
    """Return all known keys, longest first because a key may be a prefix of another."""
    named = (os.environ.get(name) for names in KEY_NAMES.values() for name in names)
    keys = {key.strip() for key in named if key} | _handed_out
    return sorted((key for key in keys if len(key) >= _MIN_LENGTH), key=len, reverse=True)
