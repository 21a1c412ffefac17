"""Policy search: find the few numbers of a small policy, and compare how methods do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.core.request import (
    PlacedRequest,
    RunsRequest,
    VerbRequest,
    WatchedRequest,
    argument,
    option,
)
from telic.core.verb import Wrapped, verb
from telic.search.config import SearchConfig

if TYPE_CHECKING:
    from telic.search.compare import SearchComparison
    from telic.search.runner import Search
    from telic.search.suite import SearchSuite
    from telic.search.task import SearchTask

EXAMPLES = """
telic search --env CartPole-v1 --method cma --runs 10        no language model used

telic search --env CartPole-v1 --method r2po --model host    answer yourself: telic orders

telic search --env Pong-v0 --method r2po --switch evidence=three_traces --model ollama:qwen3

telic search compare latest runs/search_2026...              tables and tests

Run the same command again to resume an interrupted search.
"""


class SearchRequest(SearchConfig, PlacedRequest):
    """A search to run: its configuration, and how to run it."""

    jobs: int | None = option("Processes; default: one per CPU core.", default=None, minimum=1)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)


def _stopped(search: Search) -> int:
    return int(search.summary.outcome != "completed")


@verb(SearchRequest, examples=EXAMPLES, exit_code=_stopped)
def search(request: SearchRequest) -> Search:
    """Optimize the parameters of a small policy."""
    from telic.envs.simulators.names import refuse_simulated

    refuse_simulated(
        request.env,
        "Policy search",
        "it starts thousands of episodes from chosen seeds within one process, which a simulator "
        "in a process of its own does not offer; its tasks are those of telic search envs",
    )
    if request.on is not None:
        from telic.verbs.elsewhere import do_elsewhere, search_in

        return do_elsewhere(request, ("search",), "search:search", search_in)
    from telic.search.runner import run_search

    given = {name: getattr(request, name) for name in SearchConfig.model_fields}
    return run_search(
        SearchConfig.parse({**given, "method": request.method.lower()}),
        Path(request.runs_dir),
        jobs=request.jobs,
        fresh=request.fresh,
        on_event=request.on_event,
        should_stop=request.should_stop,
    )


class SearchEnvsRequest(VerbRequest):
    """All tasks."""


@dataclass(frozen=True)
class SearchTasks(Wrapped):
    """The tasks of policy search."""

    tasks: list[SearchTask]
    columns = ("id", "states", "actions", "target", "time_limit")


@verb(SearchEnvsRequest)
def envs(request: SearchEnvsRequest) -> SearchTasks:
    """List the tasks of policy search."""
    from telic.search.worlds import TASKS, find_task

    return SearchTasks([find_task(name) for name in TASKS])


class MethodsRequest(VerbRequest):
    """All methods."""

    faithful: bool = option("As the published runs had them.", default=False)


@dataclass(frozen=True)
class SearchMethods(Wrapped):
    """Switches by method, and what they are unless a method says otherwise."""

    methods: dict[str, dict[str, Any]]
    plain: dict[str, Any]


@verb(MethodsRequest)
def methods(request: MethodsRequest) -> SearchMethods:
    """List the methods, as the switches they stand for."""
    from telic.search.methods import Switches, method_names, switches_of

    found = {name: switches_of(name, is_faithful=request.faithful) for name in method_names()}
    return SearchMethods(
        {name: switches.model_dump() for name, switches in found.items()}, Switches().model_dump()
    )


class CompareRequest(RunsRequest):
    """Searches to compare."""

    names: Sequence[str] = argument("Searches: ids, starts of ids, paths, or 'latest'.", many=True)
    metric: str = option(
        "fresh, final, mean, mean_all, better_of_two, mean_selected, best_seen or incumbent_area.",
        default="fresh",
    )
    out: Path | None = option("Folder for table.md, .csv, .tex, .png and curves.svg.", default=None)
    anyway: bool = option("Compare although the terms differ; the table says so.", default=False)


class ComparisonResult(NamedTuple):
    """Searches side by side, and where the tables were written."""

    comparison: SearchComparison
    out: Path | None

    def as_data(self) -> Any:
        """Return the report."""
        return self.comparison.report


@verb(CompareRequest)
def compare(request: CompareRequest) -> ComparisonResult:
    """Compare searches: means with intervals, curves, tests; refuses unequal terms."""
    from telic.search.compare import compare_searches, write_comparison
    from telic.search.results import load

    results = [load(Path(request.runs_dir), name) for name in request.names]
    comparison = compare_searches(results, request.metric, despite_differences=request.anyway)
    if request.out is not None:
        write_comparison(comparison, request.out)
    return ComparisonResult(comparison, request.out)


SUITE_EXAMPLES = """
telic search suite                                                ten tasks: an hour or two

telic search suite --env Nim-v0 --env CartPole-v1 --runs 5        two tasks

telic search suite --method cma --method sb3:ppo --equal-steps    beside Stable-Baselines3

Run the same command again to go on with an interrupted suite, or to see a finished one.
"""


class SuiteRequest(RunsRequest, WatchedRequest):
    """Tasks, methods and terms to be put side by side."""

    envs: Sequence[str] = option("Task; repeatable. None: all ten.", "--env", default=(), many=True)
    methods: Sequence[str] = option(
        "Method; repeatable, the first that applies to a task stands for us there. "
        "None: cma, tabular, climb, random.",
        "--method",
        default=(),
        many=True,
    )
    terms: Sequence[Literal["own", "raw", "published"]] = option(
        "own: observations scaled; raw: as they are; published: everything as in the paper. "
        "Repeatable; none: all three.",
        "--terms",
        default=(),
        many=True,
    )
    runs: int = option("Independent repetitions of every row.", default=10, minimum=1)
    episodes: int = option("Episodes of the budget, per run.", default=4000, minimum=1)
    fresh_episodes: int = option(
        "New episodes on which the best policy is measured.", default=200, minimum=1
    )
    equal_steps: bool = option(
        "Train baselines also for as many environment steps as the first method took.",
        default=False,
    )
    seed: int = option("Root of all random numbers.", default=0, minimum=0)
    jobs: int | None = option("Processes; one per CPU.", default=None, minimum=1)


def _unfinished(suite: SearchSuite) -> int:
    return int(suite.results.outcome != "completed")


@verb(SuiteRequest, examples=SUITE_EXAMPLES, exit_code=_unfinished)
def suite(request: SuiteRequest) -> SearchSuite:
    """Put tasks, methods and seeds into one table beside published numbers, in every accounting.

    What is tested is written down before the first episode. Each method is counted in four ways:
    the mean of all candidates, of the better of two, the best mean seen, and fresh episodes.
    """
    from telic.search.suite import run_suite
    from telic.search.suite_results import SuiteConfig

    given = {name: value for name, value in dict(request).items() if value not in ((), [])}
    fields = {name: value for name, value in given.items() if name in SuiteConfig.model_fields}
    return run_suite(
        SuiteConfig.parse(fields),
        Path(request.runs_dir),
        jobs=request.jobs,
        on_event=request.on_event,
        should_stop=request.should_stop,
    )
