"""The history of a session as prompts show it: its iterations, and lessons of earlier sessions.

Everything is read from the records of finished iterations, so "change, then outcome" is right by
construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any, Literal, NamedTuple

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
from telic.judges.verdict import WHOLE
from telic.storage.files import read_record
from telic.storage.layout import MemberFolder, SessionFolder, list_sessions
from telic.storage.scalars import read_rows
from telic.storage.trajectories import read_trajectory

_NOTICED = 0.02
"""change of the score that counts as one"""
_STUCK_AFTER = 3
"""iterations without a new best after which another approach is requested"""
_MET = 0.9
"""credit from which a criterion counts as met"""
_ROWS = 12
_MOST = 12
"""lessons of earlier sessions that are shown"""
_DISPUTES = 3
"""disagreements between code and pictures that are shown"""
_SEARCHED = 50
"""earlier sessions that are searched for lessons"""
_CURVES = ("episodic_return", "episode_length", "entropy", "approx_kl", "explained_variance")


class SessionHistory(NamedTuple):
    """The finished iterations of a session, for its reviser."""

    folder: SessionFolder
    history: list[SessionIteration]
    candidates: dict[int, RewardCandidate]

    @classmethod
    def of(cls, folder: SessionFolder, history: list[SessionIteration]) -> SessionHistory:
        """Read the candidates of finished iterations."""
        return cls(folder, history, read_candidates(folder, history))

    @property
    def best(self) -> SessionIteration:
        """The iteration with the highest score, the first of equals."""
        return max(self.history, key=worth)

    def find(self, number: int | None) -> SessionIteration:
        """Return an iteration by its number, the latest without one; raises UsageError."""
        if number is None:
            return self.history[-1]
        for iteration in self.history:
            if iteration.number == number:
                return iteration
        raise UsageError(f"Iteration {number} is not finished or does not exist.")

    def text(self, threshold: float, notes: Sequence[str] = (), most: int | None = None) -> str:
        """Return the history as Markdown; `most` is the maximum number of iterations."""
        latest, best = self.history[-1], self.best
        left = ""
        if most is not None and most - latest.number <= 1:
            left = " This revision is the last one that will be tried: prefer a safe change."
        elif most is not None:
            left = f" {most - latest.number} more rewards may be tried, this one included."
        parts = [
            "### Iterations\n\n" + "\n".join(self._line(iteration) for iteration in self.history),
            f"A policy passes when it proves {threshold:g}. Best so far: iteration "
            f"{best.number}.{left}",
        ]
        for number in dict.fromkeys((latest.number, best.number)):
            found = judgement_text(self.find(number))
            parts.append(f"### Scores of iteration {number}\n\n{found}")
        parts.append(f"### Reward of iteration {best.number}\n\n{self._code(best)}")
        lessons = latest_lessons(self.candidates[number] for number in sorted(self.candidates))
        if lessons:
            lines = "\n".join(f"- {lesson.tier}: {lesson.text}" for lesson in lessons)
            parts.append(f"### Lessons so far\n\n{lines}")
        if self.is_stuck:
            parts.append(
                f"### Stuck\n\nNo new best for {latest.number - best.number} iterations. "
                "Small changes no longer help: try another structure of the reward, or "
                "another iteration to start from. Hard lessons hold; others may be challenged."
            )
        if notes:
            lines = "\n".join(f"- {note}" for note in notes)
            parts.append(f"### Feedback from people, to be followed\n\n{lines}")
        return "\n\n".join(parts)

    @property
    def is_stuck(self) -> bool:
        """Return whether the last iterations brought no new best."""
        return self.history[-1].number - self.best.number >= _STUCK_AFTER

    def _line(self, iteration: SessionIteration) -> str:
        """Return an iteration in one line: its change, and what it led to."""
        proven = ", ".join(_known(member.judgement.low) for member in iteration.members)
        steps = sorted({member.step for member in iteration.members})
        judged = f", judged at {' and '.join(f'{step:,}' for step in steps)}" if steps else ""
        facts = [
            f"{iteration.number}. from {iteration.parent or 'nothing'}: {iteration.change}",
            f"score {_known(iteration.score)} (proven by seed: {proven})",
        ]
        parent = next((each for each in self.history if each.number == iteration.parent), None)
        if parent and parent.score is not None and iteration.score is not None:
            gain = iteration.score - parent.score
            word = "better" if gain > _NOTICED else "worse" if gain < -_NOTICED else "no effect"
            facts.append(f"{word} than {parent.number} by {gain:+.2f}")
        facts.append(f"failed: {', '.join(iteration.tags) or 'nothing'}")
        facts.append(f"{self.candidates[iteration.number].steps:,} steps planned{judged}")
        if iteration.failure:
            facts.append(f"could not be trained: {iteration.failure}")
        if iteration.judge_doubted:
            facts.append(f"the judge is in doubt: {iteration.judge_doubted}")
        return "; ".join((*facts, *iteration.alarms, *iteration.unjudged))

    # ---- closer looks

    def show(self, look: Look) -> str:
        """Answer a look."""
        iteration = self.find(look.iteration)
        if look.at == "code":
            return self._code(iteration)
        if look.at == "judgement":
            return judgement_text(iteration)
        if look.at == "examples":
            return table(read_record(self.folder.trial, Trial))
        best = iteration.best_member
        if best is None:
            raise UsageError(f"Iteration {iteration.number} has no policy: {iteration.failure}")
        if look.at == "curves":
            return self._curves(iteration, best)
        return self._episode(iteration, best, look.quantity)

    def _code(self, iteration: SessionIteration) -> str:
        candidate = self.candidates[iteration.number]
        text = structure_text(candidate, iteration.variant)
        weights = weights_in(reward_text(candidate, iteration.variant))
        return (
            f"```python\n{text}\n```\n\nweights used: {weights}; "
            f"environment: {candidate.env_args}; settings: {candidate.settings or 'the preset'}"
        )

    def _curves(self, iteration: SessionIteration, best: MemberScore) -> str:
        run = self.folder.iteration(iteration.number).run
        rows = list(read_rows(MemberFolder(run.path / best.member).scalars, "train"))
        if not rows:
            return "Nothing was recorded."
        terms = [name for name in rows[-1] if name.startswith("reward_term_")]
        names = [
            name for name in (*_CURVES, *terms) if any(row.get(name) is not None for row in rows)
        ]
        lines = [f"| step | {' | '.join(names)} |\n|---|{'---|' * len(names)}"]
        size = -(-len(rows) // _ROWS)
        for group in (rows[start : start + size] for start in range(0, len(rows), size)):
            cells: list[str] = []
            for name in names:
                known = [row[name] for row in group if row.get(name) is not None]
                cells.append(f"{fmean(known):.3g}" if known else "–")
            lines.append(f"| {group[-1]['global_step']:,} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def _episode(self, iteration: SessionIteration, best: MemberScore, quantity: str | None) -> str:
        if quantity is None:
            raise UsageError("Name the quantity to show over time.")
        path = self.folder.iteration(iteration.number).episode(best.member, best.median_episode)
        env_id = read_record(self.folder.config, SessionConfig).env
        env_args = self.candidates[iteration.number].env_args
        env = make(env_id, num_envs=1, **env_args)
        env.close()
        episode = RecordedEpisode(read_trajectory(path, (env_id, env_args)), env.spec)
        values: Any = episode[quantity]
        lines = [f"{quantity}, {episode.seconds:.2f} s of {episode.full_seconds:.2f} s\n"]
        for step in range(0, len(episode), max(1, len(episode) // (2 * _ROWS))):
            value = values[step]
            parts = value if getattr(value, "ndim", 0) else [value]
            shown = " ".join(f"{float(part):.3g}" for part in parts)
            lines.append(f"{step * episode.dt:.2f} s: {shown}")
        return "\n".join(lines)


def judgement_text(iteration: SessionIteration) -> str:
    """Return the scores of each policy, criterion by criterion."""
    best = iteration.best_member
    if best is None:
        return f"No policy was trained: {iteration.failure}"
    verdicts = best.judgement.verdicts
    lines = [
        "| criterion | counts | nothing at | all at | measured (median) | credit |",
        "|---|---|---|---|---|---|",
    ]
    for title, (credit, value) in best.judgement.leaves.items():
        own = [leaf for verdict in verdicts for leaf in verdict.leaves if leaf.title == title]
        leaf, waits = own[0], sum(leaf.waits for leaf in own)
        counts = "multiplies all" if leaf.is_guard else f"weight {leaf.weight:g}"
        why = f" (in {waits} of {len(own)} it does not count: what must come first is missing)"
        lines.append(
            f"| {title} | {counts} | {leaf.zero:g} {leaf.unit} | {leaf.goal:g} {leaf.unit} | "
            f"{'–' if value is None else f'{value:.3g}'} | {credit:.0%}{why if waits else ''} |"
        )
    lines += ["", "By policy, with its failed criteria:", ""]
    for member in iteration.members:
        failed = (
            f"{title} {'not measured' if value is None else f'{value:.3g}'} earns {credit:.0%}"
            for title, (credit, value) in member.judgement.leaves.items()
            if credit < _MET
        )
        lines.append(f"- {member.member}: {'; '.join((_known(member.judgement.score), *failed))}")
    disputes: dict[str, None] = {}
    for dispute in [each for verdict in verdicts for each in verdict.disagreements][:_DISPUTES]:
        what, when = "the whole" if dispute.criterion == WHOLE else dispute.criterion, ""
        if dispute.start_s is not None and dispute.end_s is not None:
            when = f" ({dispute.start_s:.2f} s to {dispute.end_s:.2f} s)"
        measured, seen = f"{dispute.code:.2f} ({dispute.measured})", f"{dispute.vision:.2f}"
        if dispute.asked_again is not None:
            seen += f", {dispute.asked_again:.2f} at a second look"
        disputes[f"- {what}{when}: measured {measured}; seen {seen} ({dispute.seen})"] = None
    if disputes:
        lines += ["", "Where code and vision disagree:", "", *disputes]
    reasons = {verdict.reason for verdict in verdicts if verdict.score is None}
    if reasons:
        count = f"{best.judgement.unknown} of {best.judgement.episodes} episodes"
        why = "; ".join(sorted(filter(None, reasons)))
        lines += ["", f"Not judged, which says nothing about the reward: {count} ({why})."]
    return "\n".join(lines)


def _known(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"


# ---- lessons of earlier sessions


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
        head = "## Lessons of earlier sessions with this robot, true or not for this intent"
        lines = [f"- {each.lesson.text} (from “{each.intent}”)" for each in self.lessons]
        return "\n".join([head, "", *lines])


def recall(folder: SessionFolder, env: str, intent: str) -> LessonMemory:
    """Look up the lessons of finished sessions next to this one in the same environment.

    It is looked up once and recorded: other sessions continue meanwhile, and a question that
    changes when a session is resumed would be paid for twice.
    """
    best: dict[str, tuple[float, RememberedLesson]] = {}
    own = set(intent.lower().split())
    others = [other for other in list_sessions(folder.path.parent) if other.path != folder.path]
    for other in others[:_SEARCHED]:
        with suppress(TelicError):  # a damaged or older session is skipped
            request = read_record(other.config, SessionConfig)
            if request.env != env or not other.summary.exists():
                continue
            files = [other.iteration(number).candidate for number in other.iterations()]
            candidates = [read_record(path, RewardCandidate) for path in files if path.exists()]
            words = set(request.intent.lower().split())
            similarity = len(own & words) / max(1, len(own | words))
            for lesson in latest_lessons(candidates):
                if similarity > best.get(lesson.text, (-1.0,))[0]:
                    found = RememberedLesson(
                        session=other.name, intent=request.intent, lesson=lesson
                    )
                    best[lesson.text] = similarity, found
    ranked = sorted(best.values(), key=lambda pair: -pair[0])
    valid = [remembered for _, remembered in ranked if remembered.lesson.tier != "retired"]
    return LessonMemory(lessons=tuple(valid[:_MOST]))
