"""Render the history of a session for prompts.

The history is read from the records of finished iterations, so that each change is paired with its
actual outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from telic.authors._context import table_text
from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    latest_lessons,
    program_text,
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
from telic.judges.measured import measured_parts, value_of
from telic.judges.verdict import WHOLE
from telic.storage.files import read_json_lines, read_record
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.scalars import read_findings, read_rows

_NOTICED = 0.02
"""minimum change of the score that is reported as an effect"""
_STUCK_AFTER = 3
"""number of iterations without a new best after which a different approach is requested"""
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

        `most` is the maximum number of iterations. With `criteria`, it includes the rewards, the
        training and the values of the criteria over time.
        """
        latest, best = self.history[-1], self.best
        numbers, stuck = dict.fromkeys((latest.number, best.number)), latest.number - best.number
        left = "" if most is None else f" Rewards left, including this: {most - latest.number}."
        if most is not None and most - latest.number <= 1:
            left = " This is the last revision: prefer a safe change."
        lines = [
            *map(self._line, self.history),
            f"\nA policy passes if its lower bound reaches {threshold:g}. Best so far: iteration "
            f"{best.number}.{left}",
        ]
        parts = {"Iterations": "\n".join(lines)}
        parts |= {f"Scores of iteration {each}": judgment_text(self.find(each)) for each in numbers}
        if criteria is not None:
            parts |= self._code(numbers)
            if latest.best_member is not None:
                about = f"Training of iteration {latest.number}"
                parts[about] = self._curves(latest, latest.best_member)
                parts |= self._over_time(latest, latest.best_member, criteria)
        lessons = latest_lessons(self.candidates[number] for number in sorted(self.candidates))
        parts["Lessons so far"] = "\n".join(f"- {each.tier}: {each.text}" for each in lessons)
        if stuck >= _STUCK_AFTER:
            parts["Stuck"] = (
                f"No new best for {stuck} iterations. Small changes no longer help: try another "
                "reward structure, or start from a different iteration. Hard lessons hold; others "
                "may be challenged."
            )
        parts["User feedback to follow"] = "\n".join(f"- {note}" for note in notes)
        return "\n\n".join(f"## {title}\n\n{body}" for title, body in parts.items() if body)

    def _line(self, iteration: SessionIteration) -> str:
        """Summarize the change and result of an iteration in one line."""
        proven = ", ".join(_known(member.judgment.low) for member in iteration.members)
        steps = sorted({member.step for member in iteration.members})
        judged = f", judged at {' and '.join(f'{step:,}' for step in steps)}" if steps else ""
        facts = [
            f"{iteration.number}. from {iteration.parent or 'nothing'}: {iteration.change}",
            f"mean score of all policies {_known(iteration.score)} (lower bound by seed: {proven})",
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

    def _code(self, numbers: Iterable[int]) -> dict[str, str]:
        """Return the rewards of iterations, with every program only once."""
        parts, shown = dict[str, str](), dict[str, int]()
        for number in numbers:
            candidate, variant = self.candidates[number], self.find(number).variant
            text, used = structure_text(candidate, variant), reward_text(candidate, variant)
            same = shown.setdefault(program_text(text), number)
            code = f"```python\n{text}\n```" if same == number else f"As in iteration {same}."
            parts[f"Reward of iteration {number}"] = (
                f"{code}\n\nweights used: {weights_in(used)}; environment: {candidate.env_args}; "
                f"settings: {candidate.settings or 'the preset'}"
            )
        return parts

    def _curves(self, iteration: SessionIteration, best: MemberScore) -> str:
        """Summarize a training run: speed, curves, reward terms, judge scores and warnings."""
        files = self.folder.iteration(iteration.number)
        member = MemberFolder(files.run.path / best.member)
        rows = list(read_rows(member.scalars, "train"))
        if not rows:
            return "Nothing was recorded."
        terms = [name for name in rows[-1] if name.startswith(_TERM)]
        names = [
            name for name in (*_CURVES, *terms) if any(row.get(name) is not None for row in rows)
        ]
        size = -(-len(rows) // _ROWS)
        table = [["step", *(name.removeprefix(_TERM) for name in names)]]
        for group in (rows[start : start + size] for start in range(0, len(rows), size)):
            known = ([row[name] for row in group if row.get(name) is not None] for name in names)
            means = (f"{fmean(own):.3g}" if own else "–" for own in known)
            table.append([f"{group[-1]['global_step']:,}", *means])
        done, time = np.diff([(row["global_step"], row["elapsed_time"]) for row in rows], axis=0).T
        speed = f"{np.median(done / time):,.0f}" if len(rows) > 1 else "unknown"  # without pauses
        about = f"Of {best.member} ({speed} steps/s), the last {len(terms)} columns by reward term:"
        lines = [about, "", table_text(table)]
        scores = [
            f"{row['step']:,} steps {' '.join(map(_known, row['scores'].values()))}"
            for row in read_json_lines(files.checkpoints)
        ]
        lines += ["", f"Judge's score by seed at checkpoints: {'; '.join(scores)}."] * bool(scores)
        findings = read_findings(member.summary)
        lines += [f"Warning of the trainer: {finding['message']}" for finding in findings]
        return "\n".join(lines)

    def _over_time(
        self, iteration: SessionIteration, best: MemberScore, criteria: Sequence[Criterion]
    ) -> dict[str, str]:
        """Return a section on the criteria's quantities over time in a policy's median episode."""
        path = self.folder.iteration(iteration.number).episode(best.member, best.median_episode)
        config = read_record(self.folder.config, SessionConfig)
        where = config.env, self.candidates[iteration.number].env_args
        try:
            episode = Footage(path, path.parent / "looked", where)
        except TelicError:
            return {}  # the recording was deleted
        view = episode.episode
        parts = dict.fromkeys(part for each in criteria for part in measured_parts(each.measure))
        tracks = {part: value_of(part, view) for part in parts}
        tracks = {part: own for part, own in tracks.items() if own.shape == (len(view),)}
        table = [["s", *tracks]]
        for step in range(0, len(view), max(1, len(view) // _ROWS)):
            values = (f"{own[step]:.3g}" for own in tracks.values())
            table.append([f"{(step + 1) * view.dt:.2f}", *values])
        title = f"Median episode of {best.member}, {view.seconds:g} of {view.full_seconds:g} s"
        return {title: table_text(table)} if tracks else {}


def judgment_text(iteration: SessionIteration) -> str:
    """Return the scores of each policy by criterion as Markdown."""
    best, members = iteration.best_member, iteration.members
    if best is None:
        return f"No policy was trained: {iteration.failure}"
    verdicts = best.judgment.verdicts
    table = [
        ["criterion", "counts", "no credit at", "full at", *(each.member for each in members)],
        ["mean score", "", "0", "1", *(_known(each.judgment.score) for each in members)],
        ["its lower bound", "", "0", "1", *(_known(each.judgment.low) for each in members)],
        ["mean by code alone", "", "0", "1", *(_known(each.code_score) for each in members)],
    ]
    for title in best.judgment.criteria:
        row = next(row for each in verdicts for row in each.criteria if row.title == title)
        counts = "multiplies all" if row.is_guard else f"weight {row.weight:g}"
        ends = [f"{end:g} {'' if row.unit == '1' else row.unit}" for end in (row.zero, row.goal)]
        cells = [_earned(each, title) for each in members]
        table.append([title, counts, *map(str.rstrip, ends), *cells])
    lines = [
        "Mean credit of each policy over its episodes, and the 10th, 50th and 90th percentile of "
        "the value measured in them:\n",
        table_text(table),
    ]
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
        lines += ["", f"Not judged (this says nothing about the reward): {count} ({why})."]
    return "\n".join(lines)


def _earned(member: MemberScore, title: str) -> str:
    """Return the mean credit of a criterion with percentiles of the values in the same episodes."""
    given = [each for each in member.judgment.verdicts if each.score is not None]
    rows = [row for verdict in given for row in verdict.criteria if row.title == title]
    values = [row.value for row in rows if row.value is not None]
    waits = sum(row.waits for row in rows)
    parts = [f"{value:.3g}" for value in np.percentile(values, (10, 50, 90))] if values else ["–"]
    why = f"; not counted in {waits} of {len(rows)}: an earlier phase was not completed"
    credit = _known(fmean(row.counted for row in rows) if rows else None)
    return f"{credit} ({', '.join(parts)}){why if waits else ''}"


def _known(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"
