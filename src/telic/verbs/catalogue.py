"""Every verb by the words that ask for it, in the order in which a newcomer needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from telic.core.verb import Verb


class Group(NamedTuple):
    """Verbs under one word."""

    help: str
    verbs: dict[str, str | Group]
    """by word, as "module:name" of this package, or a group again"""
    examples: str = ""
    own: str | None = None
    """the verb of the word alone"""


def load(path: str) -> Verb[..., Any, Any]:
    """Return the verb that "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"telic.verbs.{module}"), name)


VERBS: dict[str, str | Group] = {
    "train": "train:train",
    "presets": "train:presets",
}

PANELS: dict[str, tuple[str, ...]] = {
    "Make a policy": (
        "run",
        "train",
        "search",
        "orders",
        "pause",
        "stop",
        "resume",
        "note",
        "approve",
        "branch",
    ),
    "Look at what was made": (
        "sessions",
        "runs",
        "show",
        "play",
        "report",
        "watch",
        "delete",
        "restore",
    ),
    "Share it": ("export",),
    "Studies": ("study",),
    "This machine": ("envs", "quantities", "presets", "doctor", "bench", "plugin", "mcp"),
}
"""the words of the first level, in the order in which they are shown"""
