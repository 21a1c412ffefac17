"""Policy search: find the few numbers of a small policy, and compare how methods do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from telic.core.text import pairs
from telic.core.verb import Wrapped, verb

if TYPE_CHECKING:
    from telic.search.compare import SearchComparison
    from telic.search.labels import LabelReport
    from telic.search.records import SearchSummary
    from telic.search.results import Result
    from telic.search.revisions import EditReport, SalienceReport
    from telic.search.runner import Search
    from telic.search.suite import SearchSuite
    from telic.search.task import SearchTask

EXAMPLES = """
telic search --env CartPole-v1 --method cma --runs 10        no language model used

telic search --env CartPole-v1 --method r2po --model host    answer yourself: telic orders list

telic search --env Pong-v0 --method r2po --switch evidence=three_traces --model ollama:qwen3

telic search compare latest runs/search_2026...              tables and tests

Run the same command again to go on with an interrupted search.
"""


class SearchRequest(PlacedRequest):
    """A task, a method, and what may be spent."""

    env: str = argument("Task: see telic search envs.", "--env")
    method: str = option("See telic search methods.", default="r2po")
    switches: Mapping[str, Any] | None = option(
        "Change one choice of the method: name=value.",
        "--switch",
        default=None,
        many=True,
        read=pairs,
    )
    model: str | None = option(
        "provider:model, or host (work orders). None: no language model.", default=None
    )
    runs: int = option("Independent repetitions.", default=1, minimum=1)
    episodes: int = option("Episodes of the budget, per run.", default=4000, minimum=1)
    fresh_episodes: int = option(
        "New episodes on which the best policy is measured.", default=200, minimum=1
    )
    policy: str | None = option(
        "linear, linear-without-bias, table, projected-mlp or random-features.", default=None
    )
    seed: int = option("Root of all random numbers.", default=0, minimum=0)
    faithful: bool = option(
        "Repeat the published terms and their quirks: accounting, thresholds, success, steps.",
        default=False,
    )
    raw: bool = option(
        "Feed observations as they are, as the published runs did, instead of scaled.",
        default=False,
    )
    steps: int | None = option(
        "Environment steps of a baseline's budget; without, episodes count.",
        default=None,
        minimum=1,
    )
    stop_when_solved: bool = option(
        "End a run when its best policy has proven good. Off, so that methods compare: "
        "compare refuses a search that may end early beside one that may not.",
        default=False,
    )
    jobs: int | None = option("Processes; one per CPU.", default=None, minimum=1)
    max_calls: int | None = option("Model calls at most.", default=None)
    max_usd: float | None = option("Dollars for the model at most.", "--budget-usd", default=None)
    fresh: bool = option("Start anew instead of going on.", default=False)


def _stopped(search: Search) -> int:
    return int(search.summary.outcome != "completed")


@verb(SearchRequest, examples=EXAMPLES, exit_code=_stopped)
def search(request: SearchRequest) -> Search:
    """Search for the numbers of a small policy."""
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
    from telic.search.records import SearchConfig
    from telic.search.runner import run_search

    fields = {
        name: value for name, value in dict(request).items() if name in SearchConfig.model_fields
    }
    changed = {"method": request.method.lower(), "switches": dict(request.switches or {})}
    return run_search(
        SearchConfig.parse({**fields, **changed}),
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


class NamedSearchRequest(RunsRequest):
    """One search."""

    name: str = argument("Search: its id, the start of one, or 'latest'.", default="latest")

    def load(self) -> Result:
        """Return what the search came to."""
        from telic.search.results import load

        return load(Path(self.runs_dir), self.name)


class NamedSearchesRequest(RunsRequest):
    """Some searches."""

    names: Sequence[str] = argument("Searches: ids, starts of ids, paths, or 'latest'.", many=True)

    def load(self) -> list[Result]:
        """Return what the searches came to."""
        from telic.search.results import load

        return [load(Path(self.runs_dir), name) for name in self.names]


@verb(NamedSearchRequest)
def show(request: NamedSearchRequest) -> SearchSummary:
    """Show what a search came to."""
    return request.load().summary


class CompareRequest(NamedSearchesRequest):
    """Searches side by side."""

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

    comparison = compare_searches(
        request.load(), request.metric, despite_differences=request.anyway
    )
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


class MapRequest(NamedSearchRequest):
    """A search to draw."""

    out: Path | None = option("HTML file to write.", default=None)


class SearchMap(NamedTuple):
    """Where the map of tried policies is."""

    page: str


@verb(MapRequest)
def page(request: MapRequest) -> SearchMap:
    """Write the map of tried policies: score, explanation and animation of each, as one file."""
    from telic.search.report import write_page

    return SearchMap(str(write_page(request.load(), request.out)))


@dataclass(frozen=True)
class SalienceReports(Wrapped):
    """One report per search."""

    reports: list[SalienceReport]


@verb(NamedSearchesRequest)
def salience(request: NamedSearchesRequest) -> SalienceReports:
    """Ask whether revisions chase the worst episode: regressions against improvements."""
    from telic.search.revisions import salience_report

    return SalienceReports([salience_report(search) for search in request.load()])


class LabelsRequest(NamedSearchRequest, WatchedRequest):
    """A search whose critic is asked again."""

    model: str = option("provider:model, or host (work orders).")
    cases: int = option("Policies; two questions about each.", default=20, minimum=1)
    max_usd: float | None = option("Dollars for the model at most.", "--budget-usd", default=None)


@verb(LabelsRequest)
def labels(request: LabelsRequest) -> LabelReport:
    """Ask a model whether the word "worst" makes it chase an episode: the label is moved."""
    from telic.llm import Budget
    from telic.search.labels import label_report
    from telic.search.language_model import connect_model

    result = request.load()
    models = connect_model(
        request.model,
        result.folder.path,
        budget=Budget(usd=request.max_usd),
        on_event=request.on_event,
        should_stop=request.should_stop,
    )
    return label_report(result, models, request.cases)


@dataclass(frozen=True)
class EditReports(Wrapped):
    """One report per search."""

    reports: list[EditReport]


@verb(NamedSearchesRequest)
def edits(request: NamedSearchesRequest) -> EditReports:
    """Sort revisions by how much they changed and what came of it."""
    from telic.search.revisions import edit_report

    return EditReports([edit_report(search) for search in request.load()])
