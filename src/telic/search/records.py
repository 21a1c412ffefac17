"""Records and files of a search, and the history of tried policies pooled by policy.

runs/search_<time>_<hex>/
    search.json                  the request
    manifest.json                protocol, switches, versions
    summary.json page.html       result; the map of tried policies
    events.jsonl lock stop
    replies/ orders/             what was asked of a model
    run_<NN>/
        journal.jsonl            what was proposed, and every finished iteration
        summary.json lock
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np

from telic.core.config import Record
from telic.core.events import Event
from telic.search.config import SearchConfig as SearchConfig
from telic.search.config import Switches
from telic.search.task import Rollouts
from telic.storage.files import as_record, read_json_lines
from telic.storage.journal import read_entries
from telic.storage.layout import FolderFile, WorkFolder, holders_of

NO_MODEL = "no language model used"
SearchOutcome = Literal["completed", "stopped", "failed"]
Place = Literal["warm-up", "first", "second"]
Winner = Literal["first", "second", "warm-up"]


class ModelQuestion(Record):
    """One question to a model."""

    role: str
    key: str
    """names the reply in replies/ and the order in orders/"""
    model: str
    input_tokens: int | None
    output_tokens: int | None
    price_usd: float | None
    seconds: float
    attempts: int


class TrialEpisodes(Record):
    """Episodes that candidates were tried on; all of them follow from one seed."""

    seed: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    ends: str
    """a letter per episode: t terminated, l time limit, c a shorter cap"""

    @classmethod
    def of(cls, seed: int, rollouts: Rollouts, row: int) -> Self:
        """Return the record of one policy's episodes."""
        return cls(
            seed=seed,
            returns=tuple(np.round(rollouts.returns[row], 9).tolist()),
            lengths=tuple(rollouts.lengths[row].tolist()),
            ends="".join(rollouts.ends[row]),
        )


class PolicyCandidate(Record):
    """A policy that was tried, and everything that is known about it."""

    number: int
    params: tuple[float, ...]
    origin: str
    """its origin: llm, critic, cma, warm-up, fallback:climb, ..."""
    place: Place = "first"
    """when in its iteration it was made"""
    explanation: str = ""
    warnings: tuple[str, ...] = ()
    tried: TrialEpisodes

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.tried.returns))

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None for one episode."""
        count = len(self.tried.returns)
        return float(np.std(self.tried.returns, ddof=1) / count**0.5) if count > 1 else None


Candidates = Sequence[PolicyCandidate]


class Recheck(Record):
    """More episodes of a candidate that may become, or is, the best so far."""

    candidate: int
    tried: TrialEpisodes
    is_final: bool = False
    """whether these episodes, and no earlier ones, decided among the finalists"""


class SearchIteration(Record):
    """One pass of the loop."""

    schema_version: Literal[1] = 1
    number: int
    """0 is the warm-up"""
    candidates: tuple[PolicyCandidate, ...]
    selected: int
    """number of the candidate that counts"""
    winner: Winner
    checks: tuple[Recheck, ...] = ()
    incumbent: int
    """number of the best candidate so far"""
    incumbent_mean: float
    episodes: int
    """episodes used so far, warm-up and checks included"""
    steps: int
    """environment steps used so far"""
    model: str
    """model that was asked, or the note that none was"""
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None
    """why the iteration went another way than the switches say"""

    def candidate(self, number: int) -> PolicyCandidate:
        """Return one of its candidates."""
        return next(candidate for candidate in self.candidates if candidate.number == number)


class Fresh(Record):
    """Performance of a policy on fresh episodes, not used to select it."""

    mean: float
    low: float | None
    """lower end of the 95 % bootstrap interval; None for one episode"""
    high: float | None
    episodes: int
    success: float
    """share of episodes that count as solved"""


class SearchRunSummary(Event):
    """The result of one run."""

    NAME = "search.run"

    schema_version: Literal[1] = 1
    run: int
    outcome: SearchOutcome
    method: str
    proposer: str
    """how tables call it; says where no language model was used"""
    model: str
    iterations: int
    candidates: int
    episodes: int
    steps: int
    calls: int
    price_usd: float | None
    best: tuple[float, ...]
    fresh: Fresh
    final: Fresh | None = None
    """the policy that the last iteration selected, on the same fresh episodes; None: not kept"""
    mean: float
    """the headline, as the switch `report` says: one of the next ones"""
    mean_all: float
    """mean return of all candidates, warm-up left out"""
    better_of_two: float | None = None
    """mean of the better of two candidates: how R2PO's mean is counted; None: not kept then"""
    mean_selected: float
    """mean over iterations of the selected candidate, which is the best of all it tried"""
    best_seen: float
    """largest mean seen, noise included: the published "best reward" """
    incumbent_area: float
    """mean over the budget of what was the best so far"""
    episodes_to_good: int | None
    """episodes until the incumbent was good; None: never"""
    calls_to_good: int | None
    fallbacks: int
    seconds: float


