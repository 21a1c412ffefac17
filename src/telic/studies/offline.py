"""Forbid processes, sockets and training frameworks outside of a launch.

Inside the context manager `offline`, the corresponding Python audit events raise an error. Only the
read-only git commands of `git_read` may be started.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from telic.studies._git_read import is_allowed
from telic.studies.errors import GateRefused

_PROCESS_EVENTS = frozenset(
    (
        *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
        *("os.system", "os.startfile", "pty.spawn"),
    )
)
_SOCKET_EVENTS = frozenset(
    f"socket.{name}"
    for name in (
        *("connect", "bind", "sendto", "sendmsg"),
        *("getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo"),
    )
)
FRAMEWORKS = frozenset(
    (
        *("torch", "tensorflow", "jax", "flax", "mujoco", "gym", "gymnasium", "brax", "ray"),
        *("stable_baselines3", "isaaclab", "isaacgym", "wandb", "mlflow"),
    )
)

_active: ContextVar[str | None] = ContextVar("offline", default=None)
_installed = False


@contextmanager
def offline(doing: str) -> Generator[None]:
    """Block processes, sockets and training frameworks inside the context.

    Args:
        doing: description of the operation for the error message.
    """
    global _installed
    if not _installed:
        # Audit hooks cannot be removed, so a single hook checks whether it is active.
        sys.addaudithook(_refuse)
        _installed = True
    token = _active.set(doing)
    try:
        yield
    finally:
        _active.reset(token)


def _refuse(event: str, details: tuple[Any, ...]) -> None:
    doing, tried = _active.get(), None
    if doing is None:
        return
    if event in _PROCESS_EVENTS:
        words = details[1] if event == "subprocess.Popen" else None
        is_question = isinstance(words, list | tuple) and is_allowed(
            [str(word) for word in cast("Sequence[object]", words)]
        )
        tried = (
            None if is_question else f"start a process ({event} {details[0] if details else ''})"
        )
    elif event in _SOCKET_EVENTS:
        tried = f"use the network ({event})"
    elif event == "import" and str(details[0]).partition(".")[0] in FRAMEWORKS:
        tried = f"import {details[0]}"
    if tried is not None:
        raise GateRefused(
            "E_OFFLINE",
            f'"{doing}" tried to {tried}, which only telic study run may do.',
            hint="This is a bug in telic or in a library that it uses. Nothing was started.",
        )
