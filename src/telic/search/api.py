"""telic.search: a task and a method in; tried policies, the best one and the evidence out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.events import Event, Listener, encode, ignore
from telic.search.folder import SearchFolder, new_search
from telic.search.plan import BASELINE, make_plan, versions
from telic.search.records import NO_MODEL, SearchConfig, SearchRunSummary, SearchSummary
from telic.search.run import SearchRun
from telic.search.runner import SearchWork, do_search
from telic.storage.files import JsonLines, read_record, write_json
from telic.storage.locks import RunLock
from telic.storage.workspace import Workspace


class Search(NamedTuple):
    """A finished or stopped search."""

    path: Path
    summary: SearchSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}

    @property
    def best(self) -> SearchRunSummary:
        """The run whose policy did best on fresh episodes."""
        return max(self.summary.runs, key=lambda run: run.fresh.mean)


def search(
    env: str,
    *,
    method: str = "r2po",
    runs_dir: str | Path = "runs",
    jobs: int | None = None,
    fresh: bool = False,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Search:
    """Search for a policy, or go on with the same request where it was interrupted.

    Args:
        env: a task of policy search, e.g. "CartPole-v1".
        method: a named choice of switches: r2po, props, cma, ...
        runs_dir: where the folder of the search goes.
        jobs: processes for runs without a model; None for one per CPU.
        fresh: start anew even if this very request was interrupted before.
        on_event: called with every event.
        should_stop: polled; True ends the search, saved and resumable.
        options: fields of `SearchConfig`: runs, episodes, model, switches, seed, faithful, ...

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    config = SearchConfig.parse({"env": env, "method": method.lower(), **options})
    plan = make_plan(config)
    if config.method.startswith(BASELINE):
        from telic.search.baselines import find_algorithm

        find_algorithm(config.method, plan.task)
    elif config.model is None:
        SearchRun(plan, 1, None).require_room()
    folder = None if fresh else _unfinished(config, Path(runs_dir))
    if folder is None:
        folder = new_search(Path(runs_dir))
        folder.path.mkdir(parents=True)
        write_json(
            folder.manifest,
            {
                "label": plan.label,
                "model": config.model or NO_MODEL,
                "protocol": plan.protocol,
                "protocol_key": plan.protocol.key,
                "switches": plan.switches,
                "versions": versions(),
            },
        )
        write_json(folder.config, config)
    with RunLock(folder.lock, folder.name), JsonLines(folder.events) as log:
        folder.stop.unlink(missing_ok=True)

        def tell(event: Event) -> None:
            log.append(encode(event))
            on_event(event)

        def stop() -> bool:
            return should_stop() or folder.stop.exists()

        summary = do_search(SearchWork(plan, folder, tell, stop), jobs)
        write_json(folder.summary, summary)
    return Search(folder.path, summary)


def _unfinished(config: SearchConfig, runs_dir: Path) -> SearchFolder | None:
    """Return the latest search of exactly this request that has not come to its end."""

    def is_same(path: Path) -> bool:
        return _work_of(read_record(SearchFolder(path).config, SearchConfig)) == _work_of(config)

    path = Workspace(runs_dir).unfinished("search", is_same)
    return None if path is None else SearchFolder(path)


def _work_of(config: SearchConfig) -> SearchConfig:
    """Return a request without its limits for the model: who raises them wants to go on."""
    return config.replace(max_calls=None, max_usd=None)