class SearchProtocol(Record):
    """Everything besides the method that decides what a return is worth."""

    env: str
    policy: str
    is_scaled: bool
    """whether observations are scaled before they enter the policy"""
    low: float
    high: float
    decimals: int
    clips: bool
    """whether continuous actions are cut to their range before they are used and charged"""
    limit: int
    """steps after which an episode ends"""
    target: float
    """return stated to a model as the goal"""
    episodes: int
    """episodes of the budget"""
    warmup: int | None = None
    """random policies that a model is shown first; None: not written down, in old files"""
    warmup_is_extra: bool
    """whether warm-up episodes come on top of the budget"""
    is_faithful: bool
    stops_when_solved: bool = False
    """whether a run may end before its budget is spent"""
    steps: int | None = None
    """environment steps of the budget, where these are what counts"""
    rollouts: int | None = None
    """episodes per candidate; None: not written down, in old files"""
    fresh_episodes: int | None = None
    """new episodes on which the best policy was measured; None: not written down"""

    @property
    def key(self) -> str:
        """Return a short hash of the terms."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class SearchSummary(Record):
    """The result of a search."""

    schema_version: Literal[1] = 1
    search: str
    env: str
    method: str
    label: str
    model: str
    outcome: SearchOutcome
    protocol: SearchProtocol
    switches: Switches
    runs: tuple[SearchRunSummary, ...]
    versions: dict[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class SearchRunFolder:
    """The files of one run."""

    path: Path

    journal = FolderFile("journal.jsonl")
    """proposals and finished iterations"""
    earlier = FolderFile("iterations.jsonl")
    """the iterations, as earlier versions wrote them"""
    summary = FolderFile("summary.json")
    """the result"""
    lock = FolderFile("lock")
    """held by the process that writes the log"""

    def read(self) -> Iterator[SearchIteration]:
        """Yield the finished iterations."""
        rows = read_json_lines(self.earlier)
        if self.journal.exists():
            entries = read_entries(self.journal)
            rows = (entry["data"] for entry in entries if entry["kind"] == "verdict")
        for row in rows:
            yield as_record(row, SearchIteration, str(self.path))


@dataclass(frozen=True, slots=True)
class SearchFolder(WorkFolder):
    """The files of one search."""

    config = FolderFile("search.json")
    """the request"""
    manifest = FolderFile("manifest.json")
    """protocol, switches and versions"""
    page = FolderFile("page.html")
    """the map of tried policies"""

    def run(self, number: int) -> SearchRunFolder:
        """Return the folder of a run, counted from 1."""
        return SearchRunFolder(self.path / f"run_{number:02d}")


def list_searches(runs_dir: Path) -> list[SearchFolder]:
    """Return the searches of a folder, the newest first."""
    return [SearchFolder(path) for path in holders_of("search.json", runs_dir)]


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
        """Pool further episodes of a candidate."""
        entry = self.of(check.candidate)
        self._entries[entry.params] = replace(entry, returns=entry.returns + check.tried.returns)
        if check.is_final:
            self._finals[entry.params] = self._finals.get(entry.params, ()) + check.tried.returns

    def of(self, number: int) -> Entry:
        """Return the entry that a candidate belongs to."""
        return self._entries[self._params[number]]

    def holds(self, params: Params) -> bool:
        """Return whether a policy was tried before."""
        return params in self._entries

    def has_met(self, params: Params, seed: int) -> bool:
        """Return whether the latest episodes of a policy used this seed."""
        return self.holds(params) and self._entries[params].seed == seed

    @property
    def everything(self) -> list[Entry]:
        """All entries, also those that a proposer is not shown."""
        return list(self._entries.values())

    @property
    def incumbent(self) -> Entry | None:
        """The best policy so far, by what it has proven; None before the first.

        Once finalists were played it is the best of those that stayed until the end, by their final
        episodes only: earlier ones selected the finalists and are biased upwards.
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
        """Return whether finalists were played, which ends the search."""
        return bool(self._finals)

    def best(self, count: int) -> list[Entry]:
        """Return the policies that have proven most, among those that were looked at closely."""
        every = self.everything
        firm = [each for each in every if len(each.returns) >= self._confirm] or every
        return sorted(firm, key=_standing(firm), reverse=True)[:count]

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
        chosen = [self.incumbent] if self.incumbent is not None else []
        if "best" in which:
            chosen += sorted(entries, key=lambda e: e.mean)[-int(count) :]
        if "recent" in which:
            chosen += entries[-int(count) :]
        numbers = {entry.number for entry in chosen}
        return [entry for entry in entries if entry.number in numbers]


def _standing(rivals: Sequence[Entry]) -> Callable[[Entry], tuple[float, float]]:
    """Return what entries are ranked by: what they have proven, then their mean."""
    several = [each.variance for each in rivals if each.variance is not None]
    usual = sum(several) / len(several) if several else 0.0
    return lambda entry: (entry.proven(usual), entry.mean)
