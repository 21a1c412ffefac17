"""What was tried so far, pooled by policy, and which policy is the best of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from telic.search.records import PolicyCandidate, Recheck, SearchIteration

Params = tuple[float, ...]

_BELIEF = 5.0  # episodes' worth of belief that a policy varies as others do


@dataclass(frozen=True)
class Entry:
    """A policy and all episodes it was tried on."""

    number: int
    params: Params
    returns: tuple[float, ...]
    is_warmup: bool
    seed: int
    """of its latest episodes, which can be played again"""

    @cached_property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @cached_property
    def variance(self) -> float | None:
        """Of its returns; None for one episode."""
        return float(np.var(self.returns, ddof=1)) if len(self.returns) > 1 else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None for one episode."""
        return None if self.variance is None else (self.variance / len(self.returns)) ** 0.5

    def proven(self, usual: float = 0.0) -> float:
        """Return two standard errors below the mean: luck does not make a policy the best.

        Few episodes that happen to be alike do not prove that all are, so their variance counts as
        if some more episodes of the `usual` one were among them. A single episode proves nothing.
        """
        count = len(self.returns)
        if self.variance is None:
            return -np.inf
        variance = (_BELIEF * usual + (count - 1) * self.variance) / (_BELIEF + count - 1)
        return self.mean - 2.0 * (variance / count) ** 0.5


class History:
    """Entries in the order they were first tried."""

    def __init__(self, *, confirm: int, keeps_losers: bool) -> None:
        """Keep entries.

        Args:
            confirm: episodes from which on a policy can be the incumbent.
            keeps_losers: whether candidates that were not selected are shown too.
        """
        self._confirm, self._keeps_losers = confirm, keeps_losers
        self._entries: dict[Params, Entry] = {}
        self._shown: set[Params] = set()
        self._params: dict[int, Params] = {}
        self._finals: dict[Params, tuple[float, ...]] = {}

    def add(self, iteration: SearchIteration) -> None:
        """Take in a finished iteration."""
        for candidate in iteration.candidates:
            self.count(candidate)
        for check in iteration.checks:
            self.check(check)
        self.show(iteration)

    def show(self, iteration: SearchIteration) -> None:
        """Let proposers see an iteration's candidates, or only the selected one."""
        for candidate in iteration.candidates:
            is_warmup = candidate.place == "warm-up"
            if self._keeps_losers or is_warmup or candidate.number == iteration.selected:
                self._shown.add(candidate.params)

    def count(self, candidate: PolicyCandidate) -> None:
        """Pool a candidate's episodes with earlier ones of the same policy."""
        is_warmup = candidate.place == "warm-up"
        tried = candidate.tried
        earlier = self._entries.get(candidate.params)
        number = candidate.number if earlier is None else earlier.number
        returns = tried.returns if earlier is None else earlier.returns + tried.returns
        still = is_warmup and (earlier is None or earlier.is_warmup)
        self._params[candidate.number] = candidate.params
        self._entries[candidate.params] = Entry(
            number, candidate.params, returns, still, tried.seed
        )

    def check(self, check: Recheck) -> None:
        """Pool further episodes of a candidate."""
        entry = self.of(check.candidate)
        self._entries[entry.params] = replace(entry, returns=entry.returns + check.tried.returns)
        if check.is_final:
            self._finals[entry.params] = self._finals.get(entry.params, ()) + check.tried.returns

    def of(self, number: int) -> Entry:
        """Return the entry that a candidate belongs to."""
        return self._entries[self._params[number]]

    def holds(self, params: Params) -> bool:
        """Whether a policy was tried before."""
        return params in self._entries

    def has_met(self, params: Params, seed: int) -> bool:
        """Whether the latest episodes of a policy are those of this seed."""
        return self.holds(params) and self._entries[params].seed == seed

    @property
    def everything(self) -> list[Entry]:
        """All entries, also those that a proposer is not shown."""
        return list(self._entries.values())

    @property
    def incumbent(self) -> Entry | None:
        """The best policy so far, by what it has proven; None before the first.

        Once finalists were played it is the best of those that stayed in the race to its end, and
        has the episodes of that alone: by earlier ones it came to be a finalist, so its luck is in
        them.
        """
        if not self._entries:
            return None
        if self._finals:
            longest = max(map(len, self._finals.values()))
            last = [each for each in self._finalists if len(each.returns) == longest]
            return max(last, key=_standing(last))
        return max(self._firm, key=_standing(self._firm))

    @property
    def is_decided(self) -> bool:
        """Whether finalists were played, after which nothing more is tried."""
        return bool(self._finals)

    def best(self, count: int) -> list[Entry]:
        """Return the policies that have proven most, among those that were looked at closely."""
        return sorted(self._firm, key=_standing(self._firm), reverse=True)[:count]

    @property
    def _finalists(self) -> list[Entry]:
        """Finalists with their final episodes, in the order of what they had proven before."""
        return [replace(self._entries[p], returns=r) for p, r in self._finals.items()]

    @property
    def _firm(self) -> list[Entry]:
        every = list(self._entries.values())
        return [each for each in every if len(each.returns) >= self._confirm] or every

    @property
    def bar(self) -> float:
        """The mean a candidate must exceed to be worth a closer look."""
        best = self.incumbent
        is_firm = best is not None and len(best.returns) >= self._confirm
        return best.mean if best is not None and is_firm else -np.inf

    def shown(self, view: str) -> list[Entry]:
        """Return the entries that a view shows, oldest first: full, best:K, recent:K or both.

        The incumbent is always among them.
        """
        entries = [entry for entry in self._entries.values() if entry.params in self._shown]
        if view == "full":
            return entries
        which, _, count = view.partition(":")
        chosen: set[int] = set()
        if "best" in which:
            chosen |= _numbers(sorted(entries, key=lambda e: e.mean)[-int(count) :])
        if "recent" in which:
            chosen |= _numbers(entries[-int(count) :])
        if self.incumbent is not None:
            chosen.add(self.incumbent.number)
        return [entry for entry in entries if entry.number in chosen]


def _standing(rivals: Sequence[Entry]) -> Callable[[Entry], tuple[float, float]]:
    """Return what entries are ranked by: what they have proven, then their mean."""
    several = [each.variance for each in rivals if each.variance is not None]
    usual = sum(several) / len(several) if several else 0.0
    return lambda entry: (entry.proven(usual), entry.mean)


def _numbers(entries: Iterable[Entry]) -> set[int]:
    return {entry.number for entry in entries}
