"""What people say of a session's verdicts: labels of episodes, and vetoes.

    labels.jsonl    one line per label: this episode is, or is not, what I meant
    vetoes.jsonl    one line per veto: this verdict does not stand

Both are only ever added to. A label keeps what the judges had said of the episode, so a no for an
episode that passed is a disagreement on record, and all labels of one judge say together whether
its bar lies too low (`telic.judges.verdict`). A veto takes a pass away and cannot be taken
back: what was vetoed is tried again in a branch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from telic.authors.candidate import MemberScore, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.errors import BadFile, UnknownName, UsageError
from telic.judges.criteria import Composition
from telic.judges.verdict import LabelledScore, PersonCalibration, Verdict, calibrate
from telic.session.control import append_line, now, somebody
from telic.session.evidence import reseal
from telic.session.outcome import Outcome, outcome_words
from telic.session.records import SessionSummary
from telic.storage.files import (
    as_record,
    json_text,
    read_json_lines,
    read_record,
    write_text,
)
from telic.storage.layout import SessionFolder, list_sessions
from telic.storage.locks import RunLock
from telic.storage.reading import read_text

Speaker = Literal["person", "agent"]


class EpisodeLabel(Record):
    """One person's word on one episode, beside what the judges had said of it."""

    schema_version: Literal[1] = 1
    id: str
    time: str
    """UTC, ISO 8601"""
    author: str
    by: Speaker = "person"
    """an agent's labels are kept and exported, and change no score"""
    iteration: int
    member: str
    episode: int
    """from 1, as the report counts"""
    recording: str | None
    """SHA-256 of the episode's file; None: not known"""
    judge: str
    """SHA-256 of the judge's source"""
    is_wanted: bool
    why: str | None = None
    score: float | None
    """what the judges gave; None: they could not tell"""
    code: float | None
    vision: float | None
    threshold: float

    @property
    def passed(self) -> bool | None:
        """Whether the judges passed the episode; None: they could not tell."""
        return None if self.score is None else self.score >= self.threshold

    @property
    def disagrees(self) -> bool:
        """Whether judge and person differ on it."""
        return self.passed is not None and self.passed != self.is_wanted


class Veto(Record):
    """A verdict that does not stand, says somebody."""

    schema_version: Literal[1] = 1
    id: str
    time: str
    author: str
    by: Speaker = "person"
    why: str
    outcome: Outcome
    """what the session had come to"""
    judge: str | None = None
    """SHA-256 of the judge whose pass it was"""

    @property
    def words(self) -> str:
        """Say who vetoed what."""
        who = self.author if self.by == "person" else f"the agent {self.author}"
        return f"vetoed by {who} on {self.time[:10]}: {self.why}"


def add_label(
    folder: SessionFolder,
    is_wanted: bool,
    *,
    iteration: int | None = None,
    member: str | None = None,
    episode: str | None = None,
    why: str | None = None,
    author: str | None = None,
    by: Speaker = "person",
) -> EpisodeLabel:
    """Keep somebody's word on an episode.

    Args:
        folder: the session.
        is_wanted: whether the episode is what was meant.
        iteration: number of a judged iteration; None: the one with the best policy.
        member: policy of it; None: its best.
        episode: number from 1, or p10, median or p90; None: the median, which the report shows.
        why: what is right or wrong with it.
        author: who says so; None: who is at the keyboard.
        by: whether a person says so.
    """
    judged = _judged(folder, iteration)
    score = _policy(judged, member)
    number = _episode(score, episode)
    verdict = score.judgement.verdicts[number]
    label = EpisodeLabel(
        id=secrets.token_hex(4),
        time=now(),
        author=author or somebody(),
        by=by,
        iteration=judged.number,
        member=score.member,
        episode=number + 1,
        recording=verdict.recording,
        judge=judge_hash(folder),
        is_wanted=is_wanted,
        why=(why or "").strip() or None,
        score=verdict.score,
        code=_of(verdict, "code"),
        vision=_of(verdict, "vision"),
        threshold=read_record(folder.config, SessionConfig).threshold,
    )
    append_line(folder.labels, label)
    return label


def read_labels(folder: SessionFolder) -> list[EpisodeLabel]:
    """Return every label, in the order they were given."""
    rows = read_json_lines(folder.labels)
    return [as_record(row, EpisodeLabel, str(folder.labels)) for row in rows]


def standing(labels: Sequence[EpisodeLabel]) -> list[EpisodeLabel]:
    """Return the labels that count: who says something else of an episode later means that."""
    last = {(each.author, each.iteration, each.member, each.episode): each for each in labels}
    return list(last.values())


def calibration_of(folder: SessionFolder, threshold: float) -> PersonCalibration:
    """Return what people's labels of this judge say, given in any session of the same folder."""
    own = judge_hash(folder)
    rows = [
        LabelledScore(label.score, label.is_wanted)
        for session in {folder.path: folder, **_beside(folder)}.values()
        for label in standing(_readable(session))
        if label.judge == own and label.by == "person" and label.score is not None
    ]
    return calibrate(rows, threshold)


def _beside(folder: SessionFolder) -> dict[Path, SessionFolder]:
    return {other.path: other for other in list_sessions(folder.path.parent)}


def _readable(folder: SessionFolder) -> list[EpisodeLabel]:
    with suppress(BadFile):  # what somebody did to another session must not end this one
        return read_labels(folder)
    return []


def judge_hash(folder: SessionFolder) -> str:
    """Return what tells one judge from another."""
    return hashlib.sha256(read_text(folder.judge).encode()).hexdigest()


