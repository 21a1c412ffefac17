"""Ways to use a study: the command line as an agent calls it and as a person at a terminal does."""

import io
import json
import os
import pty
import re
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from typer.main import get_command

from telic.cli.main import app


class Refused(AssertionError):
    """A command ended with another exit code than 0."""

    def __init__(self, words: tuple[str, ...], code: int, output: str) -> None:
        super().__init__(f"telic study {' '.join(words)} ended with {code}: {output}")
        self.code = code
        self.output = output


class CommandLine:
    """The command line, in this process."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def agent(self, *words: str) -> Any:
        output, complaints = io.StringIO(), io.StringIO()
        with _streams(io.StringIO(), output, complaints):
            code = _call(*words, "--root", str(self.root), "--json")
        if code != 0:
            raise Refused(words, code, output.getvalue() + complaints.getvalue())
        return json.loads(output.getvalue())

    def person(self, *words: str) -> None:
        code, output = at_terminal(*words, "--root", str(self.root))
        if code != 0:
            raise Refused(words, code, output)


def at_terminal(*words: str) -> tuple[int, str]:
    """Run a command in a terminal, and type the code that it shows."""
    ours, theirs = pty.openpty()
    output: list[str] = []
    is_over = threading.Event()
    reader = threading.Thread(target=_type_codes, args=(ours, output, is_over))
    reader.start()
    try:
        with os.fdopen(os.dup(theirs), "r") as read, os.fdopen(theirs, "w") as write:
            with _streams(read, write, write):
                code = _call(*words)
            write.flush()
            is_over.set()
            reader.join()
    finally:
        is_over.set()
        os.close(ours)
    return code, "".join(output)


@cache
def _commands() -> Any:
    """Return the command line, put together once: that takes longer than most commands do."""
    return get_command(app)


def _call(*words: str) -> int:
    """Return the exit code of a `telic study` command."""
    group = [] if words[0] == "verify" else ["study"]
    return _commands().main([*group, *words], standalone_mode=False) or 0


@contextmanager
def _streams(read: TextIO, write: TextIO, complain: TextIO) -> Iterator[None]:
    held = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = read, write, complain
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = held


def _type_codes(terminal: int, output: list[str], is_over: threading.Event) -> None:
    answered = 0
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.02)
        if ready:
            output.append(os.read(terminal, 65536).decode(errors="replace"))
            asked = re.findall(
                r"Type (\w+) to agree, or anything else to refuse: ", "".join(output)
            )
            for code in asked[answered:]:
                os.write(terminal, f"{code}\n".encode())
            answered = len(asked)
        elif is_over.is_set():
            return
