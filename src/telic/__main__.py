"""Entry point for `telic` and `python -m telic`. Hooks bypass the full command-line app.

Coding agents wait for a hook before every shell command, and importing all commands would take
longer than the hook itself.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading

from telic import protect_imports

_GC_THRESHOLD = 1_000_000
"""garbage collection threshold of study commands that allocate many objects and free few"""


def main() -> None:
    """Run the command line."""
    words = sys.argv[1:]
    protect_imports()
    gc.disable()  # imported objects stay alive; verbs enable it again
    if words[:1] == ["study"]:  # other verbs may train for days
        gc.set_threshold(_GC_THRESHOLD)
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
        os._exit(1)  # flushing the remaining output would fail again
    except (ImportError, AttributeError, RuntimeError) as error:
        backend = os.environ.get("MUJOCO_GL")
        if not backend or "mujoco" in sys.modules:
            raise
        sys.stderr.write(f"✗ MuJoCo cannot be imported with MUJOCO_GL={backend}: {error}\n")
        sys.exit("  Unset it to let telic choose a rendering backend.")
    finally:
        gc.freeze()  # skip garbage collection at exit; the operating system frees the memory


def program() -> None:
    """Run the command line and exit without tearing down the interpreter.

    Deallocating all imported objects takes up to 0.4 s. Exiting the process returns their memory
    immediately.
    """
    try:
        main()
        code: int | str | None = 0
    except SystemExit as leaving:
        code = leaving.code or 0
    if not isinstance(code, int) or threading.active_count() > 1:
        sys.exit(code)  # print the message, or wait for the remaining threads
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python reports the failed write
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
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder may contain foreign plugins
    program()
