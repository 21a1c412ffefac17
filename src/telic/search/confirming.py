"""Who is better, and is it luck: more episodes where they decide something."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from telic.search.history import Entry
from telic.search.records import Candidate, Check
from telic.search.rollouts import Rollouts, Trial
from telic.search.run import Run, tried_of
from telic.search.selecting import Choice

Result = TypeVar("Result")
Plays = Generator[Trial, Rollouts, Result]

_FINALISTS = 5


def race(run: Run, first: Sequence[Candidate], second: Sequence[Candidate]) -> Plays[list[Check]]:
    """Under select=race, play candidate and revision again while they cannot be told apart."""
    if run.plan.switches.select != "race" or not second:
        return []
    best = run.history.of(max(first, key=lambda each: each.mean).number)
    revision = run.history.of(second[0].number)
    doubt = 2.0 * ((best.error or 0.0) + (revision.error or 0.0))
    if best.params == revision.params or abs(best.mean - revision.mean) > doubt:
        return []
    return (yield from _check(run, "race", [best, revision], run.plan.rollouts))


def confirm(run: Run, choice: Choice, *, was_skipped: bool) -> Plays[list[Check]]:
    """Play more episodes of who may be the best: the challenger, and at last the finalists.

    Where a revision was skipped, its episodes go to the incumbent instead.
    """
    incumbent, entry = run.history.incumbent, run.history.of(choice.selected.number)
    assert incumbent is not None, "something was tried"
    checks: list[Check] = []
    if was_skipped and run.plan.switches.gate == "skip" and run.critic is not None:
        checks += yield from _check(run, "check", [incumbent], run.plan.rollouts)
    elif len(entry.returns) < run.plan.confirm and entry.mean > run.history.bar:
        checks += yield from _check(run, "check", [entry], run.plan.confirm)
    if run.is_over and run.plan.reserve:
        finalists = run.history.best(_FINALISTS)
        room = run.budget_left if run.is_spent else run.plan.reserve
        checks += yield from _check(run, "final", finalists, room // len(finalists))
    return checks


def _check(run: Run, purpose: str, entries: Sequence[Entry], count: int) -> Plays[list[Check]]:
    """Play further episodes of policies, as far as the budget goes."""
    count = min(count, run.budget_left // len(entries))
    if count < 1:
        return []
    seeds = run.seeds_for(purpose, len(entries))
    rollouts = yield run.trial([each.params for each in entries], seeds, count)
    run.spend(rollouts)
    checks = [
        Check(
            candidate=entry.number,
            tried=tried_of(seeds[row], rollouts, row),
            is_final=purpose == "final",
        )
        for row, entry in enumerate(entries)
    ]
    for check in checks:
        run.history.check(check)
    return checks
