"""Forbid processes, sockets and training frameworks to everything that is not the launch path.

Python reports each of these acts before it happens; inside `offline` the report becomes a refusal.
Only `git_read`'s read-only git commands may start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from telic.studies.errors import GateRefused
from telic.studies.git_read import is_allowed

Given = ParamSpec("Given")
Result = TypeVar("Result")

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
def offline(doing: str) -> Iterator[None]:
    """Refuse processes, sockets and training frameworks until the block ends.

    Args:
        doing: what the block does, for the refusal.
    """
    _install()
    token = _active.set(doing)
    try:
        yield
    finally:
        _active.reset(token)


def launch_free(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Run a command under `offline`."""

    @wraps(function)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with offline(function.__name__.replace("_", " ")):
            return function(*args, **kwargs)

    return guarded


def _install() -> None:
    """Add the hook once; Python cannot take one away, so it looks at whether it is wanted."""
    global _installed
    if not _installed:
        sys.addaudithook(_refuse)
        _installed = True


def _refuse(event: str, details: tuple[Any, ...]) -> None:
    doing = _active.get()
    if doing is None:
        return
    if event in _PROCESS_EVENTS and not _is_git_question(event, details):
        raise _refusal(doing, f"start a process ({event} {_program(details)})")
    if event in _SOCKET_EVENTS:
        raise _refusal(doing, f"use the network ({event})")
    if event == "import" and str(details[0]).partition(".")[0] in FRAMEWORKS:
        raise _refusal(doing, f"import {details[0]}")


def _is_git_question(event: str, details: tuple[Any, ...]) -> bool:
    if event != "subprocess.Popen" or not isinstance(details[1], list | tuple):
        return False
    return is_allowed([str(each) for each in details[1]])


def _program(details: tuple[Any, ...]) -> str:
    return str(details[0]) if details else ""


def _refusal(doing: str, what: str) -> GateRefused:
    return GateRefused(
        "E_OFFLINE",
        f'"{doing}" tried to {what}; only telic study run may.',
        hint="This is a mistake in telic or in something it called; nothing was started.",
    )
