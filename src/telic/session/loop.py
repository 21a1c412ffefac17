"""THE MAIN FLOW of a session: ask, write, try out, train, judge, and revise until it passes.

Every step looks for its own finished record first, so resuming is running again.
"""

from __future__ import annotations

import time
from functools import partial

from telic.authors.author import MeasurableIntent
from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.composer.compose import Composition
from telic.core.events import (
    LogMessage,
    SessionAsked,
    SessionForecast,
    SessionIterationStart,
    SessionJudged,
    SessionTried,
    from_facts,
)
from telic.errors import RewardError, TelicError, TrainingFailed
from telic.judges.trial import Trial, failure, try_out
from telic.llm import BudgetExceeded, Cancelled
from telic.session.branching import inherited
from telic.session.control import Stopped
from telic.session.forecast import session_forecast
from telic.session.judging import judge, untrained
from telic.session.population import train
from telic.session.records import SessionSummary
from telic.session.report import write_report
from telic.session.spending import AllowanceUsedUp
from telic.session.work import Work
from telic.storage.files import once, write_json, write_text

_REWRITES = 2
"""times that reward and judge may go back to their authors before anything is trained"""


def run_loop(work: Work) -> SessionSummary:
    """Do the session, or go on with it where it was interrupted."""
    config, folder, steering = work.config, work.folder, work.steering
    history = inherited(folder)
    written: Composition | None = None
    try:
        asked = once(folder.asked, MeasurableIntent, work.author.read)
        work.tell(from_facts(SessionAsked, asked.model_dump(mode="json")))
        if config.approve:
            agreed = steering.approved(asked.criteria)
            asked = asked.model_copy(update={"criteria": agreed})
        written = once(folder.author, Composition, partial(_write, work, asked))
        write_text(folder.judge, written.judge)
        expected = session_forecast(config, written.steps, folder, steering.account.allowance)
        work.tell(from_facts(SessionForecast, expected.model_dump()))
        for number in range(1, config.iterations + 1):
            steering.safe_point()
            files = folder.iteration(number)
            candidate = once(
                files.candidate, RewardCandidate, partial(_propose, work, number, written, history)
            )
            write_text(files.reward, candidate.reward)
            if not files.judgment.exists():
                work.tell(SessionIterationStart(number=number, change=candidate.change))
            iteration = once(
                files.judgment, SessionIteration, partial(_attempt, work, number, candidate)
            )
            history.append(iteration)
            work.tell(from_facts(SessionJudged, iteration.model_dump()))
            steering.account.report(work.tell, number)
            if iteration.passed:
                return _finish(work, written, history, "passed")
        return _finish(work, written, history, "not_passed")
    except (Stopped, AllowanceUsedUp, BudgetExceeded, Cancelled) as ended:
        return _finish(work, written, history, "stopped", ended)


def _write(work: Work, asked: MeasurableIntent) -> Composition:
    """Let reward and judge be written, tried on examples whose worth is known, and mended."""
    written = work.author.write(asked)
    for _ in range(_REWRITES + 1):
        trial = _try(work, written)
        write_json(work.folder.trial, trial)
        work.tell(from_facts(SessionTried, trial.model_dump(mode="json")))
        better = work.author.review(written, trial)
        if better is None:
            return written
        written = better
    return written


def _try(work: Work, written: Composition) -> Trial:
    try:
        return try_out(
            work.config.env,
            written.env_args,
            written.reward,
            written.judge,
            written.motions,
            written.fine,
            work.config.threshold,
            work.folder.path / "trial",
        )
    except TelicError as error:
        return failure(error)


def _propose(
    work: Work, number: int, written: Composition, history: list[SessionIteration]
) -> RewardCandidate:
    """Return what to try next: first what the author wrote, then a revision."""
    if history:
        notes = work.steering.notes(number)
        revised = work.author.revise(history, tuple(each.text for each in notes))
        # What was asked for is not the author's to change.
        return revised.model_copy(update={"steps": work.config.steps or revised.steps})
    return RewardCandidate(
        reward=written.reward,
        env_args=written.env_args,
        settings=written.settings,
        steps=work.config.steps or written.steps,
    )


def _attempt(work: Work, number: int, candidate: RewardCandidate) -> SessionIteration:
    """Train a candidate and judge it; one that cannot be trained has been tried as well."""
    began = time.monotonic()
    try:
        trained = train(work, number, candidate)
    except (RewardError, TrainingFailed) as error:
        work.tell(LogMessage(message=f"iteration {number} was not trained: {error}"))
        files, seconds = work.folder.iteration(number), time.monotonic() - began
        return untrained(files, number, candidate, error, seconds)
    return judge(work, number, trained)


def _finish(
    work: Work,
    written: Composition | None,
    history: list[SessionIteration],
    outcome: str,
    ended: TelicError | None = None,
) -> SessionSummary:
    trained = [each for each in history if each.members]
    best = max(trained, key=_worth, default=None)
    member = best.best_member if best else None
    spent = work.steering.account.spending()
    summary = SessionSummary(
        session=work.folder.name,
        intent=work.config.intent,
        env=work.config.env,
        outcome=outcome,  # type: ignore[arg-type]
        reason=None if ended is None else str(ended),
        out_of_budget=isinstance(ended, AllowanceUsedUp | BudgetExceeded),
        iterations=len(history),
        best_iteration=best.number if best else None,
        best_member=best.best if best else None,
        best_step=member.step if member else None,
        score=member.judgement.score if member else None,
        low=member.judgement.low if member else None,
        steps=spent.steps,
        seconds=spent.seconds,
        not_understood=written.not_understood if written else (),
        doubts=written.doubts if written else (),
    )
    if outcome != "stopped":
        work.author.analyse(history)
    write_report(work.folder, work.config, written, history, summary, work.tell)
    # Last: a session with a summary is over, and one that was killed before goes on to its report.
    write_json(work.folder.summary, summary)
    return summary


def _worth(iteration: SessionIteration) -> tuple[bool, float]:
    """Return what orders iterations; one that could not be judged is behind one worth nothing."""
    return iteration.passed, -1.0 if iteration.score is None else iteration.score
