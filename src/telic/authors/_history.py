"""Render the history of a session for prompts.

The history is read from the records of finished iterations, so that each change is paired with its
actual outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from telic.authors.candidate import (
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
from telic.authors.footage import Footage
from telic.authors.request import SessionConfig
from telic.errors import TelicError
from telic.judges.criteria import Criterion
from telic.judges.episode import RecordedEpisode
from telic.judges.verdict import WHOLE
from telic.storage.files import read_fields, read_json_lines, read_record
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.scalars import read_rows

_NOTICED = 0.02
"""minimum change of the score that is reported as an effect"""
_STUCK_AFTER = 3
"""number of iterations without a new best after which a different approach is requested"""
_MET = 0.9
"""minimum credit at which a criterion counts as met"""
_ROWS = 12
_DISPUTES = 3
"""maximum number of listed disagreements between code and vision"""
_TERM = "reward_term_"
_CURVES = ("episodic_return", "episode_length", "entropy", "approx_kl", "explained_variance")


class SessionHistory(NamedTuple):
    """Finished iterations of a session, with their candidates."""

    folder: SessionFolder
    history: list[SessionIteration]
    candidates: dict[int, RewardCandidate]

    @classmethod
    def of(cls, folder: SessionFolder, history: list[SessionIteration]) -> SessionHistory:
        """Read the candidates of finished iterations."""
        return cls(folder, history, read_candidates(folder, history))

    @property
    def best(self) -> SessionIteration:
        """Iteration with the highest score. In case of a tie, this is the earliest iteration."""
        return max(self.history, key=worth)

    def find(self, number: int) -> SessionIteration:
        """Return a finished iteration by number."""
        return next(each for each in self.history if each.number == number)

    def text(
        self,
        threshold: float,
        notes: Sequence[str] = (),
        most: int | None = None,
        criteria: Sequence[Criterion] | None = None,
    ) -> str:
        """Return the history as Markdown.

        Args:
            threshold: score required to pass.
            notes: feedback from the user.
            most: maximum number of iterations.
            criteria: criteria for which details of the training are included, or None.
        """
        latest, best = self.history[-1], self.best
        left = ""
        if most is not None and most - latest.number <= 1:
            left = " This is the last revision: prefer a safe change."
        elif most is not None:
            left = f" {most - latest.number} rewards are left, including this one."
        parts = [
            "## Iterations\n\n" + "\n".join(self._line(iteration) for iteration in self.history),
            f"A policy passes if its lower bound reaches {threshold:g}. Best so far: iteration "
            f"{best.number}.{left}",
        ]
        for number in dict.fromkeys((latest.number, best.number)):
            found = judgment_text(self.find(number))
            parts.append(f"## Scores of iteration {number}\n\n{found}")
        if criteria is not None:
            for number in dict.fromkeys((best.number, latest.number)):
                code = self._code(self.find(number))
                parts.append(f"## Reward of iteration {number}\n\n{code}")
            if latest.best_member is not None:
                curves = self._curves(latest, latest.best_member)
                parts.append(f"## Training of iteration {latest.number}\n\n{curves}")
                parts += self._over_time(latest, latest.best_member, criteria)
        lessons = latest_lessons(self.candidates[number] for number in sorted(self.candidates))
        if lessons:
            lines = "\n".join(f"- {lesson.tier}: {lesson.text}" for lesson in lessons)
            parts.append(f"## Lessons so far\n\n{lines}")
        if latest.number - best.number >= _STUCK_AFTER:
            parts.append(
                f"## Stuck\n\nNo new best for {latest.number - best.number} iterations. Small "
                "changes no longer help: try a different reward structure, or start from a "
                "different iteration. Hard lessons hold; others may be challenged."
            )
        if notes:
            lines = "\n".join(f"- {note}" for note in notes)
            parts.append(f"## User feedback to follow\n\n{lines}")
        return "\n\n".join(parts)

    def _line(self, iteration: SessionIteration) -> str:
        """Summarize the change and result of an iteration in one line."""
        proven = ", ".join(_known(member.judgment.low) for member in iteration.members)
        steps = sorted({member.step for member in iteration.members})
        judged = f", judged at {' and '.join(f'{step:,}' for step in steps)}" if steps else ""
        facts = [
            f"{iteration.number}. from {iteration.parent or 'nothing'}: {iteration.change}",
            f"score {_known(iteration.score)} (lower bound by seed: {proven})",
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
            facts.append(f"judge doubtful: {iteration.judge_doubted}")
        return "; ".join((*facts, *iteration.alarms, *iteration.unjudged))

    def _code(self, iteration: SessionIteration) -> str:
        candidate = self.candidates[iteration.number]
        text = structure_text(candidate, iteration.variant)
        weights = weights_in(reward_text(candidate, iteration.variant))
        return (
            f"```python\n{text}\n```\n\nweights used: {weights}; "
            f"environment: {candidate.env_args}; settings: {candidate.settings or 'the preset'}"
        )

    def _curves(self, iteration: SessionIteration, best: MemberScore) -> str:
        """Summarize a training run: learning curves, reward terms, judge scores and warnings."""
        files = self.folder.iteration(iteration.number)
        member = MemberFolder(files.run.path / best.member)
        rows = list(read_rows(member.scalars, "train"))
        if not rows:
            return "Nothing was recorded."
        terms = [name for name in rows[-1] if name.startswith(_TERM)]
        names = [
            name for name in (*_CURVES, *terms) if any(row.get(name) is not None for row in rows)
        ]
        heads = " | ".join(name.removeprefix(_TERM) for name in names)
        lines = [f"| step | {heads} |\n|---|{'---|' * len(names)}"]
        size = -(-len(rows) // _ROWS)
        for group in (rows[start : start + size] for start in range(0, len(rows), size)):
            cells: list[str] = []
            for name in names:
                known = [row[name] for row in group if row.get(name) is not None]
                cells.append(f"{fmean(known):.3g}" if known else "–")
            lines.append(f"| {group[-1]['global_step']:,} | {' | '.join(cells)} |")
        lines[0] = f"Of {best.member}, the last {len(terms)} columns by reward term:\n\n{lines[0]}"
        scores = [
            f"{row['step']:,} steps {' '.join(map(_known, row['scores'].values()))}"
            for row in read_json_lines(files.checkpoints)
        ]
        lines += ["", f"Judge's score by seed at checkpoints: {'; '.join(scores)}."] * bool(scores)
        if member.summary.exists():
            kind = list[dict[str, Any]] | None
            findings = read_fields(member.summary, findings=kind)["findings"] or []
            lines += [f"Warning of the trainer: {finding['message']}" for finding in findings]
        return "\n".join(lines)

    def _over_time(
        self, iteration: SessionIteration, best: MemberScore, criteria: Sequence[Criterion]
    ) -> list[str]:
        """Return a section on the criteria's quantities over time in a policy's median episode."""
        path = self.folder.iteration(iteration.number).episode(best.member, best.median_episode)
        where = (
            read_record(self.folder.config, SessionConfig).env,
            self.candidates[iteration.number].env_args,
        )
        try:
            episode = Footage(path, path.parent / "looked", where)
        except TelicError:
            return []  # the recording was deleted
        names = list(dict.fromkeys(filter(None, map(episode.quantity_of, criteria))))
        if not names:
            return []
        view = RecordedEpisode(episode.trajectory, episode.spec)
        lines = [f"| s | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
        for step in range(0, len(view), max(1, len(view) // _ROWS)):
            cells = [
                " ".join(f"{part:.3g}" for part in np.atleast_1d(view[name][step]).tolist())
                for name in names
            ]
            lines.append(f"| {(step + 1) * view.dt:.2f} | {' | '.join(cells)} |")
        title = f"## Median episode of {best.member}, {view.seconds:g} of {view.full_seconds:g} s"
        return [f"{title}\n\n" + "\n".join(lines)]


def judgment_text(iteration: SessionIteration) -> str:
    """Return the scores of each policy by criterion as Markdown."""
    best = iteration.best_member
    if best is None:
        return f"No policy was trained: {iteration.failure}"
    verdicts = best.judgment.verdicts
    lines = [
        "| criterion | counts | nothing at | all at | measured (median) | credit |",
        "|---|---|---|---|---|---|",
    ]
    for title, (credit, value) in best.judgment.criteria.items():
        own = [row for verdict in verdicts for row in verdict.criteria if row.title == title]
        row, waits = own[0], sum(row.waits for row in own)
        counts = "multiplies all" if row.is_guard else f"weight {row.weight:g}"
        why = f" (not counted in {waits} of {len(own)}: an earlier phase was not completed)"
        lines.append(
            f"| {title} | {counts} | {row.zero:g} {row.unit} | {row.goal:g} {row.unit} | "
            f"{'–' if value is None else f'{value:.3g}'} | {credit:.0%}{why if waits else ''} |"
        )
    lines += ["", "By policy, with its failed criteria:", ""]
    for member in iteration.members:
        failed = (
            f"{title} {'not measured' if value is None else f'{value:.3g}'} earns {credit:.0%}"
            for title, (credit, value) in member.judgment.criteria.items()
            if credit < _MET
        )
        codes = [each.by_judge.get("code", each.score) for each in member.judgment.verdicts]
        code = fmean(score or 0.0 for score in codes) if codes else None
        seen = "" if code == member.judgment.score else f" ({_known(code)} by code alone)"
        score = f"{_known(member.judgment.score)}{seen}"
        lines.append(f"- {member.member}: {'; '.join((score, *failed))}")
    disputes: dict[str, None] = {}
    for dispute in [each for verdict in verdicts for each in verdict.disagreements][:_DISPUTES]:
        what, when = "the intent" if dispute.criterion == WHOLE else dispute.criterion, ""
        if dispute.start_s is not None and dispute.end_s is not None:
            when = f" ({dispute.start_s:.2f} s to {dispute.end_s:.2f} s)"
        measured, seen = f"{dispute.code:.2f} ({dispute.measured})", f"{dispute.vision:.2f}"
        if dispute.asked_again is not None:
            seen += f", {dispute.asked_again:.2f} on a second look"
        disputes[f"- {what}{when}: measured {measured}; seen {seen} ({dispute.seen})"] = None
    if disputes:
        lines += ["", "Disagreements between code and vision:", "", *disputes]
    reasons = {verdict.reason for verdict in verdicts if verdict.score is None}
    if reasons:
        count = f"{best.judgment.unknown} of {best.judgment.episodes} episodes"
        why = "; ".join(sorted(filter(None, reasons)))
        lines += ["", f"Not judged, which says nothing about the reward: {count} ({why})."]
    return "\n".join(lines)


def _known(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"