def label_rows(folders: Sequence[SessionFolder]) -> Iterator[dict[str, Any]]:
    """Yield a row per label for a data set of judges: what was asked, both scores, and the word."""
    for folder in folders:
        labels = read_labels(folder)
        if not labels:
            continue
        config = read_record(folder.config, SessionConfig)
        criteria = [] if not folder.author.exists() else _criteria(folder)
        for label in labels:
            yield {
                "session": folder.name,
                "intent": config.intent,
                "env": config.env,
                "criteria": criteria,
                "iteration": label.iteration,
                "member": label.member,
                "episode": label.episode,
                "episode_sha256": label.recording,
                "judge_sha256": label.judge,
                "code_score": label.code,
                "vision_score": label.vision,
                "score": label.score,
                "threshold": label.threshold,
                "label": "yes" if label.is_wanted else "no",
                "disagrees": label.disagrees,
                "why": label.why,
                "author": label.author,
                "by": label.by,
                "time": label.time,
            }


def _criteria(folder: SessionFolder) -> list[dict[str, Any]]:
    written = read_record(folder.author, Composition)
    return [criterion.model_dump(mode="json") for criterion in written.criteria]


def add_veto(
    folder: SessionFolder, why: str, author: str | None = None, by: Speaker = "person"
) -> Veto:
    """Take a session's pass away, on record; it stays away."""
    if not why.strip():
        raise UsageError("A veto needs a reason.", hint='For example: --why "it slides"')
    if not folder.summary.exists():
        raise UsageError(
            f"{folder.name} has no verdict yet.",
            hint='To say something to it: telic note "less bouncing please"',
        )
    with RunLock(folder.lock, folder.name):
        summary = read_record(folder.summary, SessionSummary)  # as it was claimed
        if summary.outcome in ("not_passed", "stopped"):
            raise UsageError(
                f"{folder.name} {outcome_words(summary.outcome)}: there is no pass to veto.",
                hint=f"Label an episode instead: telic label no --session {folder.name}",
            )
        veto = Veto(
            id=secrets.token_hex(4),
            time=now(),
            author=author or somebody(),
            by=by,
            why=why.strip(),
            outcome=summary.outcome,
            judge=judge_hash(folder) if folder.judge.exists() else None,
        )
        # The summary first: if somebody is killed between the two, the pass is gone all the same.
        reasons = (veto.words, *summary.reasons)
        changed = summary.as_unproven().model_copy(update={"reasons": reasons})
        text = json_text(changed)
        reseal(folder, text)
        write_text(folder.summary, text)
        append_line(folder.vetoes, veto)
    return veto


def read_vetoes(folder: SessionFolder) -> list[Veto]:
    """Return every veto, in the order they were given."""
    return [as_record(row, Veto, str(folder.vetoes)) for row in read_json_lines(folder.vetoes)]


def vetoed_before(folder: SessionFolder) -> tuple[str, ...]:
    """Return why people vetoed passes of this very judge, in any session of the same folder.

    Otherwise asking for the same again would undo a veto: the same judge passes the same policies.
    """
    own = judge_hash(folder)
    said: list[str] = []
    for session in _beside(folder).values():
        with suppress(BadFile):
            said += [
                f"a pass of the same judge in {session.name} was {veto.words}"
                for veto in read_vetoes(session)
                if veto.judge == own and veto.by == "person"
            ]
    return tuple(said)


def _judged(folder: SessionFolder, iteration: int | None) -> SessionIteration:
    """Return the iteration that is meant."""
    files = {number: folder.iteration(number).judgment for number in folder.iterations()}
    there = [number for number, file in files.items() if file.exists()]
    if iteration is not None and iteration not in there:
        raise UsageError(
            f"{folder.name} has no judged iteration {iteration}; "
            f"it has: {', '.join(map(str, there)) or 'none yet'}."
        )
    known = [read_record(files[number], SessionIteration) for number in there]
    trained = [each for each in known if each.members and iteration in (None, each.number)]
    if not trained:
        raise UsageError(
            f"{folder.name} has no judged episode to label yet.",
            hint="It has some after its first judgement; see: telic list",
        )
    return max(trained, key=lambda each: (each.passed, -1 if each.score is None else each.score))


def _policy(judged: SessionIteration, member: str | None) -> MemberScore:
    wanted = member or judged.best
    for score in judged.members:
        if score.member == wanted:
            return score
    raise UnknownName(
        f"policy of iteration {judged.number}",
        str(wanted),
        [each.member for each in judged.members],
    )


def _episode(score: MemberScore, episode: str | None) -> int:
    """Return which episode is meant, from 0."""
    from telic.session.pictures import choose_episodes  # with all that draws it

    verdicts = score.judgement.verdicts
    named = choose_episodes(verdicts) if verdicts else {}
    if (episode or "median") in named:
        return named[episode or "median"]
    if episode is not None and episode.isdigit() and 0 < int(episode) <= len(verdicts):
        return int(episode) - 1
    raise UsageError(
        f"{score.member} has no episode {episode or 'median'}.",
        hint=f"It has 1 to {len(verdicts)}; the report shows p10, median and p90."
        if verdicts
        else "None of its episodes was judged.",
    )


def _of(verdict: Verdict, judge: Literal["code", "vision"]) -> float | None:
    """Return one judge's own score of an episode."""
    if verdict.by_judge:
        return verdict.by_judge.get(judge)
    return verdict.score if verdict.source == judge else None
