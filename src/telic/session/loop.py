"""THE MAIN FLOW of a session: ask, write, try out, train, judge, and revise until it passes.

`run` is `telic.run`: an intent in, a policy with evidence out. Every step looks for its own
finished record first, so resuming is running again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic.authors.author import Brief, MeasurableIntent, author_for, try_written
from telic.authors.candidate import RewardCandidate, SessionIteration, Variant, handed_out
from telic.authors.composer import first_rewards
from telic.authors.request import ENV, SessionConfig
from telic.core.events import (
    Event,
    Listener,
    LogMessage,
    SessionIterationStart,
    SessionStart,
    TrainProgress,
    VideoProgress,
    ignore,
    log_line,
)
from telic.envs import make
from telic.envs.access import located
from telic.envs.own_robot import assumption_notes as assumed
from telic.errors import Refused, RewardError, TelicError, TrainingFailed, UsageError
from telic.judges.code import find_judge
from telic.judges.criteria import Composition
from telic.judges.validation import Trial, text_hash
from telic.llm import BudgetExceeded, Cancelled
from telic.loop import Loop
from telic.sandbox.nursery import prewarmed
from telic.session import WORKERS, motion
from telic.session.branch import inherited
from telic.session.budget import AllowanceUsedUp, SessionAccount
from telic.session.certificate import certify, sealed
from telic.session.control import SessionControl, SessionStopped, SessionWork
from telic.session.evidence import SessionJournal, seal
from telic.session.forecast import MeasuredForecast, session_forecast
from telic.session.judgement import (
    TrainedCandidate,
    judge,
    looks_otherwise,
    start_seed,
    too_few,
    untrained,
)
from telic.session.labels import vetoed_before
from telic.session.outcome import ONE_SEED, Ending, ending_of_pass
from telic.session.pictures import draw_pictures
from telic.session.records import SessionSummary
from telic.session.rejudge import reconsidered
from telic.session.report.document import write_report
from telic.session.robustness import robustness_card
from telic.session.training import alarms, train
from telic.storage.files import JsonLines, json_text, read_record, write_json, write_text
from telic.storage.layout import SessionFolder, new_session
from telic.storage.locks import RunLock
from telic.storage.reading import read_text
from telic.storage.workspace import Workspace, has_begun
from telic.training.machine import compiling_ahead
from telic.training.plan import plan
from telic.training.policy import Policy

_REWRITES = 2
"""times that reward and judge may go back to their authors before anything is trained"""
_PASSED = "passed"
_WORTH_COMPARING = 100_000
"""steps below which a short trial of several rewards says nothing"""


class Session(NamedTuple):
    """A finished or stopped session."""

    path: Path
    summary: SessionSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}

    @property
    def passed(self) -> bool:
        """Whether a policy was proven to do what was asked."""
        return self.summary.outcome == "passed"

    @property
    def run(self) -> Path | None:
        """The training run of the best policy."""
        number = self.summary.best_iteration
        return None if number is None else self.path / f"iter_{number}" / "train"

    def policy(self) -> Policy:
        """Return the best policy, as it was judged."""
        from telic.training.policy import load_policy

        if self.run is None or self.summary.best_member is None:
            raise ValueError("This session trained no policy.")
        return load_policy(self.run / self.summary.best_member, self.summary.best_step)


def run(
    intent: str,
    *,
    env: str = ENV,
    runs_dir: str | Path = "runs",
    fresh: bool = False,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Session:
    """Turn an intent into a policy, or go on with the same request where it was interrupted.

    Args:
        intent: what the robot should do, in words.
        env: environment id or path of an MJCF file.
        runs_dir: where session folders go.
        fresh: start anew even if this very request was interrupted before.
        on_event: called with every event.
        should_stop: polled; True ends the session, saved and resumable.
        options: how to try, judge and pay; each is a field of `SessionConfig`.

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    config = SessionConfig.parse({"intent": intent, "env": located(env), **options})
    if config.judge is not None:
        find_judge(config.judge)  # before anything is spent
    found = None if fresh else _unfinished(config, Path(runs_dir))
    folder = found or new_session(Path(runs_dir))
    try:
        return carry_on(folder, config, on_event=on_event, should_stop=should_stop)
    except (UsageError, Refused):
        # Before anything was made: a typo is no session to go on with.
        if found is None and not has_begun(folder.path):
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def carry_on(
    folder: SessionFolder,
    request: SessionConfig | None = None,
    *,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> Session:
    """Do a session from wherever it is; its request is in its folder, unless a newer one is given.

    The lock comes before the first file: nobody else changes or begins this session meanwhile.
    """
    with RunLock(folder.lock, folder.name):
        if request is not None:
            write_json(folder.config, request)
        config = read_record(folder.config, SessionConfig)
        folder.stop.unlink(missing_ok=True)
        with JsonLines(folder.events) as log:

            def keep(event: Event) -> None:
                if not isinstance(event, TrainProgress | VideoProgress):
                    log.append(log_line(event))
                on_event(event)

            tell = MeasuredForecast(keep, config)
            account = SessionAccount(folder, config)
            control = SessionControl(folder, tell, should_stop, account)
            brief = _brief(config, folder, control, tell)  # before it is said that it starts
            tell(
                SessionStart(
                    session=folder.name,
                    path=str(folder.path),
                    intent=config.intent,
                    env=config.env,
                    resumed=folder.asked.exists(),
                )
            )
            for note in assumed(brief.spec):
                tell(LogMessage(message=note))
            with compiling_ahead(config.env, {}, config.device), prewarmed(WORKERS):
                records = SessionJournal(folder, config.intent, config.env, config.terms)
                work = SessionWork(brief, author_for(brief), control, records)
                summary = run_loop(work)
            account.save()
    return Session(folder.path, summary)


def run_loop(work: SessionWork) -> SessionSummary:
    """Run the session, or resume it where it was interrupted."""
    config, folder, control = work.config, work.folder, work.control
    work.records.begin()
    tries = _Tries(work, inherited(folder))
    try:
        wanted = work.records.step(folder.asked, MeasurableIntent, work.author.read)
        work.tell(wanted)
        if config.approve:
            agreed = control.approved(wanted.criteria)
            wanted = wanted.model_copy(update={"criteria": agreed})
        tries.written = work.records.step(folder.author, Composition, partial(_write, work, wanted))
        write_text(folder.judge, tries.written.judge)
        work.tell(session_forecast(config, tries.written.steps, folder.path.parent))
        loop = Loop(
            work.records, tries, iterations=config.iterations, safe_point=control.safe_point
        )
        if loop.run() == _PASSED:
            return _finish_passed(work, tries)
        return _finish(work, tries, Ending("not_passed"))
    except (SessionStopped, AllowanceUsedUp, BudgetExceeded, Cancelled) as ended:
        return _finish(work, tries, Ending("stopped"), ended)


class _Tries:
    """The rewards that a session tries, one after another: the parts of its loop."""

    candidate_type, verdict_type = RewardCandidate, SessionIteration

    def __init__(self, work: SessionWork, history: list[SessionIteration]) -> None:
        self._work, self.history = work, history
        self.written: Composition | None = None
        self._began = 0.0

    def propose(self, number: int) -> RewardCandidate:
        """Return what to try next: first what the author wrote, then a revision."""
        work = self._work
        assert self.written is not None
        self.written, self.history = reconsidered(work, number, self.written, self.history)
        steps = work.config.steps or self.written.steps
        if self.history:
            notes = work.control.notes(number)
            revised = work.author.revise(self.history, tuple(note.text for note in notes))
            # The number of steps in the request is not the author's to change.
            return revised.model_copy(update={"steps": work.config.steps or revised.steps})
        return RewardCandidate(
            reward=self.written.reward,
            variants=_first_variants(work, self.written, steps),
            env_args=self.written.env_args,
            settings=self.written.settings,
            steps=steps,
        )

    def check(self, number: int, candidate: RewardCandidate) -> None:
        """Announce the iteration; the trainer itself probes a reward before it trains."""
        write_text(self._work.folder.iteration(number).reward, candidate.reward)
        self._work.tell(SessionIterationStart(number=number, change=candidate.change))
        self._began = time.monotonic()

    def run(self, number: int, candidate: RewardCandidate) -> TrainedCandidate | TelicError:
        """Train a population with the reward; return the error of one that cannot be trained."""
        try:
            return train(self._work, number, candidate)
        except (RewardError, TrainingFailed) as error:
            self._work.tell(LogMessage(message=f"iteration {number} was not trained: {error}"))
            return error

    def judge(
        self, number: int, candidate: RewardCandidate, result: TrainedCandidate | TelicError
    ) -> SessionIteration:
        """Judge the policies on fresh episodes."""
        work = self._work
        if isinstance(result, TelicError):
            return untrained(work, number, candidate, result, time.monotonic() - self._began)
        used = text_hash(read_text(work.folder.judge))
        iteration = sealed(work, judge(work, number, result), used)
        divergences = alarms(work.folder.iteration(number), iteration)
        return iteration.model_copy(update={"alarms": divergences})

    def decide(
        self, number: int, candidate: RewardCandidate, verdict: SessionIteration
    ) -> str | None:
        """End the session with the first iteration that passes."""
        self.history.append(verdict)
        work = self._work
        work.tell(verdict)
        work.control.account.report(work.tell, number)
        return _PASSED if verdict.passed else None


def _write(work: SessionWork, wanted: MeasurableIntent) -> Composition:
    """Let reward and judge be written, tried on examples whose worth is known, and mended."""
    written, better = None, work.author.write(wanted)
    left = _REWRITES + 1
    while better is not None:
        written = better
        trial = try_written(work.brief, written)
        work.records.write(work.folder.trial, trial)
        work.tell(trial)
        # What was mended last is tried as well, and trained as it is.
        better = work.author.review(written, trial) if left else None
        left -= 1
    assert written is not None  # the author wrote something
    return written


def _first_variants(work: SessionWork, written: Composition, steps: int) -> tuple[Variant, ...]:
    """Return what to train first: others too, where the reward ranks examples unlike the judge."""
    if steps < _WORTH_COMPARING or not work.folder.trial.exists():
        return (Variant(),)
    trial = read_record(work.folder.trial, Trial)
    return first_rewards(work.author, written, trial.examples, work.config.first_rewards)


def _finish_passed(work: SessionWork, tries: _Tries) -> SessionSummary:
    """End a session whose last iteration passed, rendering while the evidence is certified."""
    passed = tries.history[-1]
    candidate = read_record(work.folder.iteration(passed.number).candidate, RewardCandidate)
    assert passed.best_member is not None  # a pass has a best policy
    where = work.config.env, candidate.env_args
    troubles: list[str] = []
    # Leaving the context waits for the renderer: no other writer may touch the same files.
    with ThreadPoolExecutor(1) as pool:
        drawing = pool.submit(
            draw_pictures, work.folder, passed.number, passed.best_member, where, troubles.append
        )

        def is_drawn(best: SessionIteration | None) -> bool:
            # A branch may hand out a policy of the session that it came from.
            return drawing.exception() is None and not troubles and best is passed

        return _finish(work, tries, _ending(work, tries, passed), is_drawn=is_drawn)


def _ending(work: SessionWork, tries: _Tries, passed: SessionIteration) -> Ending:
    """Return the outcome of policies that proved the threshold, by what they were judged with."""
    written = tries.written
    assert written is not None
    certificate = certify(work, written, passed)
    write_json(work.folder.certificate, certificate)
    doubts = (*vetoed_before(work.folder), *too_few(work.config, passed), *certificate.doubts)
    return ending_of_pass(
        (*doubts, *looks_otherwise(passed)),
        (*written.not_understood, *written.dropped),
        (*((ONE_SEED,) if len(work.config.seeds) == 1 else ()), *certificate.limits),
        accept_partial=work.config.accept_partial,
    )


def _finish(
    work: SessionWork,
    tries: _Tries,
    ending: Ending,
    ended: TelicError | None = None,
    is_drawn: Callable[[SessionIteration | None], bool] = lambda best: False,
) -> SessionSummary:
    """Sum up, report, and only then say that the session is over."""
    written, history = tries.written, tries.history
    best = handed_out(history)
    member = best.best_member if best else None
    spent = work.control.account.spending()
    summary = SessionSummary(
        session=work.folder.name,
        intent=work.config.intent,
        env=work.config.env,
        outcome=ending.outcome,
        reason=None if ended is None else str(ended),
        out_of_budget=isinstance(ended, AllowanceUsedUp | BudgetExceeded),
        iterations=len(history),
        best_iteration=best.number if best else None,
        best_member=best.best if best else None,
        best_step=member.step if member else None,
        score=member.judgement.score if member else None,
        low=member.judgement.low if member else None,
        passing=member.judgement.passing if member else None,
        episodes=member.judgement.episodes if member else None,
        start_seed=start_seed(work),
        steps=spent.steps,
        seconds=spent.seconds,
        not_understood=written.not_understood if written else (),
        doubts=written.doubts if written else (),
        reasons=ending.reasons,
        limits=ending.limits,
    )
    summary = summary.as_unproven() if ending.outcome == "unproven" else summary
    if ending.outcome != "stopped":
        work.author.analyse(history)
    robustness_card(work.folder, work.config, summary, work.tell)
    told = work.config, written, history, summary
    write_report(work.folder, *told, work.tell, redraws=not is_drawn(best))
    # Last: a session with a summary is over, and one that was killed before goes on to its report.
    text = json_text(summary)
    policy = None if best is None or best.best is None else (best.number, best.best)
    seal(work.folder, text, policy and (*policy, summary.best_step))
    write_text(work.folder.summary, text)
    return summary


def _brief(
    config: SessionConfig, folder: SessionFolder, control: SessionControl, tell: Listener
) -> Brief:
    """Return what the author of a session is asked for; raises where nothing could be trained."""
    # Devices that are not there, or cannot share a policy, are refused before anything is written.
    plan(config.env, seeds=config.seeds, device=config.device, devices=config.devices)
    env = make(config.env, num_envs=1)
    env.close()
    reference = motion.chosen(config, env.spec)
    return Brief(config, env.spec, folder, reference, tell, control.wants_stop)


def _unfinished(config: SessionConfig, runs_dir: Path) -> SessionFolder | None:
    """Return the latest session of this request that has not come to its end.

    What may be spent does not make it another request: a larger budget lets it go on. A branch is
    gone on with by its own name.
    """

    def is_same(path: Path) -> bool:
        folder = SessionFolder(path)
        if folder.origin.exists():
            return False
        return read_record(folder.config, SessionConfig).terms == config.terms

    path = Workspace(runs_dir).unfinished("session", is_same)
    return None if path is None else SessionFolder(path)
