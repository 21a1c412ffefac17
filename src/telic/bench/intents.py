"""Intent benchmark: run one session per case, then compute the pass rates.

Every attempt at a case is one line of an append-only log, so an interrupted benchmark is resumed by
running it again. Crashed and refused cases count as not passed and have a reason but no score.

The author of a session also writes the judge, so an author that misreads an intent also misjudges
it. A suite therefore has independent checks ("the torso points up"), which the episodes of a passed
case must satisfy.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic import __version__
from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.bench._report import build_report
from telic.bench.results import (
    FINAL,
    BenchConfig,
    BenchFolder,
    BenchmarkSummary,
    Case,
    CaseOutcome,
    CaseResult,
    CriterionResult,
    Suite,
    open_folder,
    results_in,
    session_options,
    summarize,
    total_usd,
)
from telic.core.events import BenchCase, BenchEvent, Event, Listener, ignore
from telic.errors import BadEnvironment, NotUnderstood, Refused, TelicError
from telic.judges.code import judge_files
from telic.report.html import render_page
from telic.session.budget import paid, steps_taken
from telic.session.control import time_stamp
from telic.session.loop import Session
from telic.session.loop import run_session as run_a_session
from telic.session.records import SessionSummary, verified
from telic.storage.files import JsonLines, read_record, write_json, write_text
from telic.storage.layout import SessionFolder, list_sessions
from telic.storage.locks import RunLock
from telic.storage.trajectories import Environment

_HOLDS = 0.75
"""minimum fraction of the episodes in which a check must hold"""


class Benchmark(NamedTuple):
    """Result of a finished or stopped benchmark."""

    path: Path
    summary: BenchmarkSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}


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
    """Run every case as a session, or resume an interrupted benchmark of the same request.

    With several jobs, `on_event` is called from several threads. `options` apply to all sessions.
    Raises TelicError for invalid options or a folder in use, but never for a failing case.
    """
    # A benchmark measures whether policies pass, which does not depend on robustness.
    options = {"robustness": False, **options}
    chosen = list(suite.case if cases is None else cases)
    config = BenchConfig(suite=suite.name, telic=__version__, options=session_options(options))
    folder = open_folder(config, Path(runs_dir), fresh)
    with RunLock(folder.lock, folder.path.name):
        done = {result.case.id: result for result in results_in(folder)}
        waiting = [
            case
            for case in chosen
            if case.id not in done
            or done[case.id].case != case.shown
            or done[case.id].outcome not in FINAL
        ]
        attempt = partial(_attempt, folder, options, run_session, on_event, should_stop)
        with JsonLines(folder.attempts) as log, ThreadPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(attempt, case) for case in waiting]):
                if (result := future.result()) is not None:
                    log.append(folder.row(result))
                    on_event(result)
        result = summarize(suite, chosen, config, results_in(folder))
        write_json(folder.results, result)
        write_text(folder.page, render_page(build_report(result, folder.path), folder.path))
        return Benchmark(folder.path, result)


def _attempt(
    folder: BenchFolder,
    options: dict[str, Any],
    run_session: Callable[..., Session],
    on_event: Listener,
    should_stop: Callable[[], bool],
    case: Case,
) -> CaseResult | None:
    """Run or resume a case, and return its result, or None if nothing was started."""
    if should_stop():
        return None
    on_event(BenchCase(case=case.id, env=case.env, intent=case.intent))
    sessions, started = folder.case(case.id), time.monotonic()

    def emit(event: Event) -> None:
        on_event(BenchEvent(case=case.id, inner=event))

    outcome, reason = "error", ""
    try:
        session = _finished(case, options, sessions) or run_session(
            case.intent,
            env=case.env,
            runs_dir=sessions,
            on_event=emit,
            should_stop=should_stop,
            **options,
        )
        return _case_result(case, session, folder, time.monotonic() - started)
    except (Refused, NotUnderstood, BadEnvironment) as error:
        # The author refuses before anything is written; later, the same errors are failures.
        reason = f"{type(error).__name__}: {error}"
        if not any(sessions.glob("session_*/author.json")):
            outcome, reason = "refused", str(error)
    except Exception as error:  # job boundary: recorded, and the other cases continue
        write_text(folder.case(case.id) / "error.txt", traceback.format_exc())
        reason = f"{type(error).__name__}: {error}"
    return CaseResult(
        case=case.shown,
        outcome=outcome,
        reason=reason,
        seconds=time.monotonic() - started,
        usd=total_usd([paid(each)[0] for each in list_sessions(sessions)]),
        finished_at=time_stamp(),
    )


def _finished(case: Case, options: dict[str, Any], sessions: Path) -> Session | None:
    config = SessionConfig.parse({"intent": case.intent, "env": case.env, **options})
    for folder in list_sessions(sessions):
        if folder.summary.exists() and read_record(folder.config, SessionConfig) == config:
            summary = verified(folder)
            if summary.outcome != "stopped":  # stopped sessions are resumed by `run`
                return Session(folder.path, summary)
    return None


def _case_result(case: Case, session: Session, folder: BenchFolder, seconds: float) -> CaseResult:
    """Return the result of a finished or stopped session."""
    summary, files = session.summary, SessionFolder(session.path)
    config, number = read_record(files.config, SessionConfig), summary.best_iteration
    best = (
        None if number is None else read_record(files.iteration(number).judgment, SessionIteration)
    )
    member = best.best_member if best else None
    outcome: CaseOutcome = summary.outcome
    if outcome == "stopped" and summary.out_of_budget:
        outcome = "not_passed"  # resuming would stop again
    checks: dict[str, float] = {}
    criteria: list[CriterionResult] = []
    if best and member:
        units = {
            each.title: each.unit
            for verdict in member.judgment.verdicts
            for each in verdict.criteria
        }
        criteria = [
            CriterionResult(title=title, credit=credit, value=value, unit=units.get(title, ""))
            for title, (credit, value) in member.judgment.criteria.items()
        ]
        if case.checks and outcome != "stopped":
            own = files.iteration(best.number)
            where = config.env, read_record(own.candidate, RewardCandidate).env_args
            paths = [own.episode(member.member, row) for row in range(member.judgment.episodes)]
            checks = hold(case.checks, paths, session.path / "checked", where)
            if outcome == "passed" and min(checks.values()) < _HOLDS:
                outcome = "unconfirmed"

    def relative(*paths: Path) -> str | None:
        """Return the first path that exists, relative to the benchmark folder."""
        there = (path.relative_to(folder.path).as_posix() for path in paths if path.exists())
        return next(there, None)

    report = files.report_dir
    return CaseResult(
        case=case.shown,
        outcome=outcome,
        reason=_reason(outcome, config, summary, best, checks),
        tags=best.tags if best else (),
        score=summary.score,
        low=summary.low,
        iterations=summary.iterations,
        env_steps=steps_taken(files),
        # The session's time includes attempts that were killed.
        seconds=max(seconds, summary.seconds),
        usd=total_usd([paid(each)[0] for each in list_sessions(folder.case(case.id))]),
        criteria=tuple(criteria),
        checks=checks,
        not_understood=summary.not_understood,
        session=relative(session.path),
        strip=relative(report / "strip_median.png"),
        video=relative(report / "median_small.mp4", report / "median.mp4"),
        finished_at=time_stamp(),
    )


def _reason(
    outcome: CaseOutcome,
    config: SessionConfig,
    summary: SessionSummary,
    best: SessionIteration | None,
    checks: dict[str, float],
) -> str | None:
    if outcome == "passed":
        return None
    if outcome in ("unproven", "passed_in_part"):
        return "; ".join(summary.reasons)
    if outcome == "unconfirmed":
        failed = [title for title, share in checks.items() if share < _HOLDS]
        return f"passed by its own judge, but failed checks of the suite: {', '.join(failed)}"
    if outcome == "stopped" or best is None:
        return summary.reason or "stopped before a policy was judged"
    if best.score is None:
        return "no policy could be judged"
    proven = sum(member.low >= config.threshold for member in best.members)
    failed = f"; failed: {', '.join(best.tags)}" if best.tags else ""
    ended = f"; {summary.reason}" if summary.reason else ""
    return (
        f"{proven} of {len(best.members)} training seeds proved {config.threshold:g}, "
        f"{config.needed} needed{failed}{ended}"
    )


def hold(
    checks: dict[str, str],
    episodes: Sequence[Path],
    folder: Path,
    environment: Environment | None = None,
) -> dict[str, float]:
    """Return the fraction of episodes in which each check held, by title.

    A check is an expression of `episode` (`telic.judges.episode.RecordedEpisode`) and `np`. Checks
    run in the sandbox, like judge code. TelicError is raised if a check cannot be evaluated (a)
    fault of the suite and not a failure of the policy.
    """
    lines = "".join(
        f"        score({title!r}, 1.0 if ({code}) else 0.0, zero=0.0, goal=1.0),\n"
        for title, code in checks.items()
    )
    source = (
        "import numpy as np\n\nfrom telic import score\n\n\n"
        f"def judge(episode):\n    return [\n{lines}    ]\n"
    )
    verdicts = judge_files(source, episodes, folder, environment)
    for verdict in verdicts:
        if verdict.score is None:
            raise TelicError(f"The checks of the suite cannot be evaluated: {verdict.reason}")
    return {
        title: sum(verdict.criteria[index].credit for verdict in verdicts) / len(verdicts)
        for index, title in enumerate(checks)
    }
