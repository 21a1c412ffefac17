"""The hooks that hosts call: one JSON object in, at most one out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from telic.errors import TelicError
from telic.plugin.guard import before_shell
from telic.plugin.reminder import at_stop

Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell, "at-stop": at_stop}


def answer(name: str, text: str) -> str:
    """Return what a hook answers to the host's event; nothing when it has nothing to say.

    Raises TelicError, never a usage error: hosts take exit code 2 for a denial.
    """
    try:
        event = json.loads(text)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise TelicError("A hook reads one JSON object from standard input.")
    found = HOOKS[name](event)
    return "" if found is None else json.dumps(found) + "\n"
