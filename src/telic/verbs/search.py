"""Policy search: optimize the parameters of a small policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import telic.search as searches
from telic.core.request import PlacedRequest, option
from telic.core.verb import VerbResult, verb
from telic.envs.simulators.names import permit_env, refuse_simulated
from telic.llm.names import servers
from telic.report.sinks import logs
from telic.search.config import SearchConfig
from telic.storage.keys import permit
from telic.verbs.elsewhere import do_elsewhere, do_parts, require_completed

if TYPE_CHECKING:
    from telic.search.runner import Search
    from telic.search.task import SearchTask

EXAMPLES = """
telic search --env CartPole-v1 --method cma --runs 10        without a language model
telic search --env CartPole-v1 --method r2po --model host    answer yourself: telic orders
telic search --env Pong-v0 --method r2po --switch evidence=three_traces --model ollama:qwen3
Run the same command again to resume an interrupted search.
"""


class _SearchRequest(SearchConfig, PlacedRequest):
    """Configuration of a search and options for running it."""

    jobs: int | None = option("Processes. Default: one per core.", default=None, minimum=1)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)


@verb(
    _SearchRequest,
    examples=EXAMPLES,
    exit_code=lambda search: int(search.summary.outcome != "completed"),
)
@logs
def search(request: _SearchRequest) -> Search:
    """Optimize the parameters of a small policy."""
    permit_env(request.env)
    permit(*servers(request.model))
    refuse_simulated(
        request.env,
        "Policy search",
        "policy search needs thousands of seeded episodes in one process, and external simulators "
        "do not support this. See telic envs --search",
    )
    is_limited = request.max_calls or request.max_usd  # over all runs
    if request.on is not None and (request.runs == 1 or is_limited or request.model == "host"):
        return do_elsewhere(request, ("search",), "search:search")
    parts: list[Search] = []
    if request.on is not None:
        numbers = range(request.first_run, request.first_run + request.runs)
        each = [{"runs": 1, "first_run": number} for number in numbers]
        parts = do_parts(request, ("search",), "search:search", each)
        require_completed([part.summary.outcome for part in parts])
    given = {name: getattr(request, name) for name in SearchConfig.model_fields}
    return searches.runner.run_search(
        SearchConfig.parse({**given, "method": request.method.lower()}),
        Path(request.runs_dir),
        jobs=request.jobs,
        fresh=request.fresh,
        on_event=request.on_event,
        should_stop=request.should_stop,
        parts=parts,
    )


_COLUMNS = ("id", "states", "actions", "target", "time_limit")


def search_tasks() -> VerbResult[list[SearchTask]]:
    """Return the tasks for policy search."""
    return VerbResult([searches.worlds.find_task(name) for name in searches.worlds.TASKS], _COLUMNS)


def search_methods() -> VerbResult[dict[str, dict[str, Any]]]:
    """Return the methods for policy search with the settings that differ from the defaults."""
    names, switches_of = searches.plan.method_names(), searches.plan.switches_of
    found = {name: switches_of(name).model_dump(exclude_defaults=True) for name in names}
    return VerbResult(found)
