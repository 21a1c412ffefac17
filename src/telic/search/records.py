"""What a search asks for, tries and comes to: its files, and the records in them.

runs/search_<time>_<hex>/
    search.json                  the request
    manifest.json                protocol, switches, versions
    summary.json page.html       result; the map of tried policies
    events.jsonl lock stop
    replies/ orders/             what was asked of a model
    run_<NN>/
        iterations.jsonl         a line per iteration, with every candidate
        summary.json lock
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from telic.core.config import Record
from telic.core.events import Event
from telic.search.config import SearchConfig as SearchConfig
from telic.search.methods import Switches
from telic.storage.files import as_record, read_json_lines
from telic.storage.layout import Below, WorkFolder, holders_of
from telic.storage.locks import RunLock
from telic.storage.workspace import Workspace

NO_MODEL = "no language model used"
Outcome = Literal["completed", "stopped", "failed"]
Place = Literal["warm-up", "first", "second"]
Winner = Literal["first", "second", "warm-up"]

_PATIENCE_S = 10.0


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


class PolicyCandidate(Record):
    """A policy that was tried, and everything that is known about it."""

    number: int
    params: tuple[float, ...]
    origin: str
    """who made it: llm, critic, cma, warm-up, fallback:climb, ..."""
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
    """who was asked, or that nobody was"""
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None
    """why the iteration went another way than the switches say"""

    def candidate(self, number: int) -> PolicyCandidate:
        """Return one of its candidates."""
        return next(candidate for candidate in self.candidates if candidate.number == number)


class Fresh(Record):
    """How a policy does on episodes nobody chose it by."""

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
    outcome: Outcome
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
    """return told to a model as the goal"""
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
    """What a search came to."""

    schema_version: Literal[1] = 1
    search: str
    env: str
    method: str
    label: str
    model: str
    outcome: Outcome
    protocol: SearchProtocol
    switches: Switches
    runs: tuple[SearchRunSummary, ...]
    versions: dict[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class SearchRunFolder:
    """The files of one run."""

    path: Path

    iterations = Below("iterations.jsonl")
    """the log of iterations"""
    summary = Below("summary.json")
    """the result"""
    lock = Below("lock")
    """held by the process that writes the log"""

    def read(self) -> Iterator[SearchIteration]:
        """Yield the finished iterations."""
        for row in read_json_lines(self.iterations):
            yield as_record(row, SearchIteration, str(self.iterations))


@dataclass(frozen=True, slots=True)
class SearchFolder(WorkFolder):
    """The files of one search."""

    config = Below("search.json")
    """the request"""
    manifest = Below("manifest.json")
    """protocol, switches and versions"""
    page = Below("page.html")
    """the map of tried policies"""

    def run(self, number: int) -> SearchRunFolder:
        """Return the folder of a run, counted from 1."""
        return SearchRunFolder(self.path / f"run_{number:02d}")

    @contextmanager
    def holding(self, numbers: Sequence[int]) -> Generator[None]:
        """Hold the locks of runs: their logs are written by the processes of a search.

        Whoever does a search holds its own lock, so another holder of these was started by a
        process that is dead, and about to follow it.
        """
        with ExitStack() as stack:
            for number in numbers:
                name = f"Run {number} of {self.name}"
                stack.enter_context(RunLock(self.run(number).lock, name, patience_s=_PATIENCE_S))
            yield


def list_searches(runs_dir: Path) -> list[SearchFolder]:
    """Return the searches of a folder, the newest first."""
    return [SearchFolder(path) for path in holders_of("search.json", runs_dir)]


def find_search(runs_dir: Path, name: str) -> SearchFolder:
    """Return the search meant by an id, the start of one, a path, or "latest"."""
    return SearchFolder(Workspace(runs_dir).find(name, "search").path)
