"""The story of a session as prompts show it: its iterations, and lessons of earlier sessions.

Everything is read from the records of finished iterations, so "change, then outcome" is right by
construction.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from statistics import fmean
from typing import Literal, NamedTuple

from telic.authors.answers import Look
from telic.authors.candidate import (
    Lesson,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    latest_lessons,
    read_candidates,
    reward_text,
    structure_text,
    weights_in,
    worth,
)
from telic.authors.request import SessionConfig
from telic.authors.scene import table
from telic.core.config import Record
from telic.envs import make
from telic.errors import TelicError, UsageError
from telic.judges.episode import RecordedEpisode
from telic.judges.validation import Trial
from telic.judges.verdict import WHOLE, Disagreement
from telic.storage.files import read_record
from telic.storage.layout import MemberFolder, SessionFolder, list_sessions
from telic.storage.scalars import read_rows
from telic.storage.trajectories import read_trajectory

_NOTICED = 0.02
"""change of the score that counts as one"""
_STUCK_AFTER = 3
"""iterations without a new best after which another approach is asked for"""
_MET = 0.9
"""credit from which a criterion is no longer lacking"""
_ROWS = 12
_MOST = 12
"""lessons of earlier sessions that are shown"""
_DISPUTES = 3
"""disagreements between code and pictures that are shown"""
_LOOKED_AT = 50
"""earlier sessions that are looked at for them"""
_CURVES = ("episodic_return", "episode_length", "entropy", "approx_kl", "explained_variance")


class SessionHistory(NamedTuple):
    """What a session has tried, for its reviser."""

    folder: SessionFolder
    history: list[SessionIteration]
    candidates: dict[int, RewardCandidate]

    @classmethod
    def of(cls, folder: SessionFolder, history: list[SessionIteration]) -> SessionHistory:
        """Read what was tried."""
        return cls(folder, history, read_candidates(folder, history))

    @property
    def best(self) -> SessionIteration:
        """The iteration with the highest score, the first of equals."""
        return max(self.history, key=worth)

    def text(self, threshold: float, notes: Sequence[str] = (), most: int | None = None) -> str:
        """Return the whole story; `most` is how many iterations there may be."""
        latest = self.history[-1]
        parts = [
            "### Iterations\n\n" + "\n".join(self._line(iteration) for iteration in self.history),
            f"A policy passes when it proves {threshold:g}. Best so far: iteration "
            f"{self.best.number}.{_tries_left(latest.number, most)}",
            f"### What iteration {latest.number} earned\n\n{judgement_text(latest)}",
        ]
        if self.best.number != latest.number:
            parts.append(
                f"### What iteration {self.best.number} earned\n\n{judgement_text(self.best)}"
            )
        parts.append(f"### Reward of iteration {self.best.number}\n\n{self._code(self.best)}")
        if lessons := self.lessons():
            told = "\n".join(f"- {lesson.tier}: {lesson.text}" for lesson in lessons)
            parts.append(f"### Lessons so far\n\n{told}")
        if self.is_stuck:
            parts.append(
                f"### Stuck\n\nNo new best for {latest.number - self.best.number} iterations. "
                "Small changes do not help any more: try another structure of the reward, or "
                "another iteration to start from. Hard lessons hold; others may be challenged."
            )
        if notes:
            told = "\n".join(f"- {note}" for note in notes)
            parts.append(f"### What people said, to be followed\n\n{told}")
        return "\n\n".join(parts)

    @property
    def is_stuck(self) -> bool:
        """Whether the last iterations brought nothing new."""
        return self.history[-1].number - self.best.number >= _STUCK_AFTER

    def lessons(self) -> tuple[Lesson, ...]:
        """Return the lessons in force, a repeated text with its latest tier."""
        return latest_lessons(self.candidates[number] for number in sorted(self.candidates))

    def outcome(self, iteration: SessionIteration) -> str:
        """Return what a change led to, against the iteration it was made from."""
        parent = next(
            (earlier for earlier in self.history if earlier.number == iteration.parent), None
        )
        if parent is None or parent.score is None or iteration.score is None:
            return ""
        gain = iteration.score - parent.score
        word = "better" if gain > _NOTICED else "worse" if gain < -_NOTICED else "no effect"
        return f"{word} than {parent.number} by {gain:+.2f}"

    def _line(self, iteration: SessionIteration) -> str:
        proven = ", ".join(_known(member.judgement.low) for member in iteration.members)
        steps = sorted({member.step for member in iteration.members})
        judged = f", judged at {' and '.join(f'{step:,}' for step in steps)}" if steps else ""
        facts = [
            f"{iteration.number}. from {iteration.parent or 'nothing'}: {iteration.change}",
            f"score {_known(iteration.score)} (proven by seed: {proven})",
            f"lacking: {', '.join(iteration.tags) or 'nothing'}",
            f"{self.candidates[iteration.number].steps:,} steps planned{judged}",
        ]
        if outcome := self.outcome(iteration):
            facts.insert(2, outcome)
        if iteration.failure:
            facts.append(f"could not be trained: {iteration.failure}")
        if iteration.judge_doubted:
            facts.append(f"the judge is in doubt: {iteration.judge_doubted}")
        return "; ".join((*facts, *iteration.alarms, *iteration.unjudged))

    # ---- closer looks

    def show(self, look: Look) -> str:
        """Answer a look."""
        iteration = self.find(look.iteration)
        match look.at:
            case "code":
                return self._code(iteration)
            case "difference":
                return self._difference(iteration, self.find(look.other))
            case "judgement":
                return judgement_text(iteration)
            case "curves":
                return self._curves(iteration)
            case "episode":
                return self._episode(iteration, look.quantity)
            case "examples":
                return table(read_record(self.folder.trial, Trial))

    def find(self, number: int | None) -> SessionIteration:
        """Return an iteration by its number, the latest without one; raises UsageError."""
        if number is None:
            return self.history[-1]
        for iteration in self.history:
            if iteration.number == number:
                return iteration
        raise UsageError(f"There is no finished iteration {number}.")

    def _code(self, iteration: SessionIteration) -> str:
        candidate = self.candidates[iteration.number]
        text = structure_text(candidate, iteration.variant)
        weights = weights_in(reward_text(candidate, iteration.variant))
        facts = [
            f"weights used: {weights}",
            f"environment: {candidate.env_args}",
            f"settings: {candidate.settings or 'the preset'}",
        ]
        return f"```python\n{text}\n```\n\n" + "; ".join(facts)

    def _difference(self, one: SessionIteration, other: SessionIteration) -> str:
        older, newer = sorted((one, other), key=lambda iteration: iteration.number)
        lines = difflib.unified_diff(
            structure_text(self.candidates[older.number], older.variant).splitlines(),
            structure_text(self.candidates[newer.number], newer.variant).splitlines(),
            f"iteration {older.number}",
            f"iteration {newer.number}",
            lineterm="",
        )
        scores = " and ".join(
            f"{iteration.number}: {_known(iteration.score)}" for iteration in (older, newer)
        )
        return f"Scores {scores}.\n\n```diff\n{chr(10).join(lines)}\n```"

    def _best_of(self, iteration: SessionIteration) -> MemberScore:
        if iteration.best_member is None:
            raise UsageError(f"Iteration {iteration.number} has no policy: {iteration.failure}")
        return iteration.best_member

    def _curves(self, iteration: SessionIteration) -> str:
        run = self.folder.iteration(iteration.number).run
        member = MemberFolder(run.path / self._best_of(iteration).member)
        rows = list(read_rows(member.scalars, "train"))
        if not rows:
            return "Nothing was recorded."
        size = -(-len(rows) // _ROWS)
        terms = [name for name in rows[-1] if name.startswith("reward_term_")]
        names = [
            name for name in (*_CURVES, *terms) if any(row.get(name) is not None for row in rows)
        ]
        head = f"| step | {' | '.join(names)} |\n|---|{'---|' * len(names)}"
        body = [
            f"| {group[-1]['global_step']:,} | "
            + " | ".join(_mean([row.get(name) for row in group]) for name in names)
            + " |"
            for group in (rows[start : start + size] for start in range(0, len(rows), size))
        ]
        return "\n".join([head, *body])

    def _episode(self, iteration: SessionIteration, quantity: str | None) -> str:
        if quantity is None:
            raise UsageError("Name the quantity to show over time.")
        member = self._best_of(iteration)
        path = self.folder.iteration(iteration.number).episode(member.member, member.median_episode)
        asked = (
            read_record(self.folder.config, SessionConfig).env,
            self.candidates[iteration.number].env_args,
        )
        trajectory = read_trajectory(path, asked)
        env = make(asked[0], num_envs=1, **asked[1])
        episode = RecordedEpisode(trajectory, env.spec)
        env.close()
        values = episode[quantity]
        stride = max(1, len(episode) // (2 * _ROWS))
        shown = [
            f"{step * episode.dt:.2f} s: {_value(values[step])}"
            for step in range(0, len(episode), stride)
        ]
        return (
            f"{quantity}, {episode.seconds:.2f} s of {episode.full_seconds:.2f} s\n\n"
            + "\n".join(shown)
        )


def judgement_text(iteration: SessionIteration) -> str:
    """Return what each policy earned, criterion by criterion."""
    best = iteration.best_member
    if best is None:
        return f"There is no policy to judge: {iteration.failure}"
    rows = [_row(best, title, *leaf) for title, leaf in best.judgement.leaves.items()]
    disputes = [
        _dispute(dispute)
        for verdict in best.judgement.verdicts
        for dispute in verdict.disagreements
    ]
    shown = "\n".join(dict.fromkeys(disputes[:_DISPUTES]))
    told = f"\n\nWhere measuring and looking disagree:\n\n{shown}\n" if disputes else ""
    return (
        "| criterion | counts | nothing at | all at | measured (median) | credit |\n"
        "|---|---|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n\nBy policy, with what it lacks:\n\n"
        + "\n".join(map(_policy, iteration.members))
        + f"\n{told}{_unjudged(best)}"
    )


def _policy(member: MemberScore) -> str:
    lacking = (
        f"{title} {'not measured' if value is None else f'{value:.3g}'} earns {credit:.0%}"
        for title, (credit, value) in member.judgement.leaves.items()
        if credit < _MET
    )
    return f"- {member.member}: {'; '.join((_known(member.judgement.score), *lacking))}"


def _dispute(dispute: Disagreement) -> str:
    """Say what code measured, what was seen, and what a second look made of it."""
    what = "the whole" if dispute.criterion == WHOLE else dispute.criterion
    when = (
        ""
        if dispute.start_s is None or dispute.end_s is None
        else f" ({dispute.start_s:.2f} s to {dispute.end_s:.2f} s)"
    )
    again = "" if dispute.asked_again is None else f", {dispute.asked_again:.2f} at a second look"
    return (
        f"- {what}{when}: measured {dispute.code:.2f} ({dispute.measured}); seen "
        f"{dispute.vision:.2f}{again} ({dispute.seen})"
    )


def _row(member: MemberScore, title: str, credit: float, value: float | None) -> str:
    """Return a criterion as a row: how it counts, where its credit begins and is full, and it."""
    verdicts = member.judgement.verdicts
    own = [leaf for verdict in verdicts for leaf in verdict.leaves if leaf.title == title]
    leaf, waits = own[0], sum(leaf.waits for leaf in own)
    counts = "multiplies all" if leaf.is_guard else f"weight {leaf.weight:g}"
    why = f" (in {waits} of {len(own)} it does not count: what must come first is lacking)"
    return (
        f"| {title} | {counts} | {leaf.zero:g} {leaf.unit} | {leaf.goal:g} {leaf.unit} | "
        f"{'–' if value is None else f'{value:.3g}'} | {credit:.0%}{why if waits else ''} |"
    )


def _tries_left(done: int, most: int | None) -> str:
    if most is None:
        return ""
    left = most - done
    if left <= 1:
        return " This revision is the last one that will be tried: take what is surest."
    return f" {left} more rewards may be tried, this one included."


def _unjudged(member: MemberScore) -> str:
    reasons = {verdict.reason for verdict in member.judgement.verdicts if verdict.score is None}
    if not reasons:
        return ""
    return (
        f"\n\nNot judged, which says nothing about the reward: {member.judgement.unknown} of "
        f"{member.judgement.episodes} episodes ({'; '.join(sorted(filter(None, reasons)))})."
    )


def _known(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"


def _mean(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{fmean(numbers):.3g}" if numbers else "–"


def _value(value: object) -> str:
    try:
        return f"{float(value):.3g}"  # type: ignore[arg-type]
    except TypeError:
        return " ".join(f"{number:.3g}" for number in value)  # type: ignore[union-attr]


class RememberedLesson(Record):
    """A lesson of another session."""

    session: str
    intent: str
    lesson: Lesson


class LessonMemory(Record):
    """Lessons of other sessions, those of the most similar intents first."""

    schema_version: Literal[1] = 1
    lessons: tuple[RememberedLesson, ...] = ()

    def text(self) -> str:
        """Return the lessons as a section of a prompt; empty if there are none."""
        if not self.lessons:
            return ""
        lines = [
            f"- {remembered.lesson.text} (from “{remembered.intent}”)"
            for remembered in self.lessons
        ]
        head = "## Learned in earlier sessions with this robot, true or not for this intent"
        return "\n".join([head, "", *lines])


def recall(folder: SessionFolder, env: str, intent: str) -> LessonMemory:
    """Look up what finished sessions beside this one learned in the same environment.

    It is looked up once and recorded: other sessions go on meanwhile, and a question that changes
    when a session is resumed would be paid for twice.
    """
    best: dict[str, tuple[float, RememberedLesson]] = {}
    others = [other for other in list_sessions(folder.path.parent) if other.path != folder.path]
    for other in others[:_LOOKED_AT]:
        with suppress(TelicError):  # a damaged or older neighbour is no reason not to begin
            for remembered in _lessons_of(other, env):
                likeness = _likeness(remembered.intent, intent)
                if likeness > best.get(remembered.lesson.text, (-1.0,))[0]:
                    best[remembered.lesson.text] = likeness, remembered
    ranked = sorted(best.values(), key=lambda pair: -pair[0])
    valid = [remembered for _, remembered in ranked if remembered.lesson.tier != "retired"]
    return LessonMemory(lessons=tuple(valid[:_MOST]))


def _lessons_of(folder: SessionFolder, env: str) -> list[RememberedLesson]:
    request = read_record(folder.config, SessionConfig)
    if request.env != env or not folder.summary.exists():
        return []
    files = [folder.iteration(number).candidate for number in folder.iterations()]
    candidates = [read_record(path, RewardCandidate) for path in files if path.exists()]
    return [
        RememberedLesson(session=folder.name, intent=request.intent, lesson=lesson)
        for lesson in latest_lessons(candidates)
    ]


def _likeness(one: str, other: str) -> float:
    """Return the share of words that two intents have in common."""
    first, second = set(one.lower().split()), set(other.lower().split())
    return len(first & second) / max(1, len(first | second))
