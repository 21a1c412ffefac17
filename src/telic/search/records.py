"""Records and files of a search, and the history of evaluated policies.

runs/search_<time>_<hex>/
    search.json                  the request
    manifest.json                protocol, switches, versions
    summary.json page.html       result, map of tried policies
    events.jsonl lock stop
    replies/ orders/             requests to a model
    run_<NN>/
        journal.jsonl            proposals and every finished iteration
        summary.json lock
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from telic.core.config import Record
from telic.core.events import Event
from telic.search.config import SearchConfig as SearchConfig
from telic.search.task import Rollouts
from telic.storage.files import as_record, read_json_lines
from telic.storage.layout import FolderFile, WorkFolder

NO_MODEL = "no language model used"
SearchOutcome = Literal["completed", "stopped", "failed"]
Place = Literal["warm-up", "first", "second"]
Winner = Literal["first", "second", "warm-up"]


class ModelQuestion(Record):
    """Record of one model request and its cost."""

    role: str
    key: str
    """file name of the reply in replies/ and of the request in orders/"""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    price_usd: float | None
    seconds: float
    attempts: int


class TrialEpisodes(Record):
    """Episodes of one evaluation. One seed determines all of them."""

    seed: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    ends: str
    """one letter per episode: t for terminated, l for time limit, c for a shorter cap"""

    @classmethod
    def of(cls, seed: int, rollouts: Rollouts, row: int) -> Self:
        """Create the record of one policy's episodes."""
        return cls(
            seed=seed,
            returns=tuple(np.round(rollouts.returns[row], 9).tolist()),
            lengths=tuple(rollouts.lengths[row].tolist()),
            ends="".join(rollouts.ends[row]),
        )


class PolicyCandidate(Record):
    """Evaluated policy with its results."""

    number: int
    params: tuple[float, ...]
    origin: str
    """source of the policy, such as llm, critic, cma, warm-up or fallback:climb"""
    place: Place = "first"
    """stage of the iteration in which the candidate was created"""
    explanation: str = ""
    warnings: tuple[str, ...] = ()
    tried: TrialEpisodes

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.tried.returns))

    @property
    def error(self) -> float | None:
        """Standard error of the mean, or None for a single episode."""
        count = len(self.tried.returns)
        return float(np.std(self.tried.returns, ddof=1) / count**0.5) if count > 1 else None


Candidates = Sequence[PolicyCandidate]


class Recheck(Record):
    """Additional episodes of an incumbent, or of a candidate that may become the incumbent."""

    candidate: int
    tried: TrialEpisodes
    is_final: bool = False
    """whether only these episodes decided between the finalists"""


class SearchIteration(Record):
    """One iteration of the loop."""

    schema_version: Literal[1] = 1
    number: int
    """number of the iteration, 0 for the warm-up"""
    candidates: tuple[PolicyCandidate, ...]
    selected: int
    """number of the selected candidate"""
    winner: Winner
    checks: tuple[Recheck, ...] = ()
    incumbent: int
    """number of the best candidate so far"""
    incumbent_mean: float
    episodes: int
    """number of episodes used so far, including warm-up and checks"""
    steps: int
    """number of environment steps used so far"""
    model: str
    """name of the model, or a note that none was used"""
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None
    """reason for a deviation from the switches"""

    def candidate(self, number: int) -> PolicyCandidate:
        """Return the candidate of the iteration with a given number."""
        return next(candidate for candidate in self.candidates if candidate.number == number)


class HeldOutReturn(Record):
    """Performance of a policy on held-out episodes that were not used to select it."""

    mean: float
    low: float | None
    """lower end of the 95 % interval, or None for a single episode"""
    high: float | None
    episodes: int
    success: float
    """fraction of successful episodes"""


class SearchRunSummary(Event):
    """Result of one run."""

    NAME = "search.run"

    schema_version: Literal[1] = 1
    run: int
    outcome: SearchOutcome
    method: str
    proposer: str
    """name in tables, which states if no language model was used"""
    model: str
    iterations: int
    candidates: int
    episodes: int
    steps: int
    calls: int
    price_usd: float | None
    best: tuple[float, ...]
    fresh: HeldOutReturn
    final: HeldOutReturn | None = None
    """last selected policy on the same fresh episodes, or None if not stored"""
    mean: float
    """headline value, which is one of the following as selected by the switch `report`"""
    mean_all: float
    """mean return of all candidates, excluding warm-up"""
    better_of_two: float | None = None
    """mean return of the better candidate in each pair, as in R2PO, or None if not stored"""
    mean_selected: float
    """mean return of the selected candidate over iterations, the best of each iteration"""
    best_seen: float
    """largest mean return observed, which noise biases (the published "best reward")"""
    incumbent_area: float
    """mean return of the incumbent, averaged over the budget"""
    episodes_to_good: int | None
    """number of episodes until the incumbent reached the good return, or None if never"""
    calls_to_good: int | None
    fallbacks: int
    seconds: float


