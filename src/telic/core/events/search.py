"""What is heard of a policy search, and of a benchmark of sessions."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from telic.core.events import Emitted, Facts, event, record

if TYPE_CHECKING:
    from telic.core.events.codec import Event


@event("search.start")
class SearchStart(Emitted):
    """A search begins, or goes on."""

    search: str
    """name of its folder"""
    env: str
    """task"""
    label: str
    """how tables call the method"""
    runs: int
    """runs in all"""
    left: int
    """runs that are not done yet"""


@event("search.forecast")
class SearchForecast(Emitted):
    """What a search is going to ask of a model, said before it asks."""

    calls: int
    """model calls of all runs, if no answer needs repair"""


@event("search.iteration")
class SearchIterationEnd(Emitted):
    """An iteration of a run was played."""

    run: int
    """run, from 1"""
    number: int
    """iteration, from 1"""
    episodes: int
    """episodes played so far"""
    budget: int
    """episodes that may be played"""
    selected: float
    """mean return of the candidate that enters the history"""
    incumbent: float
    """mean return of the best so far"""
    winner: str | None
    """which of the proposals it was"""
    note: str | None
    """what went wrong, in words"""


@record
class FreshReturn:
    """How a policy does on episodes nobody chose it by."""

    mean: float
    """return"""
    low: float | None = None
    """lower end of the 95 % bootstrap interval; None for one episode"""
    high: float | None = None
    """upper end"""
    episodes: int = 0
    """how many"""
    success: float = 0.0
    """share of episodes that count as solved"""


@event("search.run")
class SearchRunEnd(Emitted):
    """A run came to its end; what its summary.json holds."""

    schema_version: int = 1
    """of the run's summary"""
    run: int
    """run, from 1"""
    outcome: str
    """completed or stopped"""
    method: str
    """named choice of switches"""
    proposer: str
    """how tables call it; says where no language model was used"""
    model: str
    """language model"""
    iterations: int
    """iterations played"""
    candidates: int
    """policies played"""
    episodes: int
    """episodes played"""
    steps: int
    """environment steps"""
    calls: int
    """model calls"""
    price_usd: float | None
    """None: unknown"""
    best: tuple[float, ...]
    """numbers of the best policy"""
    fresh: FreshReturn
    """the best policy on episodes nobody chose it by"""
    final: FreshReturn | None = None
    """the policy that the last iteration selected, on the same episodes; None: not kept"""
    mean: float
    """the headline, as the switch `report` says: one of the next ones"""
    mean_all: float
    """mean return of all candidates, warm-up left out"""
    better_of_two: float | None = None
    """mean of the better of two candidates; None: not kept then"""
    mean_selected: float
    """mean over iterations of the selected candidate"""
    best_seen: float
    """largest mean seen, noise included"""
    incumbent_area: float
    """mean over the budget of what was the best so far"""
    episodes_to_good: int | None
    """episodes until the incumbent was good; None: never"""
    calls_to_good: int | None
    """model calls until then"""
    fallbacks: int
    """proposals that were made without the model"""
    seconds: float
    """it took"""


@event("bench.case")
class BenchCase(Emitted):
    """A benchmark begins with a case."""

    case: str
    """id of the case"""
    env: str
    """environment"""
    intent: str
    """what the robot should do"""


@record
class BenchEvent(Emitted):
    """An event of the session of a case: as JSON, that event with the case's id."""

    case: str
    """id of the case"""
    told: Event
    """what the session said"""


@event("bench.result")
class BenchResult(Emitted):
    """What became of a case."""

    schema_version: int = 1
    """of the result"""
    case: Facts
    """fields of Case: id, env, intent, ..."""
    outcome: str
    """passed, passed_in_part, unproven, unconfirmed, not_passed, refused, error or stopped"""
    reason: str | None = None
    """why it did not pass"""
    tags: tuple[str, ...] = ()
    """what is lacking"""
    score: float | None = None
    """of the best policy"""
    low: float | None = None
    """score that is proven with 95 % confidence"""
    iterations: int | None = None
    """rewards tried"""
    env_steps: int | None = None
    """steps of all policies of all iterations together"""
    seconds: float = 0.0
    """it took"""
    usd: float | None = None
    """dollars for models; None: unknown"""
    criteria: tuple[Facts, ...] = ()
    """title, credit, value and unit of every criterion as the best policy met it"""
    checks: dict[str, float] = field(default_factory=dict[str, float])
    """share of the judged episodes in which each check of the suite held"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that nothing was made of"""
    session: str | None = None
    """folder of the session, seen from the benchmark's, as all paths here"""
    strip: str | None = None
    """pictures of the best policy"""
    video: str | None = None
    """video of the best policy"""
    finished_at: str = ""
    """UTC, ISO 8601"""


SearchEvent = SearchStart | SearchForecast | SearchIterationEnd | SearchRunEnd
BenchmarkEvent = BenchCase | BenchEvent | BenchResult
