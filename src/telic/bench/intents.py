"""THE MAIN FLOW of a benchmark of intents: one session per case, then what it all comes to.

Every attempt at a case is one line of an append-only log, so running again goes on. A case that
crashed or was refused is counted, with its reason and without a score.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic import __version__
from telic.bench.folder import BenchFolder, open_folder
from telic.bench.outcome import broken, judged, refused
from telic.bench.page import write_page
from telic.bench.records import FINAL, BenchConfig, CaseResult
from telic.bench.suite import Case, Suite
from telic.bench.tally import Tally, tally
from telic.core.events import (
    BenchCase,
    BenchEvent,
    BenchResult,
    Event,
    Listener,
    from_facts,
    ignore,
)
from telic.errors import BadEnvironment, Refused
from telic.session.api import Session
from telic.session.api import run as run_a_session
from telic.session.records import SessionConfig, SessionSummary
from telic.storage.files import JsonLines, read_json_lines, read_record, write_json, write_text
from telic.storage.layout import list_sessions
from telic.storage.locks import RunLock


class Benchmark(NamedTuple):
    """A benchmark, finished or stopped."""

    path: Path
    tally: Tally


def bench_intents(
    suite: Suite,
    cases: Sequence[Case] | None = None,
    *,
    runs_dir: str | Path = "runs",
    fresh: bool = False,
    jobs: int = 1,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    run_session: Callable[..., Session] = run_a_session,
    **options: Any,
) -> Benchmark:
    """Run every case as a session, or go on where an earlier call was interrupted.

    Args:
        suite: the suite.
        cases: those to run now, from `suite.select`; all of them if left out.
        runs_dir: where the benchmark's folder goes.
        fresh: measure anew even if this very request was measured before.
        jobs: cases at a time.
        on_event: hears bench.case, bench.result and what sessions tell, with the case's id; called
            from several threads when there are several jobs.
        should_stop: polled; True ends the running sessions, saved, and starts no more.
        run_session: what runs a case; as `telic.session.api.run`.
        options: of every session: iterations, seeds, threshold, episodes, steps, device, model.

    Raises:
        TelicError: the options are wrong, or the folder is in use; never for a single case.
    """
    chosen = list(suite.case if cases is None else cases)
    whole = SessionConfig.parse({"intent": "-", "env": "-", **options})
    settings = whole.model_dump(mode="json", exclude={"intent", "env", "schema_version"})
    config = BenchConfig(suite=suite.name, telic=__version__, options=settings)
    folder = open_folder(config, Path(runs_dir), fresh)
    with RunLock(folder.lock, folder.path.name):
        done = {each.case.id: each for each in results_in(folder)}
        waiting = [each for each in chosen if not _is_done(done.get(each.id), each)]
        attempt = partial(_attempt, folder, options, run_session, on_event, should_stop)
        with JsonLines(folder.attempts) as log:
            for result in _each(attempt, waiting, jobs):
                log.append(result.model_dump(mode="json"))
                on_event(from_facts(BenchResult, result.model_dump(mode="json")))
        return Benchmark(folder.path, _write(suite, chosen, config, folder))


def results_in(folder: BenchFolder) -> list[CaseResult]:
    """Return the latest result of every case."""
    rows = (CaseResult.model_validate(row) for row in read_json_lines(folder.attempts))
    return list({each.case.id: each for each in rows}.values())


def _is_done(result: CaseResult | None, case: Case) -> bool:
    """Say whether a case needs no further attempt; one whose words changed does."""
    return result is not None and result.case == case and result.outcome in FINAL


def _each(
    attempt: Callable[[Case], CaseResult | None], cases: Sequence[Case], jobs: int
) -> Iterator[CaseResult]:
    """Yield results as they come; with one job everything happens in this thread."""
    if jobs == 1:
        yield from (result for each in cases if (result := attempt(each)) is not None)
        return
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(attempt, each) for each in cases]):
            result = future.result()
            if result is not None:
                yield result


def _attempt(
    folder: BenchFolder,
    options: dict[str, Any],
    run_session: Callable[..., Session],
    on_event: Listener,
    should_stop: Callable[[], bool],
    case: Case,
) -> CaseResult | None:
    """Run a case as far as it goes; None when nothing was started."""
    if should_stop():
        return None
    on_event(BenchCase(case=case.id, env=case.env, intent=case.intent))
    sessions, started = folder.case(case.id), time.monotonic()

    def tell(event: Event) -> None:
        on_event(BenchEvent(case=case.id, told=event))

    try:
        session = _finished(case, options, sessions) or run_session(
            case.intent,
            env=case.env,
            runs_dir=sessions,
            on_event=tell,
            should_stop=should_stop,
            **options,
        )
        return judged(case, session, folder, time.monotonic() - started, should_stop())
    except (Refused, BadEnvironment) as error:
        # The author says no before anything is written; later, the same errors are failures.
        is_authored = any(sessions.glob("session_*/author.json"))
        make = broken if is_authored else refused
        return make(case, error, folder, time.monotonic() - started)
    except Exception as error:  # the boundary of a job: recorded, and the other cases go on
        write_text(folder.error(case.id), traceback.format_exc())
        return broken(case, error, folder, time.monotonic() - started)


def _finished(case: Case, options: dict[str, Any], sessions: Path) -> Session | None:
    """Return a session of this case that ended before its result could be noted."""
    config = SessionConfig.parse({"intent": case.intent, "env": case.env, **options})
    for folder in list_sessions(sessions):
        if folder.summary.exists() and read_record(folder.config, SessionConfig) == config:
            summary = read_record(folder.summary, SessionSummary)
            if summary.outcome != "stopped":  # one that was stopped goes on by itself
                return Session(folder.path, summary)
    return None


def _write(suite: Suite, chosen: Sequence[Case], config: BenchConfig, folder: BenchFolder) -> Tally:
    found = tally(suite, chosen, config, results_in(folder))
    write_json(folder.results, found)
    write_page(folder, found)
    return found
