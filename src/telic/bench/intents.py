"""THE MAIN FLOW of a benchmark of intents: one session per case, then what it all comes to.

Every attempt at a case is one line of an append-only log, so running again goes on. A case that
crashed or was refused is counted, with its reason and without a score.

A session is judged by the judge its own author wrote. An author that misreads an intent also judges
by the misreading, so a suite brings a few hard facts of its own ("the torso points up"), which are
held against the episodes of a passed case.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic import __version__
from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.bench.report import build_report
from telic.bench.results import (
    FINAL,
    BenchConfig,
    BenchFolder,
    Case,
    CaseOutcome,
    CaseResult,
    CriterionResult,
    Suite,
    Tally,
    open_folder,
    session_options,
    tally,
    total_usd,
)
from telic.core.events import BenchCase, BenchEvent, Event, Listener, ignore
from telic.errors import BadEnvironment, NotUnderstood, Refused, TelicError
from telic.judges.code import judge_files
from telic.report.html import render_page
from telic.session.budget import paid, steps_taken
from telic.session.loop import Session
from telic.session.loop import run as run_a_session
from telic.session.records import SessionSummary, read_summary
from telic.storage.files import (
    JsonLines,
    as_record,
    read_json_lines,
    read_record,
    write_json,
    write_text,
)
from telic.storage.layout import SessionFolder, list_sessions
from telic.storage.locks import RunLock
from telic.storage.trajectories import Environment

_HOLDS = 0.75
"""share of the episodes in which a check must hold"""


class Benchmark(NamedTuple):
    """A benchmark, finished or stopped."""

    path: Path
    tally: Tally

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.tally.model_dump(mode="json")}


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
        run_session: what runs a case; as `telic.session.loop.run`.
        options: of every session: iterations, seeds, threshold, episodes, steps, device, model.

    Raises:
        TelicError: the options are wrong, or the folder is in use; never for a single case.
    """
    # What a benchmark measures is the pass, and robustness is no part of it.
    options = {"robustness": False, **options}
    chosen = list(suite.case if cases is None else cases)
    config = BenchConfig(suite=suite.name, telic=__version__, options=session_options(options))
    folder = open_folder(config, Path(runs_dir), fresh)
    with RunLock(folder.lock, folder.path.name):
        done = {result.case.id: result for result in results_in(folder)}
        waiting = [case for case in chosen if not _is_done(done.get(case.id), case)]
        attempt = partial(_attempt, folder, options, run_session, on_event, should_stop)
        with JsonLines(folder.attempts) as log, ThreadPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(attempt, case) for case in waiting]):
                if (result := future.result()) is not None:
                    log.append(result.model_dump(mode="json"))
                    on_event(result)
        result = tally(suite, chosen, config, results_in(folder))
        write_json(folder.results, result)
        write_text(folder.page, render_page(build_report(result, folder.path), folder.path))
        return Benchmark(folder.path, result)


def results_in(folder: BenchFolder) -> list[CaseResult]:
    """Return the latest result of every case."""
    rows = (
        as_record(row, CaseResult, str(folder.attempts)) for row in read_json_lines(folder.attempts)
    )
    return list({result.case.id: result for result in rows}.values())


def _is_done(result: CaseResult | None, case: Case) -> bool:
    """Say whether a case needs no further attempt; one whose words changed does."""
    return result is not None and result.case == case and result.outcome in FINAL


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
        on_event(BenchEvent(case=case.id, inner=event))

    try:
        session = _finished(case, options, sessions) or run_session(
            case.intent,
            env=case.env,
            runs_dir=sessions,
            on_event=tell,
            should_stop=should_stop,
            **options,
        )
        return judged(case, session, folder, time.monotonic() - started)
    except (Refused, NotUnderstood, BadEnvironment) as error:
        # The author says no before anything is written; later, the same errors are failures.
        is_refused = not any(sessions.glob("session_*/author.json"))
        seconds = time.monotonic() - started
        outcome, reason = ("refused", str(error)) if is_refused else ("error", _named(error))
        return _without_score(case, outcome, reason, folder, seconds)
    except Exception as error:  # the boundary of a job: recorded, and the other cases go on
        write_text(folder.error(case.id), traceback.format_exc())
        seconds = time.monotonic() - started
        return _without_score(case, "error", _named(error), folder, seconds)


def _finished(case: Case, options: dict[str, Any], sessions: Path) -> Session | None:
    """Return a session of this case that ended before its result could be noted."""
    config = SessionConfig.parse({"intent": case.intent, "env": case.env, **options})
    for folder in list_sessions(sessions):
        if folder.summary.exists() and read_record(folder.config, SessionConfig) == config:
            summary = read_summary(folder)
            if summary.outcome != "stopped":  # one that was stopped goes on by itself
                return Session(folder.path, summary)
    return None


