"""The shared loop: steps in order, finished ones read back, killed ones taken again."""

import itertools

import pytest
from pydantic import BaseModel

from telic.loop import EXHAUSTED, Loop
from telic.storage.journal import Journal


class Guess(BaseModel):
    value: int


class Grade(BaseModel):
    score: int


class Killed(BaseException):
    """Stands for a process that ends at this line."""


class Guessing:
    """Guess 1, 2, 3, …; 4 is right, odd ones are refused before they are run."""

    candidate_type, verdict_type = Guess, Grade

    def __init__(self, die_at: int | None = None, is_batched: bool = False):
        self.calls, self.seen = [], []
        self._lines, self._die_at, self._is_batched = itertools.count(), die_at, is_batched

    def _line(self, name, number):
        if next(self._lines) == self._die_at:
            raise Killed
        self.calls.append((name, number))

    def propose(self, number):
        self._line("propose", number)
        return Guess(value=number) if number < 6 else None

    def check(self, number, candidate):
        self._line("check", number)
        return Grade(score=-1) if candidate.value % 2 else None

    def run(self, number, candidate):
        self._line("run", number)
        return self._ask(candidate) if self._is_batched else candidate.value**2

    def _ask(self, candidate):
        return (yield candidate.value)

    def judge(self, number, candidate, result):
        self._line("judge", number)
        return Grade(score=result)

    def decide(self, number, candidate, verdict):
        self.seen.append((number, candidate.value, verdict.score))
        return "passed" if verdict.score == 16 else None


EXPECTED = [(1, 1, -1), (2, 2, 4), (3, 3, -1), (4, 4, 16)]


def test_steps_are_taken_in_order_until_something_passes(tmp_path):
    parts = Guessing()
    assert Loop(Journal(tmp_path / "j", "n"), parts).run() == "passed"
    assert parts.seen == EXPECTED
    assert parts.calls[:6] == [
        ("propose", 1),
        ("check", 1),
        ("propose", 2),
        ("check", 2),
        ("run", 2),
        ("judge", 2),
    ]


@pytest.mark.parametrize("die_at", range(12))
def test_killed_at_any_line_it_ends_as_if_nothing_had_happened(tmp_path, die_at):
    with pytest.raises(Killed):
        Loop(Journal(tmp_path / "j", "n"), Guessing(die_at)).run()
    parts = Guessing()
    assert Loop(Journal(tmp_path / "j", "n"), parts).run() == "passed"
    assert parts.seen == EXPECTED
    again = Guessing()
    assert Loop(Journal(tmp_path / "j", "n"), again).run() == "passed"
    assert again.seen == EXPECTED and again.calls == []
    kinds = [(entry.kind, entry.subject) for entry in Journal(tmp_path / "j", "n").entries()]
    assert len(kinds) == len(set(kinds)) == 8


def test_runs_that_ask_are_answered_by_their_driver(tmp_path):
    loops = [
        Loop(Journal(tmp_path / name, "n"), Guessing(is_batched=True)).steps() for name in "ab"
    ]
    waiting = {loop: next(loop) for loop in loops}
    outcomes = []
    while waiting:
        for loop, asked in list(waiting.items()):
            try:
                waiting[loop] = loop.send(asked**2)
            except StopIteration as end:
                outcomes.append(end.value)
                del waiting[loop]
    assert outcomes == ["passed", "passed"]


def test_a_loop_ends_when_nothing_is_left_to_try(tmp_path):
    parts = Guessing()
    parts.decide = lambda *_: None
    assert Loop(Journal(tmp_path / "j", "n"), parts).run() == EXHAUSTED
    assert Loop(Journal(tmp_path / "k", "n"), parts, iterations=2).run() == EXHAUSTED


def test_it_stops_at_its_safe_point(tmp_path):
    def stop():
        raise KeyboardInterrupt

    parts = Guessing()
    with pytest.raises(KeyboardInterrupt):
        Loop(Journal(tmp_path / "j", "n"), parts, safe_point=stop).run()
    assert parts.calls == []
