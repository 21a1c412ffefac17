"""Revise a judge that is persistently contradicted, and score recorded episodes again.

Pictures contradict a judge's code in one iteration after another, or people's labels do. Then its
author is asked for another one, if it can write one. The new judge must pass the same validation as
the first. Recorded episodes are scored by it, so that later revisions start from scores of one
kind. An iteration can lose a pass by that and never gain one: its episodes are not fresh for a
judge that was written after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from telic.authors.author import try_written
from telic.authors.candidate import RewardCandidate, SessionIteration, read_candidates
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
"""share of people's labels that must agree with a judge"""
_REVISIONS = 2
"""maximum number of judge revisions of a session"""


@runtime_checkable
class JudgeReviser(Protocol):
    """An author that can write another judge for the same criteria."""

    def revise_judge(self, written: Composition, problems: Sequence[str]) -> str | None:
        """Return the source of a judge that fixes the problems; None: keep the present one."""
        ...


class JudgeRevision(Record):
    """The outcome of doubts about the judge, before an iteration."""

    schema_version: int = 1
    doubts: tuple[str, ...]
    taken: bool
    """whether the judge was replaced"""
    problems: tuple[str, ...] = ()
    """what the validation found wrong with the new one"""


def reconsidered(
    work: SessionWork, number: int, written: Composition, history: list[SessionIteration]
) -> tuple[Composition, list[SessionIteration]]:
    """Return what is written and what was tried, after a doubted judge was revised."""
    folder, path = work.folder, work.folder.iteration(number).judge_revision
    if not path.exists():
        seen = [each.judge_doubted for each in history[-_PERSISTENT:] if each.judge_doubted]
        doubts = seen[-1:] if len(seen) == _PERSISTENT else []
        people = calibration_of(folder, work.config.threshold)
        if people.labels >= HANDFUL and people.agreeing < _AGREEING * people.labels:
            doubts.append(people.words)
        is_begun = folder.iteration(number).candidate.exists()
        if is_begun or not doubts or not isinstance(work.author, JudgeReviser):
            return written, history
        earlier = [folder.iteration(each).judge_revision for each in folder.iterations()]
        taken = [read_record(each, JudgeRevision).taken for each in earlier if each.exists()]
        if sum(taken) >= _REVISIONS:
            return written, history
        revise = partial(_revise, work, work.author, written, history, tuple(doubts))
        work.records.step(path, JudgeRevision, revise)
    again = [
        read_record(folder.iteration(each.number).judgment, SessionIteration) for each in history
    ]
    return read_record(folder.author, Composition), again


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
        work.emit(LogMessage(message=f"the judge is kept: {trial.judge_problems[0]}"))
        return JudgeRevision(doubts=doubts, taken=False, problems=trial.judge_problems)
    candidates = read_candidates(work.folder, history)
    for iteration in history:
        again = _scored_again(work, iteration, candidates[iteration.number], text)
        work.records.write(work.folder.iteration(iteration.number).judgment, again)
        old, new = ("unknown" if x.score is None else f"{x.score:.2f}" for x in (iteration, again))
        words = f"iteration {iteration.number} by the revised judge: score {new}, was {old}"
        work.emit(LogMessage(message=words))
    work.records.write(work.folder.trial, trial)
    write_text(work.folder.judge, text)
    # Last: a session that is killed before resumes with the judge as it was.
    work.records.write(work.folder.author, better)
    return JudgeRevision(doubts=doubts, taken=True)


def _scored_again(
    work: SessionWork, iteration: SessionIteration, candidate: RewardCandidate, judge: str
) -> SessionIteration:
    """Return an iteration with its recorded episodes scored by another judge."""
    if not iteration.members:
        return iteration
    files, where = work.folder.iteration(iteration.number), (work.config.env, candidate.env_args)
    scores = list(iteration.members)
    for place, score in enumerate(scores):
        old = score.judgement.verdicts
        paths = [files.episode(score.member, index) for index in range(len(old))]
        whole = [
            path
            for path, verdict in zip(paths, old, strict=True)
            if verdict.recording and is_unchanged(RecordedFile(path, verdict.recording))
        ]
        found = judge_files(judge, whole, files.judged_dir / "judge", where)
        new = dict(zip(whole, found, strict=True))
        verdicts = [
            new[path].model_copy(update={"recording": verdict.recording})
            if path in new
            else unknown("code", f"{path.name} was changed after it was recorded")
            for path, verdict in zip(paths, old, strict=True)
        ]
        scores[place] = with_verdicts(score, verdicts, work.config.threshold)
    decided = decide(work.config, iteration.number, candidate, scores)
    changes = {name: getattr(decided, name) for name in ("score", "scores", "best", "tags")}
    return iteration.model_copy(
        update={
            **changes,
            "members": decided.members,
            "passed": iteration.passed and decided.passed,
            "judge_doubted": None,
        }
    )
