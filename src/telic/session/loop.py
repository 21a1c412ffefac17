"""THE MAIN FLOW of a session: ask, write, try out, train, judge, and revise until it passes.

Every step looks for its own finished record first, so resuming is running again.
"""

from __future__ import annotations

import time
from functools import partial

from telic.authors.author import MeasurableIntent, try_written
from telic.authors.candidate import RewardCandidate, SessionIteration, worth
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
from telic.judges.criteria import Composition
from telic.llm import BudgetExceeded, Cancelled
from telic.session.branch import inherited
from telic.session.budget import AllowanceUsedUp
from telic.session.control import SessionStopped, SessionWork
from telic.session.forecast import session_forecast
from telic.session.records import Outcome, SessionSummary
from telic.session.report import write_report
from telic.session.steps import judge, train, untrained
from telic.storage.files import once, write_json, write_text

_REWRITES = 2
"""times that reward and judge may go back to their authors before anything is trained"""


def run_loop(work: SessionWork) -> SessionSummary:
    """Do the session, or go on with it where it was interrupted."""
    config, folder, control = work.config, work.folder, work.control
    history = inherited(folder)
    written: Composition | None = None
    try:
        wanted = once(folder.asked, MeasurableIntent, work.author.read)
        work.tell(from_facts(SessionAsked, wanted.model_dump(mode="json")))
        if config.approve:
            agreed = control.approved(wanted.criteria)
            wanted = wanted.model_copy(update={"criteria": agreed})
        written = once(folder.author, Composition, partial(_write, work, wanted))
        write_text(folder.judge, written.judge)
        expected = session_forecast(config, written.steps, folder, control.account.allowance)
        work.tell(from_facts(SessionForecast, expected.model_dump()))
        for number in range(1, config.iterations + 1):
            control.safe_point()
            files = folder.iteration(number)
            propose = partial(_propose, work, number, written, history)
            candidate = once(files.candidate, RewardCandidate, propose)
            write_text(files.reward, candidate.reward)
            if not files.judgment.exists():
                work.tell(SessionIterationStart(number=number, change=candidate.change))
            attempt = partial(_attempt, work, number, candidate)
            iteration = once(files.judgment, SessionIteration, attempt)
            history.append(iteration)
            work.tell(from_facts(SessionJudged, iteration.model_dump()))
            control.account.report(work.tell, number)
            if iteration.passed:
                return _finish(work, written, history, "passed")
        return _finish(work, written, history, "not_passed")
    except (SessionStopped, AllowanceUsedUp, BudgetExceeded, Cancelled) as ended:
        return _finish(work, written, history, "stopped", ended)


def _write(work: SessionWork, wanted: MeasurableIntent) -> Composition:
    """Let reward and judge be written, tried on examples whose worth is known, and mended."""
    written = work.author.write(wanted)
    for _ in range(_REWRITES + 1):
        trial = try_written(work.brief, written)
        write_json(work.folder.trial, trial)
        work.tell(from_facts(SessionTried, trial.model_dump(mode="json")))
        better = work.author.review(written, trial)
        if better is None:
            return written
        written = better
    return written


def _propose(
    work: SessionWork, number: int, written: Composition, history: list[SessionIteration]
) -> RewardCandidate:
    """Return what to try next: first what the author wrote, then a revision."""
    if history:
        notes = work.control.notes(number)
        revised = work.author.revise(history, tuple(note.text for note in notes))
        # What was asked for is not the author's to change.
        return revised.model_copy(update={"steps": work.config.steps or revised.steps})
    return RewardCandidate(
        reward=written.reward,
        env_args=written.env_args,
        settings=written.settings,
        steps=work.config.steps or written.steps,
    )


def _attempt(work: SessionWork, number: int, candidate: RewardCandidate) -> SessionIteration:
    """Train a candidate and judge it; one that cannot be trained has been tried as well."""
    began = time.monotonic()
    try:
        trained = train(work, number, candidate)
    except (RewardError, TrainingFailed) as error:
        work.tell(LogMessage(message=f"iteration {number} was not trained: {error}"))
        return untrained(work, number, candidate, error, time.monotonic() - began)
    return judge(work, number, trained)


def _finish(
    work: SessionWork,
    written: Composition | None,
    history: list[SessionIteration],
    outcome: Outcome,
    ended: TelicError | None = None,
) -> SessionSummary:
    """Sum up, report, and only then say that the session is over."""
    trained = [iteration for iteration in history if iteration.members]
    best = max(trained, key=lambda iteration: (iteration.passed, worth(iteration)), default=None)
    member = best.best_member if best else None
    spent = work.control.account.spending()
    summary = SessionSummary(
        session=work.folder.name,
        intent=work.config.intent,
        env=work.config.env,
        outcome=outcome,
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
