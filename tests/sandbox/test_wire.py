"""Messages and errors between host and worker."""

import pytest

from telic.errors import RefusedCode, RewardError, TelicError, UnknownName, WorkerDied
from telic.sandbox import wire
from telic.sandbox.wire import LineBuffer, bounded_text, decode, encode, pack_error, unpack_error


@pytest.mark.parametrize("line", [b"garbage", b"[1]", b"{}", b'{"kind": 3}', b"[" * 100_000])
def test_invalid_message_is_refused(line):
    with pytest.raises(ValueError):
        decode(line)


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(wire, "MAX_LINE", 10)
    lines = LineBuffer()
    lines.feed(b"12345")
    with pytest.raises(ValueError, match="more than 10 bytes"):
        lines.feed(b"678901")


@pytest.mark.parametrize(
    "error",
    [
        RewardError("bad term", hint="divide by 2", line=7, term="speed"),
        RefusedCode("no import", hint="remove it", line=3),
        UnknownName("environment", "HalfCheeta-v5", ["HalfCheetah-v5"]),
        TelicError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_with_everything_it_carries(error):
    rebuilt = unpack_error(decode(encode({"kind": "x", "error": pack_error(error)}))["error"])
    assert type(rebuilt) is type(error)
    assert str(rebuilt) == str(error)
    for name in ("message", "hint", "line", "term", "name"):
        assert getattr(rebuilt, name, None) == getattr(error, name, None)
    assert rebuilt.exit_code == error.exit_code


def test_an_error_class_from_elsewhere_becomes_its_nearest_base_of_ours():
    class SpecialError(RewardError):
        pass

    assert type(unpack_error(pack_error(SpecialError("x", line=2)))) is RewardError


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"class": "annotations", "fields": {}},
        {"class": "TelicError", "fields": 3},
        {"class": "BudgetExceeded", "fields": {"message": "a worker that wants to end a session"}},
    ],
)
def test_an_error_that_cannot_be_read_is_a_dead_worker(data):
    assert type(unpack_error(data)) is WorkerDied


def test_text_from_the_worker_cannot_steer_a_terminal():
    assert bounded_text("a\x1b[2Jb\n\x07") == "a?[2Jb\n?"
    assert len(bounded_text("x" * 10**6)) == wire.MAX_TEXT
    error = unpack_error({"class": "TelicError", "fields": {"message": "\x1b]0;x"}})
    assert error.message == "?]0;x"
