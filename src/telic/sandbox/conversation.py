"""The pipes between host and worker, read and written without ever blocking."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess

from telic.sandbox import endings
from telic.sandbox.wire import LineBuffer, Message, decode, encode

LAST_WORDS_S = 5.0


class Conversation:
    """The two pipes of a worker: lines out, messages in, never blocking."""

    def __init__(self, process: subprocess.Popen[bytes], first: bytes) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self.is_over = False
        self._outgoing = bytearray(first)
        self._lines = LineBuffer()
        self._stdin = process.stdin
        self._stdout = process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)
        self._writing = True

    def say(self, message: Message) -> None:
        """Queue a message for the worker."""
        self._outgoing += encode(message)
        if not self._writing and not self._stdin.closed:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
            self._writing = True

    def exchange(self, timeout_s: float) -> list[Message]:
        """Write and read what is possible within the time; return the messages that arrived."""
        received: list[Message] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._stdin:
                self._write()
            else:
                received += self._read()
        return received

    def exit_code(self) -> int:
        """Return the exit code of a worker whose pipe is closed."""
        try:
            return self.process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired as error:
            raise endings.garbled("it closed its pipe and ran on") from error

    def close(self) -> None:
        """Close both pipes."""
        self._selector.close()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _write(self) -> None:
        try:
            sent = os.write(self._stdin.fileno(), self._outgoing)
        except BrokenPipeError:  # it has ended; what it said last is still to be read
            sent = len(self._outgoing)
        del self._outgoing[:sent]
        if not self._outgoing:
            self._selector.unregister(self._stdin)
            self._writing = False

    def _read(self) -> list[Message]:
        data = os.read(self._stdout.fileno(), 1 << 18)
        if not data:
            self.is_over = True
            return []
        try:
            return [decode(line) for line in self._lines.feed(data)]
        except ValueError as error:
            raise endings.garbled(error) from error
