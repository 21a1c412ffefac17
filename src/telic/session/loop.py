"""Main loop of a session, which writes, trains and revises rewards until a policy passes.

The function `run` is exported as `telic.run`. It turns an intent into a policy with evidence. Each
step first looks for its record, so an interrupted session is resumed by running it again.
"""

from __future__ import annotations

import html
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from telic.authors.author import Brief, MeasurableIntent, author_for, try_written
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    handed_out,
    program_text,
    reward_text,
)
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
from telic.envs.access import located
from telic.envs.factory import make
from telic.envs.own_robot import assumption_notes as assumed
from telic.errors import Refused, RewardError, TelicError, TrainingFailed, UsageError
from telic.judges.code import find_judge
from telic.judges.criteria import Composition
from telic.judges.measured import measured_by_host
from telic.judges.validation import JudgeValidation, text_hash
from telic.llm import BudgetExceeded, Cancelled
from telic.llm.names import servers
from telic.llm.work_orders import ORDERS, close_orders
from telic.loop import Loop
from telic.sandbox.fork_server import prewarmed
from telic.session import WORKERS, motion
from telic.session._judgment import TrainedCandidate, doubts_of_pass, judge, start_seed, untrained
from telic.session._report_sections import draw_pictures
from telic.session._training import alarms, train
from telic.session.branch import inherited
from telic.session.budget import BudgetUsedUp, MeasuredForecast, SessionAccount, session_forecast
from telic.session.certificate import Certifier, with_hashes
from telic.session.control import SessionControl, SessionStopped, SessionWork
from telic.session.evidence import SessionJournal, record_end
from telic.session.labels import vetoed_before
from telic.session.records import (
    ONE_SEED,
    SessionOutcome,
    SessionSummary,
    ending_of_pass,
    outcome_words,
    verified,
)
from telic.session.report import rewrite_report, save_report
from telic.session.robustness import robustness_card
from telic.storage.files import JsonLines, read_record, write_json, write_text
from telic.storage.keys import permit, sign_folder
from telic.storage.layout import SessionFolder, new_name
from telic.storage.locks import RunLock
from telic.storage.reading import read_text
from telic.storage.workspace import Workspace, has_begun
from telic.training.job import declared_phase
from telic.training.machine import compiling_ahead
from telic.training.plan import plan
from telic.training.policy import Policy, load_policy

_REWRITES = 2
"""maximum number of corrections of reward and judge before training"""
PROBED = True
"""whether judges are also validated on untrained policies and mutants"""
_PASSED = "passed"
_WORTH_COMPARING = 100_000
"""number of steps below which screening runs of several rewards are not informative"""


class Session(NamedTuple):
    """Finished or stopped session."""

    path: Path
    summary: SessionSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}

    @property
    def passed(self) -> bool:
        """Return whether a policy was proven to satisfy the intent."""
        return self.summary.outcome == "passed"

    def _repr_html_(self) -> str:
        """Show the report, with videos and curves, in a notebook."""
        page = html.escape(read_text(SessionFolder(self.path).page))
        return f'<iframe sandbox width="100%" height="720" srcdoc="{page}"></iframe>'

    @property
    def run(self) -> Path | None:
        """Training run of the best policy."""
        number = self.summary.best_iteration
        return None if number is None else self.path / f"iter_{number}" / "train"

    def policy(self) -> Policy:
        """Return the best policy at the checkpoint that was judged."""
        if self.run is None or self.summary.best_member is None:
            raise ValueError("This session trained no policy.")
        return load_policy(self.run / self.summary.best_member, self.summary.best_step)


