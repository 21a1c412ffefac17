"""Revise a judge that is persistently contradicted, and score recorded episodes again.

Pictures contradict a judge's code in one iteration after another, or people's labels do. Then its
author is asked for another one, if it can write one. The new judge must pass the same validation as
the first. Episodes recorded so far are scored by it, so that what comes next starts from scores of
one kind. An iteration can lose a pass by that and never gain one: its episodes are not fresh for a
judge that was written after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from telic.authors.author import try_written
from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration, read_candidates
from telic.core.config import Record
from telic.core.events import LogMessage
from telic.judges.code import judge_files
from telic.judges.criteria import Composition
from telic.judges.recorder import RecordedFile, is_unchanged
from telic.judges.verdict import HANDFUL, unknown
from telic.session.control import SessionWork
from telic.session.judgement import decide, with_verdicts
from telic.session.labels import calibration_of
from telic.storage.files import read_record, write_text

_PERSISTENT = 2
"""iterations in a row whose pictures contradict the judge"""
_AGREEING = 0.7
"""share of people's labels below which a judge is not what they mean"""
_REVISIONS = 2
"""times that a session may change its judge"""


@runtime_checkable
class JudgeReviser(Protocol):
    """An author that can write another judge for the same criteria."""

    def revise_judge(self, written: Composition, problems: Sequence[str]) -> str | None:
        """Return the text of a judge that answers what contradicts this one; None: leave it."""
        ...


class JudgeRevision(Record):
    """The outcome of doubts about the judge, before an iteration."""

    schema_version: int = 1
    doubts: tuple[str, ...]
    taken: bool
    """whether there is another judge now"""
    problems: tuple[str, ...] = ()
    """what the validation found wrong with the new one"""


def reconsidered(
    work: SessionWork, number: int, written: Composition, history: list[SessionIteration]
) -> tuple[Composition, list[SessionIteration]]:
    """Return what is written and what was tried, after a doubted judge was revised."""
    files = work.folder.iteration(number)
    if not files.judge_revision.exists():
        doubts = _doubts_about(work, history)
        is_begun = files.candidate.exists()
        if is_begun or not doubts or not isinstance(work.author, JudgeReviser):
            return written, history
        if _revisions(work) >= _REVISIONS:
            return written, history
        revise = partial(_revise, work, work.author, written, history, doubts)
        work.records.step(files.judge_revision, JudgeRevision, revise)
    again = [
        read_record(work.folder.iteration(iteration.number).judgment, SessionIteration)
        for iteration in history
    ]
    return read_record(work.folder.author, Composition), again


def _doubts_about(work: SessionWork, history: Sequence[SessionIteration]) -> tuple[str, ...]:
    """Return what persistently contradicts the judge: pictures, people, or nothing."""
    seen = [each.judge_doubted for each in history[-_PERSISTENT:] if each.judge_doubted]
    doubts = seen[-1:] if len(seen) == _PERSISTENT else []
    people = calibration_of(work.folder, work.config.threshold)
    if people.labels >= HANDFUL and people.agreeing < _AGREEING * people.labels:
        doubts.append(people.words)
    return tuple(doubts)


def _revisions(work: SessionWork) -> int:
    paths = [work.folder.iteration(number).judge_revision for number in work.folder.iterations()]
    return sum(read_record(path, JudgeRevision).taken for path in paths if path.exists())


def _revise(
    work: SessionWork,
    author: JudgeReviser,
    written: Composition,
    history: list[SessionIteration],
    doubts: tuple[str, ...],
) -> JudgeRevision:
    """Ask for another judge, validate it, and score what was recorded by it."""
    text = author.revise_judge(written, doubts)
    if text is None or text == written.judge:
        return JudgeRevision(doubts=doubts, taken=False)
    better = written.model_copy(update={"judge": text})
    trial = try_written(work.brief, better)
    if trial.judge_problems:
        work.tell(LogMessage(message=f"the judge stays as it is: {trial.judge_problems[0]}"))
        return JudgeRevision(doubts=doubts, taken=False, problems=trial.judge_problems)
    candidates = read_candidates(work.folder, history)
    for iteration in history:
        again = _scored_again(work, iteration, candidates[iteration.number], text)
        work.records.write(work.folder.iteration(iteration.number).judgment, again)
        old, new = ("unknown" if x.score is None else f"{x.score:.2f}" for x in (iteration, again))
        words = f"iteration {iteration.number} by the revised judge: score {new}, was {old}"
        work.tell(LogMessage(message=words))
    work.records.write(work.folder.trial, trial)
    write_text(work.folder.judge, text)
    # Last: a session that is killed before starts again with the judge as it was.
    work.records.write(work.folder.author, better)
    return JudgeRevision(doubts=doubts, taken=True)


def _scored_again(
    work: SessionWork, iteration: SessionIteration, candidate: RewardCandidate, judge: str
) -> SessionIteration:
    """Return an iteration with its recorded episodes scored by another judge."""
    if not iteration.members:
        return iteration
    scores = [_member_again(work, iteration, candidate, judge, each) for each in iteration.members]
    decided = decide(work.config, iteration.number, candidate, scores, 0.0, 0.0)
    kept = ("score", "scores", "best", "tags", "members")
    changes = {name: getattr(decided, name) for name in kept}
    return iteration.model_copy(
        update={**changes, "passed": iteration.passed and decided.passed, "judge_doubted": None}
    )


def _member_again(
    work: SessionWork,
    iteration: SessionIteration,
    candidate: RewardCandidate,
    judge: str,
    score: MemberScore,
) -> MemberScore:
    files, old = work.folder.iteration(iteration.number), score.judgement.verdicts
    paths = [files.episode(score.member, index) for index in range(len(old))]
    whole = [
        path
        for path, verdict in zip(paths, old, strict=True)
        if verdict.recording and is_unchanged(RecordedFile(path, verdict.recording))
    ]
    where = (work.config.env, candidate.env_args)
    again = judge_files(judge, whole, files.judged_dir / "judge", where)
    found = dict(zip(whole, again, strict=True))
    verdicts = [
        found[path].model_copy(update={"recording": verdict.recording})
        if path in found
        else unknown("code", f"{path.name} is not what its recorder wrote")
        for path, verdict in zip(paths, old, strict=True)
    ]
    return with_verdicts(score, verdicts, work.config.threshold)
