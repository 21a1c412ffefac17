"""Entry point of `telic` and `python -m telic`: hooks at once, the rest through the full app.

A host calls a hook at every shell command, and waits; loading all commands would cost it more than
the hook does.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading

_SELDOM = 1_000_000
"""objects after which a command about a study looks for garbage: it makes many and drops few"""


def main() -> None:
    """Run the command line."""
    words = sys.argv[1:]
    gc.disable()  # what is loaded stays; a verb switches it on again
    if words[:1] == ["study"]:  # others may train for days
        gc.set_threshold(_SELDOM)
    if words[:2] == ["plugin", "hook"] and len(words) == 3:
        from telic.plugin.hooks import HOOKS

        if words[2] in HOOKS:
            _run_hook(words[2])
            return
    from telic.cli.main import app

    try:
        app()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write("✗ Disk full: could not write output.\n")
        os._exit(1)  # the rest of the output would fail in the same way on the way out
    finally:
        gc.freeze()  # no garbage collection: the end of the process frees everything at once


def program() -> None:
    """Run the command line as a process of its own, and end it without taking it apart.

    To free one by one the objects of what was loaded takes up to 0.4 s; the end of the process
    gives their memory back at once.
    """
    try:
        main()
        code: int | str | None = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    if not isinstance(code, int) or threading.active_count() > 1:
        sys.exit(code)  # text to print, or a process to wait for
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python says what could not be written
    os._exit(code)


def _run_hook(name: str) -> None:
    from telic.errors import TelicError
    from telic.plugin.hooks import answer

    try:
        sys.stdout.write(answer(name, sys.stdin.read()))
    except TelicError as error:
        sys.stderr.write(f"✗ {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    program()