def run_session(
    intent: str,
    *,
    env: str = ENV,
    runs_dir: str | Path = "runs",
    fresh: bool = False,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Session:
    """Turn an intent into a policy, or resume an interrupted session with an equal request.

    Args:
        intent: natural-language description of the task.
        env: environment id or path to an MJCF file.
        runs_dir: directory for session folders.
        fresh: whether to start a new session even if an interrupted one exists.
        on_event: function called with every event.
        should_stop: function that saves and stops the session by returning True.
        options: training, judging and budget settings, i.e. fields of `SessionConfig`.

    Raises:
        TelicError: the session failed. The message states the problem, cause and remedy.
    """
    config = SessionConfig.parse({"intent": intent, "env": located(env), **options})
    permit(*servers(config.model, *config.model_for.values()))
    if config.judge is not None:
        find_judge(config.judge)  # fail before spending any budget

    def is_same(path: Path) -> bool:
        # A changed budget does not make a new request. A branch is resumed by its name only.
        folder = SessionFolder(path)
        if folder.origin.exists():
            return False
        return read_record(folder.config, SessionConfig).terms == config.terms

    found = None if fresh else Workspace(Path(runs_dir)).unfinished("session", is_same)
    folder = SessionFolder(found or Path(runs_dir) / new_name("session"))
    try:
        return resume_session(folder, config, on_event=on_event, should_stop=should_stop)
    except (UsageError, Refused):
        # Remove the folder of a request that was refused before any work was done.
        if found is None and not has_begun(folder.path):
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def resume_session(
    folder: SessionFolder,
    request: SessionConfig | None = None,
    *,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> Session:
    """Run or resume a session with the request in its folder, or with `request` if given.

    The lock is acquired before any file is written, so no other process can modify the session.
    """
    with RunLock(folder.lock, folder.name):
        if request is not None:
            if not folder.config.exists():
                sign_folder(folder.path)
            write_json(folder.config, request)
        config = read_record(folder.config, SessionConfig)
        folder.stop.unlink(missing_ok=True)
        with JsonLines(folder.events) as log:

            def keep(event: Event) -> None:
                if not isinstance(event, TrainProgress | VideoProgress):
                    log.append(log_line(event))
                on_event(event)

            emit = MeasuredForecast(keep, config)
            account = SessionAccount(folder, config)
            control = SessionControl(folder, emit, should_stop, account)
            brief = _brief(config, folder, control, emit)  # may refuse the request
            emit(
                SessionStart(
                    session=folder.name,
                    path=str(folder.path),
                    intent=config.intent,
                    env=config.env,
                    resumed=folder.asked.exists(),
                )
            )
            for note in assumed(brief.spec):
                emit(LogMessage(message=note))
            ahead = compiling_ahead(config.env, {}, config.device)
            with ahead, prewarmed(WORKERS), ThreadPoolExecutor(1) as pool:
                pool.submit(_record_untrained, config, folder, emit)
                records = SessionJournal(folder, config.intent, config.env, config.terms)
                summary = _run_loop(SessionWork(brief, author_for(brief), control, records))
            account.save()
    return Session(folder.path, summary)


def _record_untrained(config: SessionConfig, folder: SessionFolder, emit: Listener) -> None:
    """Record an episode of an untrained network (shown until policies are evaluated)."""
    # These load numpy, while the workers are started.
    from telic.judges.failure_modes import UNTRAINED_NETWORK
    from telic.judges.recorder import UNTRAINED, RolloutSpec, record

    path = folder.untrained
    if path.exists():
        return
    order = RolloutSpec(
        policy=UNTRAINED,
        mode=UNTRAINED_NETWORK,
        env=config.env,
        env_args={},
        seed=0,
        paths=(str(path),),
    )
    path.parent.mkdir(exist_ok=True)
    try:
        record(order, path.parent)
    except TelicError as error:
        emit(LogMessage(message=f"no episode of an untrained network was recorded: {error}"))


def _brief(
    config: SessionConfig, folder: SessionFolder, control: SessionControl, emit: Listener
) -> Brief:
    # Reject devices that do not exist or cannot share a policy before anything is written.
    plan(config.env, seeds=config.seeds, device=config.device, devices=config.devices)
    env = make(config.env, num_envs=1)
    env.close()
    reference = motion.chosen(config, env.spec)
    return Brief(config, env.spec, folder, reference, emit, control.wants_stop)


def _run_loop(work: SessionWork) -> SessionSummary:
    """Run the session, or resume it after an interruption."""
    config, folder, control = work.config, work.folder, work.control
    work.records.begin()
    tries = _SessionParts(work, inherited(folder))
    try:
        wanted = work.records.step(folder.asked, MeasurableIntent, work.author.read)
        work.emit(wanted)
        if config.approve:
            agreed = control.approved(wanted.criteria, work.records)
            wanted = wanted.model_copy(update={"criteria": agreed})
        tries.written = work.records.step(folder.author, Composition, partial(_write, work, wanted))
        write_text(folder.judge, tries.written.judge)
        trial = read_record(folder.trial, JudgeValidation) if folder.trial.exists() else None
        if trial is not None and trial.untrusted:  # a pass by this judge would not be credible
            return _finish(work, tries, SessionOutcome("unproven", trial.untrusted))
        work.emit(session_forecast(config, tries.written.steps, folder.path.parent))
        loop = Loop(
            work.records, tries, iterations=config.iterations, safe_point=control.safe_point
        )
        if loop.run() == _PASSED:
            return _finish_passed(work, tries)
        return _finish(work, tries, SessionOutcome("not_passed"))
    except (SessionStopped, BudgetUsedUp, BudgetExceeded, Cancelled) as ended:
        return _finish(work, tries, SessionOutcome("stopped"), ended)


def _write(work: SessionWork, wanted: MeasurableIntent) -> Composition:
    """Let the author write a reward and a judge, which are validated on examples and corrected."""
    written = measured_by_host(work.author.write(wanted))
    for left in reversed(range(_REWRITES + 1)):
        trial = try_written(work.brief, written, is_probed=PROBED)
        work.records.write(work.folder.trial, trial)
        work.emit(trial)
        # The last correction is validated and reviewed, but trained without further changes.
        reviewed = work.author.review(written, trial, left > 0)
        reviewed = None if reviewed is None else measured_by_host(reviewed)
        is_same = reviewed is None or (reviewed.reward, reviewed.judge) == (
            written.reward,
            written.judge,
        )
        written = reviewed or written
        if is_same:
            break
    return written


class _SessionParts:
    """Steps of the session loop that tries one reward after another."""

    candidate_type, verdict_type = RewardCandidate, SessionIteration

    def __init__(self, work: SessionWork, history: list[SessionIteration]) -> None:
        self._work, self.history = work, history
        self.written: Composition | None = None
        self._began = 0.0

    def propose(self, number: int) -> RewardCandidate:
        """Return the next candidate (the author's first reward or a revision)."""
        work = self._work
        assert self.written is not None
        written, steps = self.written, work.config.steps or self.written.steps
        if self.history:
            notes = work.control.notes(number)
            revised = work.author.revise(self.history, tuple(note.text for note in notes))
            # The author must not change a requested number of steps.
            update = {"steps": work.config.steps or revised.steps}
            return _with_phase(revised.model_copy(update=update))
        variants: tuple[Variant, ...] = (Variant(),)
        if steps >= _WORTH_COMPARING and work.folder.trial.exists():
            # Also screen variants of a reward that ranks the examples differently than the judge.
            trial = read_record(work.folder.trial, JudgeValidation)
            variants = first_rewards(written, trial.examples, work.config.first_rewards)
        first = RewardCandidate(
            reward=written.reward,
            variants=variants,
            env_args=written.env_args,
            settings=written.settings,
            steps=steps,
        )
        return _with_phase(first)

    def check(self, number: int, candidate: RewardCandidate) -> None:
        """Announce the iteration. The trainer checks the reward before training."""
        write_text(self._work.folder.iteration(number).reward, candidate.reward)
        self._work.emit(SessionIterationStart(number=number, change=candidate.change))
        self._began = time.monotonic()

    def run(self, number: int, candidate: RewardCandidate) -> TrainedCandidate | TelicError:
        """Train a population with the reward, or return the error if training fails."""
        try:
            return train(self._work, number, candidate)
        except (RewardError, TrainingFailed) as error:
            self._work.emit(LogMessage(message=f"iteration {number} was not trained: {error}"))
            return error

    def judge(
        self, number: int, candidate: RewardCandidate, result: TrainedCandidate | TelicError
    ) -> SessionIteration:
        """Judge the policies on fresh episodes."""
        work = self._work
        if isinstance(result, TelicError):
            return untrained(work, number, candidate, result, time.monotonic() - self._began)
        used = text_hash(read_text(work.folder.judge))
        iteration = with_hashes(work, judge(work, number, result), used)
        divergences = alarms(work.folder.iteration(number), iteration)
        return iteration.model_copy(update={"alarms": divergences})

    def decide(
        self, number: int, candidate: RewardCandidate, verdict: SessionIteration
    ) -> str | None:
        """End the session at the first iteration that passes."""
        self.history.append(verdict)
        account = self._work.control.account
        self._work.emit(verdict)
        account.save()
        self._work.emit(account.spending(number))
        return _PASSED if verdict.passed else None


def _with_phase(candidate: RewardCandidate) -> RewardCandidate:
    """Add the phase variable that a reward declares to the policies' observations."""
    sources = (candidate.reward, *(variant.reward for variant in candidate.variants))
    declared = [turns for source in sources if (turns := declared_phase(source)) is not None]
    phase = {"phase_hz": declared[0]} if declared else {}
    return candidate.model_copy(update={"env_args": {**candidate.env_args, **phase}})


def _finish_passed(work: SessionWork, tries: _SessionParts) -> SessionSummary:
    """End a session whose last iteration passed. Renders videos during certification."""
    passed, written, config = tries.history[-1], tries.written, work.config
    candidate = read_record(work.folder.iteration(passed.number).candidate, RewardCandidate)
    assert passed.best_member is not None and written is not None  # guaranteed by a pass
    where = config.env, candidate.env_args
    troubles: list[str] = []
    # Leaving the context waits for the renderer, so that no two writers touch the same files.
    with ThreadPoolExecutor(1) as pool:
        drawing = pool.submit(
            draw_pictures, work.folder, passed.number, passed.best_member, where, troubles.append
        )

        def is_drawn(best: SessionIteration | None) -> bool:
            # A branch may deliver a policy of the session it started from.
            return drawing.exception() is None and not troubles and best is passed

        certificate = Certifier(work, written, passed).certificate()
        write_json(work.folder.certificate, certificate)
        doubts = (
            *vetoed_before(work.folder),
            *doubts_of_pass(config, passed),
            *_open_objections(written, reward_text(candidate, passed.variant)),
            *certificate.doubts,
        )
        one_seed = (ONE_SEED,) if len(config.seeds) == 1 else ()
        ending = ending_of_pass(
            doubts,
            (*written.not_understood, *written.dropped),
            (*one_seed, *certificate.limits),
            accept_partial=config.accept_partial,
        )
        return _finish(work, tries, ending, is_drawn=is_drawn)


def _open_objections(written: Composition, reward: str) -> tuple[str, ...]:
    """Return the reviewers' open objections to the judge and the reward."""
    is_first = program_text(reward) == program_text(written.reward)
    return tuple(
        f"a reviewer's objection to the {each.about} is open: {each.text}"
        for each in written.objections
        if each.withdrawn is None and (each.about == "judge" or is_first)
    )


def _finish(
    work: SessionWork,
    tries: _SessionParts,
    ending: SessionOutcome,
    ended: TelicError | None = None,
    is_drawn: Callable[[SessionIteration | None], bool] = lambda best: False,
) -> SessionSummary:
    """Write the summary and the report of the session, then record its end."""
    folder, config, written, history = work.folder, work.config, tries.written, tries.history
    best = handed_out(history)
    member = best.best_member if best else None
    judgment = member.judgment if member else None
    spent = work.control.account.spending()
    summary = SessionSummary(
        session=folder.name,
        intent=config.intent,
        env=config.env,
        outcome=ending.outcome,
        reason=None if ended is None else str(ended),
        out_of_budget=isinstance(ended, BudgetUsedUp | BudgetExceeded),
        iterations=len(history),
        best_iteration=best.number if best else None,
        best_member=best.best if best else None,
        best_step=member.step if member else None,
        score=judgment.score if judgment else None,
        low=judgment.low if judgment else None,
        passing=judgment.passing if judgment else None,
        episodes=judgment.episodes if judgment else None,
        start_seed=start_seed(work),
        steps=spent.steps,
        seconds=spent.seconds,
        not_understood=written.not_understood if written else (),
        doubts=written.doubts if written else (),
        reasons=ending.reasons,
        limits=ending.limits,
    )
    if ending.outcome == "unproven":
        summary = summary.model_copy(update={"low": None})
    if ending.outcome != "stopped":
        work.author.analyze(history, outcome_words(ending.outcome), ending.reasons)
        close_orders(folder.path / ORDERS, "the session has ended.")
    robustness_card(folder, config, summary, work.emit)
    save_report(folder, config, written, history, summary, work.emit, redraws=not is_drawn(best))
    # Record the end last: a session killed before this line resumes and writes its report.
    policy = (
        None if best is None or best.best is None else (best.number, best.best, summary.best_step)
    )
    record_end(folder, summary, policy)
    proven = verified(folder)
    if proven.outcome != summary.outcome:  # without a key, a pass is only a claim
        rewrite_report(folder, redraws=False)
    return proven