def judged(case: Case, session: Session, folder: BenchFolder, seconds: float) -> CaseResult:
    """Return the result of a session that came to an end, or was stopped."""
    summary, files = session.summary, SessionFolder(session.path)
    config = read_record(files.config, SessionConfig)
    number = summary.best_iteration
    best = (
        None if number is None else read_record(files.iteration(number).judgment, SessionIteration)
    )
    member = best.best_member if best else None
    outcome: CaseOutcome = summary.outcome
    if outcome == "stopped" and summary.out_of_budget:
        outcome = "not_passed"  # going on would stop again
    checks: dict[str, float] = {}
    if best and member and case.checks and outcome != "stopped":
        own = files.iteration(best.number)
        where = config.env, read_record(own.candidate, RewardCandidate).env_args
        paths = [own.episode(member.member, row) for row in range(member.judgement.episodes)]
        checks = hold(case.checks, paths, session.path / "checked", where)
        if outcome == "passed" and min(checks.values()) < _HOLDS:
            outcome = "unconfirmed"
    return CaseResult(
        case=case,
        outcome=outcome,
        reason=_reason(outcome, config, summary, best, checks),
        tags=best.tags if best else (),
        score=summary.score,
        low=summary.low,
        iterations=summary.iterations,
        env_steps=steps_taken(files),
        # The session's clock knows of attempts that were killed.
        seconds=max(seconds, summary.seconds),
        usd=_usd(folder.case(case.id)),
        criteria=_criteria(member) if member else (),
        checks=checks,
        not_understood=summary.not_understood,
        session=_seen_from(folder.path, session.path),
        strip=_seen_from(folder.path, files.report_dir / "strip_median.png"),
        video=_seen_from(
            folder.path, files.report_dir / "median_small.mp4", files.report_dir / "median.mp4"
        ),
        finished_at=_now(),
    )


def _without_score(
    case: Case, outcome: CaseOutcome, reason: str, folder: BenchFolder, seconds: float
) -> CaseResult:
    """Return the result of a case that crashed, or whose author said no."""
    return CaseResult(
        case=case,
        outcome=outcome,
        reason=reason,
        seconds=seconds,
        usd=_usd(folder.case(case.id)),
        finished_at=_now(),
    )


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


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
        missed = [title for title, share in checks.items() if share < _HOLDS]
        return f"its own judge passed it, but the suite misses: {', '.join(missed)}"
    if outcome == "stopped" or best is None:
        return summary.reason or "stopped before a policy was judged"
    if best.score is None:
        return "no policy could be judged"
    proven = sum(member.low >= config.threshold for member in best.members)
    lacks = f"; lacking: {', '.join(best.tags)}" if best.tags else ""
    ended = f"; {summary.reason}" if summary.reason else ""
    return (
        f"{proven} of {len(best.members)} training seeds proved {config.threshold:g}, "
        f"{config.needed} needed{lacks}{ended}"
    )


def _criteria(member: MemberScore) -> tuple[CriterionResult, ...]:
    units = {
        leaf.title: leaf.unit for verdict in member.judgement.verdicts for leaf in verdict.leaves
    }
    return tuple(
        CriterionResult(title=title, credit=credit, value=value, unit=units.get(title, ""))
        for title, (credit, value) in member.judgement.leaves.items()
    )


def _usd(sessions: Path) -> float | None:
    """Return what models cost in all sessions of a case; None when a part is unknown."""
    return total_usd([paid(each)[0] for each in list_sessions(sessions)])


def _seen_from(folder: Path, *paths: Path) -> str | None:
    """Return the first path that exists."""
    return next((path.relative_to(folder).as_posix() for path in paths if path.exists()), None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def hold(
    checks: dict[str, str],
    episodes: Sequence[Path],
    folder: Path,
    environment: Environment | None = None,
) -> dict[str, float]:
    """Return by title the share of episodes in which each check held.

    A check is an expression of `episode` (`telic.judges.episode.RecordedEpisode`) and `np`; it runs
    as judge code does, confined. Raises TelicError when one cannot be evaluated: that is a mistake
    of the suite, and must not pass for a failure of the policy.
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
            raise TelicError(f"The suite's checks cannot be evaluated: {verdict.reason}")
    return {
        title: sum(verdict.leaves[index].credit for verdict in verdicts) / len(verdicts)
        for index, title in enumerate(checks)
    }