class SearchProtocol(Record):
    """Conditions, besides the method, that must be equal for returns to be comparable."""

    env: str
    policy: str
    is_scaled: bool
    """whether observations are scaled before they enter the policy"""
    low: float
    high: float
    decimals: int
    clips: bool
    """whether continuous actions are clipped to their range before they are used and penalized"""
    limit: int
    """maximum episode length in steps"""
    target: float
    """target return stated to a model"""
    episodes: int
    """budget as a number of episodes"""
    warmup: int | None = None
    """number of initial random policies that a model sees, or None in old files"""
    warmup_is_extra: bool
    """whether warm-up episodes are added to the budget"""
    is_faithful: bool
    stops_when_solved: bool = False
    """whether a run may end before its budget is spent"""
    steps: int | None = None
    """budget in environment steps, if steps are limited"""
    rollouts: int | None = None
    """number of episodes per candidate, or None in old files"""
    fresh_episodes: int | None = None
    """number of fresh episodes for evaluating the best policy, or None if not stored"""

    @property
    def key(self) -> str:
        """Return a short hash of all fields."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class SearchSummary(Record):
    """Result of a search."""

    schema_version: Literal[1] = 1
    search: str
    env: str
    method: str
    label: str
    model: str
    outcome: SearchOutcome
    protocol: SearchProtocol
    switches: dict[str, Any]
    runs: tuple[SearchRunSummary, ...]
    versions: dict[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class SearchRunFolder:
    """Files of one run."""

    path: Path

    journal = FolderFile("journal.jsonl")
    """proposals and finished iterations"""
    earlier = FolderFile("iterations.jsonl")
    """iterations written by earlier versions"""
    summary = FolderFile("summary.json")
    """result of the run"""
    lock = FolderFile("lock")
    """lock held by the process that writes the journal"""

    def read(self) -> Iterator[SearchIteration]:
        """Yield the finished iterations."""
        rows = read_json_lines(self.earlier)
        if self.journal.exists():
            entries = (row["entry"] for row in read_json_lines(self.journal))
            rows = (entry["data"] for entry in entries if entry["kind"] == "verdict")
        for row in rows:
            yield as_record(row, SearchIteration, str(self.path))


@dataclass(frozen=True, slots=True)
class SearchFolder(WorkFolder):
    """Files of one search."""

    config = FolderFile("search.json")
    """request"""
    manifest = FolderFile("manifest.json")
    """protocol, switches and versions"""
    page = FolderFile("page.html")
    """page with a map of tried policies"""

    def run(self, number: int) -> SearchRunFolder:
        """Return the folder of a run, numbered from 1."""
        return SearchRunFolder(self.path / f"run_{number:02d}")


Params = tuple[float, ...]

_BELIEF = 5.0  # prior weight of the usual variance, in episodes


@dataclass(frozen=True)
class Entry:
    """Policy with all its episodes."""

    number: int
    params: Params
    returns: tuple[float, ...]
    is_warmup: bool
    seed: int
    """seed of the latest episodes, from which they can be replayed"""

    @cached_property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @cached_property
    def variance(self) -> float | None:
        """Variance of the returns, or None for a single episode."""
        return float(np.var(self.returns, ddof=1)) if len(self.returns) > 1 else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean, or None for a single episode."""
        return None if self.variance is None else (self.variance / len(self.returns)) ** 0.5

    def proven(self, usual: float = 0.0) -> float:
        """Return a lower confidence bound, two standard errors below the mean.

        The variance is regularized toward the `usual` variance with a weight of 5 episodes, because
        few episodes may be similar by chance. The bound of a single episode is -inf.
        """
        count = len(self.returns)
        if self.variance is None:
            return -np.inf
        variance = (_BELIEF * usual + (count - 1) * self.variance) / (_BELIEF + count - 1)
        return self.mean - 2.0 * (variance / count) ** 0.5


