"""From a session, or from what stopped it, to the result of a case."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from telic.bench.checks import hold
from telic.bench.folder import BenchFolder
from telic.bench.records import CaseResult, Measured, Outcome
from telic.bench.suite import Case
from telic.llm.client import REPLIES
from telic.session.api import Session
from telic.session.records import Iteration, MemberScore, SessionConfig, SessionSummary
from telic.session.spending import steps_taken
from telic.storage.files import read_json, read_record
from telic.storage.layout import SessionFolder

_HOLDS = 0.75
"""share of the episodes in which a check must hold"""


def judged(
    case: Case, session: Session, folder: BenchFolder, seconds: float, was_asked_to_stop: bool
) -> CaseResult:
    """Return the result of a session that came to an end, or was stopped."""
    summary, files = session.summary, SessionFolder(session.path)
    config = read_record(files.config, SessionConfig)
    best = _best(files, summary)
    member = best.best_member if best else None
    outcome: Outcome = summary.outcome
    if outcome == "stopped" and not was_asked_to_stop:
        outcome = "not_passed"  # a budget is used up: going on would stop again
    checks: dict[str, float] = {}
    if best and member and case.checks and outcome != "stopped":
        checks = hold(case.checks, _episodes(files, best, member), session.path / "checked")
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
        video=_seen_from(folder.path, *_videos(files)),
        finished_at=_now(),
    )


def refused(case: Case, error: Exception, folder: BenchFolder, seconds: float) -> CaseResult:
    """Return the result of a case whose author said no."""
    return _without_score(case, "refused", str(error), folder, seconds)


def broken(case: Case, error: Exception, folder: BenchFolder, seconds: float) -> CaseResult:
    """Return the result of a case that crashed."""
    reason = f"{type(error).__name__}: {error}"
    return _without_score(case, "error", reason, folder, seconds)


def _without_score(
    case: Case, outcome: Outcome, reason: str, folder: BenchFolder, seconds: float
) -> CaseResult:
    return CaseResult(
        case=case,
        outcome=outcome,
        reason=reason,
        seconds=seconds,
        usd=_usd(folder.case(case.id)),
        finished_at=_now(),
    )


def _best(files: SessionFolder, summary: SessionSummary) -> Iteration | None:
    if summary.best_iteration is None:
        return None
    return read_record(files.iteration(summary.best_iteration).judgment, Iteration)


def _reason(
    outcome: Outcome,
    config: SessionConfig,
    summary: SessionSummary,
    best: Iteration | None,
    checks: dict[str, float],
) -> str | None:
    if outcome == "passed":
        return None
    if outcome == "unconfirmed":
        missed = [title for title, share in checks.items() if share < _HOLDS]
        return f"its own judge passed it, but the suite misses: {', '.join(missed)}"
    if outcome == "stopped" or best is None:
        return summary.reason or "stopped before a policy was judged"
    if best.score is None:
        return "no policy could be judged"
    proven = sum(each.low >= config.threshold for each in best.members)
    lacks = f"; lacking: {', '.join(best.tags)}" if best.tags else ""
    ended = f"; {summary.reason}" if summary.reason else ""
    return (
        f"{proven} of {len(best.members)} training seeds proved {config.threshold:g}, "
        f"{config.needed} needed{lacks}{ended}"
    )


def _videos(files: SessionFolder) -> tuple[Path, Path]:
    """Return the video of the median episode, the small one first."""
    return files.report_dir / "median_small.mp4", files.report_dir / "median.mp4"


def _episodes(files: SessionFolder, best: Iteration, member: MemberScore) -> list[Path]:
    count = member.judgement.episodes
    return [files.iteration(best.number).episode(member.member, index) for index in range(count)]


def _criteria(member: MemberScore) -> tuple[Measured, ...]:
    units = {leaf.title: leaf.unit for each in member.judgement.verdicts for leaf in each.leaves}
    return tuple(
        Measured(title=title, credit=credit, value=value, unit=units.get(title, ""))
        for title, (credit, value) in member.judgement.leaves.items()
    )


def _usd(sessions: Path) -> float | None:
    """Return what models cost in all sessions of a case; None when a part is unknown."""
    # A killed writer may have left an unfinished file; its name starts with a dot.
    paths = [each for each in sessions.glob(f"*/{REPLIES}/*.json") if each.name[0] != "."]
    prices = [read_json(each)["charge"]["usd"] for each in sorted(paths)]
    return None if None in prices else float(sum(prices))


def _seen_from(folder: Path, *paths: Path) -> str | None:
    """Return the first path that exists."""
    return next((each.relative_to(folder).as_posix() for each in paths if each.exists()), None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
