"""Forbid processes, sockets and training frameworks to everything that is not the launch path.

Python reports each of these acts before it happens; inside `offline` the report becomes a refusal.
Only `git_read`'s read-only git commands may start.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from telic.studies.errors import GateRefused
from telic.studies.git_read import is_allowed

_PROCESS_EVENTS = frozenset(
    {
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
        "os.system",
        "os.startfile",
        "pty.spawn",
    }
)
_SOCKET_EVENTS = frozenset(
    {
        "socket.connect",
        "socket.bind",
        "socket.sendto",
        "socket.sendmsg",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
    }
)
FRAMEWORKS = frozenset(
    {
        "torch",
        "tensorflow",
        "jax",
        "flax",
        "mujoco",
        "gym",
        "gymnasium",
        "stable_baselines3",
        "ray",
        "isaaclab",
        "isaacgym",
        "brax",
        "wandb",
        "mlflow",
    }
)

_active: ContextVar[str | None] = ContextVar("offline", default=None)
_installed = False


@contextmanager
def offline(doing: str) -> Generator[None]:
    """Refuse processes, sockets and training frameworks until the block ends.

    Args:
        doing: what the block does, for the refusal.
    """
    global _installed
    if not _installed:
        # Python cannot take a hook away, so there is one, which looks at whether it is wanted.
        sys.addaudithook(_refuse)
        _installed = True
    token = _active.set(doing)
    try:
        yield
    finally:
        _active.reset(token)


def _refuse(event: str, details: tuple[Any, ...]) -> None:
    doing = _active.get()
    if doing is None:
        return
    if event in _PROCESS_EVENTS and not _is_git_question(event, details):
        program = str(details[0]) if details else ""
        raise _refusal(doing, f"start a process ({event} {program})")
    if event in _SOCKET_EVENTS:
        raise _refusal(doing, f"use the network ({event})")
    if event == "import" and str(details[0]).partition(".")[0] in FRAMEWORKS:
        raise _refusal(doing, f"import {details[0]}")


def _is_git_question(event: str, details: tuple[Any, ...]) -> bool:
    if event != "subprocess.Popen" or not isinstance(details[1], list | tuple):
        return False
    return is_allowed([str(word) for word in cast("Sequence[object]", details[1])])


def _refusal(doing: str, what: str) -> GateRefused:
    return GateRefused(
        "E_OFFLINE",
        f'"{doing}" tried to {what}; only telic study run may.',
        hint="This is a mistake in telic or in something it called; nothing was started.",
    )