class History:
    """Evaluated policies, sorted by the time of their first evaluation."""

    def __init__(self, *, confirm: int, keeps_losers: bool) -> None:
        """Create an empty history."""
        self._confirm, self._keeps_losers = confirm, keeps_losers
        self._entries: dict[Params, Entry] = {}
        self._shown: set[Params] = set()
        self._params: dict[int, Params] = {}
        self._finals: dict[Params, tuple[float, ...]] = {}

    def add(self, iteration: SearchIteration) -> None:
        """Add a finished iteration."""
        for candidate in iteration.candidates:
            self.count(candidate)
        for check in iteration.checks:
            self.check(check)
        self.show(iteration)

    def show(self, iteration: SearchIteration) -> None:
        """Show proposers all candidates of an iteration, or only the selected candidate."""
        for candidate in iteration.candidates:
            is_warmup = candidate.place == "warm-up"
            if self._keeps_losers or is_warmup or candidate.number == iteration.selected:
                self._shown.add(candidate.params)

    def count(self, candidate: PolicyCandidate) -> None:
        """Pool a candidate's episodes with earlier episodes of the same policy."""
        params, tried, is_warmup = candidate.params, candidate.tried, candidate.place == "warm-up"
        new = Entry(candidate.number, params, (), is_warmup, tried.seed)
        entry = self._entries.get(params, new)
        self._params[candidate.number] = params
        self._entries[params] = replace(
            entry,
            returns=entry.returns + tried.returns,
            is_warmup=entry.is_warmup and is_warmup,
            seed=tried.seed,
        )

    def check(self, check: Recheck) -> None:
        """Pool additional episodes of a candidate."""
        entry = self.of(check.candidate)
        self._entries[entry.params] = replace(entry, returns=entry.returns + check.tried.returns)
        if check.is_final:
            self._finals[entry.params] = self._finals.get(entry.params, ()) + check.tried.returns

    def of(self, number: int) -> Entry:
        """Return the entry of a candidate."""
        return self._entries[self._params[number]]

    def holds(self, params: Params) -> bool:
        """Return whether a policy has already been evaluated."""
        return params in self._entries

    def has_met(self, params: Params, seed: int) -> bool:
        """Return whether the latest episodes of a policy used a seed."""
        return self.holds(params) and self._entries[params].seed == seed

    @property
    def everything(self) -> list[Entry]:
        """All entries, including entries that are hidden from proposers."""
        return list(self._entries.values())

    @property
    def incumbent(self) -> Entry | None:
        """Best policy so far according to its lower bound, or None before the first.

        After the final race, only the final episodes of the finalists count, because earlier
        episodes selected the finalists and are biased upward.
        """
        if not self._entries:
            return None
        if self._finals:
            longest = max(map(len, self._finals.values()))
            finals = {p: r for p, r in self._finals.items() if len(r) == longest}
            last = [replace(self._entries[p], returns=r) for p, r in finals.items()]
            return max(last, key=_standing(last))
        return self.best(1)[0]

    @property
    def is_decided(self) -> bool:
        """Return whether the final race is complete, which ends the search."""
        return bool(self._finals)

    def best(self, count: int) -> list[Entry]:
        """Return the policies with the highest lower bounds, if they have enough episodes."""
        every = self.everything
        firm = [each for each in every if len(each.returns) >= self._confirm] or every
        return sorted(firm, key=_standing(firm), reverse=True)[:count]

    @property
    def bar(self) -> float:
        """Mean return that a candidate must exceed to be confirmed."""
        best = self.incumbent
        is_firm = best is not None and len(best.returns) >= self._confirm
        return best.mean if best is not None and is_firm else -np.inf

    def shown(self, view: str) -> list[Entry]:
        """Return the entries in a view (full, best:K, recent:K or best+recent:K), oldest first.

        The view always includes the incumbent.
        """
        entries = [entry for entry in self._entries.values() if entry.params in self._shown]
        if view == "full":
            return entries
        which, _, count = view.partition(":")
        chosen = [self.incumbent] if self.incumbent is not None else []
        if "best" in which:
            chosen += sorted(entries, key=lambda e: e.mean)[-int(count) :]
        if "recent" in which:
            chosen += entries[-int(count) :]
        numbers = {entry.number for entry in chosen}
        return [entry for entry in entries if entry.number in numbers]


def _standing(rivals: Sequence[Entry]) -> Callable[[Entry], tuple[float, float]]:
    """Return the key for sorting entries by lower bound, then by mean."""
    several = [each.variance for each in rivals if each.variance is not None]
    usual = sum(several) / len(several) if several else 0.0
    return lambda entry: (entry.proven(usual), entry.mean)
