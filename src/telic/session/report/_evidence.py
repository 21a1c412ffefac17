"""The evidence in a session's report: pictures, criteria, robustness, people, words and judge."""

from __future__ import annotations

from collections.abc import Sequence

from telic.authors.candidate import MemberScore
from telic.core.text import MISSING, count, figure, percent
from telic.envs import make
from telic.judges.command_tracking import CommandErrors, command_errors
from telic.judges.criteria import Composition, scope_words
from telic.judges.validation import Trial
from telic.judges.verdict import Judgement
from telic.report import document as doc
from telic.report.charts import Bar, ColumnChart
from telic.session.certificate import Certificate
from telic.session.labels import calibration_of, read_labels, read_vetoes
from telic.session.pictures import choose_episodes, draw_pictures, worst_first
from telic.session.report._common import (
    FULL_CREDIT,
    Blocks,
    EndedSession,
    author_name,
    listed,
    score_text,
)
from telic.session.robustness import read_card
from telic.storage.files import read_record
from telic.storage.trajectories import read_trajectory

_STRIPS = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}


def _video(ended: EndedSession) -> Blocks:
    """Return the video of the median episode and the strips of poor, median and good ones."""
    folder, best, member = ended.folder, ended.best, ended.member
    if best is None or member is None:
        return []
    where = ended.config.env, ended.candidate(best.number).env_args
    draw_pictures(folder, best.number, member, where, ended.note, ended.redraws)
    verdicts = member.judgement.verdicts
    chosen = choose_episodes(verdicts)
    blocks: list[doc.Block] = []
    video, small = folder.report_dir / "median.mp4", folder.report_dir / "median_small.mp4"
    if video.exists():
        label = f"The median episode, score {score_text(verdicts[chosen['median']].score)}"
        film = doc.Video(video, label, small if small.exists() else None)
        blocks.append(doc.Beside((film, *_episode_scores(ended, member, label)), "film"))
    for name, title in _STRIPS.items():
        strip = folder.report_dir / f"strip_{name}.png"
        if strip.exists():
            label = f"Six frames of {title}, score {score_text(verdicts[chosen[name]].score)}"
            blocks.append(doc.Picture(strip, label, label))
    return blocks


def _episode_scores(ended: EndedSession, member: MemberScore, title: str) -> Blocks:
    """Return the scores of all judged episodes; those that are shown are highlighted."""
    verdicts = member.judgement.verdicts
    order = [index for index in worst_first(verdicts) if verdicts[index].score is not None]
    scores = [score for index in order if (score := verdicts[index].score) is not None]
    if not scores:
        return []
    shown = [order.index(index) for index in choose_episodes(verdicts).values() if index in order]
    label = f"Scores of {count(len(scores), 'episode')}, from {scores[0]:.2f} to {scores[-1]:.2f}"
    note = (
        f"{label}. Initial states were not used in training. Highlighted: the episodes shown "
        "here; the dashed line is the threshold."
    )
    chart = ColumnChart(label, tuple(scores), tuple(shown), ended.config.threshold)
    return [doc.Figure(chart, title, note)]


def criteria_table(ended: EndedSession) -> Blocks:
    """Return what was measured, against what was wanted."""
    member = ended.member
    if member is None or not member.judgement.leaves:
        return listed([each.title for each in ended.author.criteria] if ended.author else [])
    leaves = {
        leaf.title: leaf
        for verdict in reversed(member.judgement.verdicts)
        for leaf in verdict.leaves
    }
    earned = member.judgement.leaves
    whole = sum(leaves[title].weight for title in earned)
    rows: list[tuple[doc.Words, ...]] = []
    for title, (credit, value) in earned.items():
        leaf = leaves[title]
        weight = percent(leaf.weight / whole) if whole else MISSING
        sign = "≥" if leaf.goal > leaf.zero else "≤"
        rows.append(
            (
                title,
                "constraint" if leaf.is_guard else weight,
                f"{sign} {leaf.goal:.4g} {leaf.unit}".strip(),
                f"{figure(value)} {leaf.unit}".strip(),
                Bar(credit, percent(credit), "good" if credit >= FULL_CREDIT else "middling"),
            )
        )
    note = (
        f"Of the best policy ({member.member}), over {member.judgement.episodes} fresh episodes. "
        "The whole score is multiplied by the credit of a constraint."
    )
    heads = ("criterion", "weight", "target", "measured (median)", "credit")
    goals = _open_goals(ended.author, member.judgement) if ended.author else []
    return [doc.Table(heads, rows), *listed(goals), doc.Text(note, "note")]


def _open_goals(author: Composition, judgement: Judgement) -> list[str]:
    """Compare what was to be as much as possible with the best known value for the robot."""
    lines: list[str] = []
    for each in author.criteria:
        if not each.is_open or each.title not in judgement.leaves:
            continue
        best = "no best is known for this robot"
        if each.best is not None:
            known = f"{each.best:.3g} {each.unit} ({each.best_source})"
            best = f"the best known for this robot is {known}"
        value = figure(judgement.leaves[each.title][1])
        lines.append(f"As much as possible: {value} {each.unit} was reached; {best}.")
    return lines


def _commands_tracked(ended: EndedSession) -> Blocks:
    """Return the velocity errors of the best policy, by commanded velocity."""
    best, member = ended.best, ended.member
    env_args = ended.candidate(best.number).env_args if best and member else {}
    if best is None or member is None or not env_args.get("commands"):
        return []
    files, where = ended.folder.iteration(best.number), (ended.config.env, env_args)
    paths = [files.episode(member.member, row) for row in range(len(member.judgement.verdicts))]
    env = make(where[0], num_envs=1, **env_args)
    env.close()
    episodes = (read_trajectory(path, where) for path in paths if path.exists())
    return _tracking_table(command_errors(episodes, env.spec))


def _tracking_table(rows: Sequence[CommandErrors]) -> Blocks:
    cells = [
        (
            row.kind,
            f"{row.seconds:.0f} s",
            f"{row.command:.2f} {row.unit}",
            f"{row.error:.2f} {row.unit}",
            MISSING if row.share is None else percent(row.share),
        )
        for row in rows
        if row.seconds
    ]
    heads = ("command", "for", "mean command", "mean error", "of standing still")
    note = (
        "All judged episodes of the best policy, by commanded velocity; the first three quarters "
        "of a second after a new command are left out. Standing still is off by 100 %."
    )
    return [doc.Table(heads, cells), doc.Text(note, "note")] if cells else []


def robustness_table(ended: EndedSession) -> Blocks:
    """Return the policy's results under conditions it was not trained in."""
    card = read_card(ended.folder)
    if card is None:
        return []
    rows = [
        (
            row.condition,
            row.words,
            (row.reason or "unknown")
            if row.passing is None
            else f"{row.passing} of {row.episodes}",
            MISSING if row.passing is None else score_text(row.score),
        )
        for row in card.rows
    ]
    note = (
        f"The policy that is handed out ({card.member}, {card.step:,} steps), by the same judge's "
        f"code, from fresh initial states; an episode passes with {card.threshold:g}. This is not "
        "part of the pass."
    )
    heads = ("condition", "what differs", "episodes that pass", "mean score")
    return [doc.Table(heads, rows), doc.Text(note, "note")]


def _seen(ended: EndedSession) -> Blocks:
    """Return what the vision judge saw in the best policy's episodes, and where judges differ."""
    rows: list[tuple[str, ...]] = []
    differ: list[str] = []
    verdicts = ended.member.judgement.verdicts if ended.member else ()
    for number, verdict in enumerate(verdicts, start=1):
        for seen in verdict.seen:
            is_timed = seen.start_s is not None and seen.end_s is not None
            when = f"{seen.start_s:.1f} to {seen.end_s:.1f} s" if is_timed else MISSING
            rows.append((str(number), seen.criterion, score_text(seen.score), when, seen.evidence))
        for conflict in verdict.disagreements:
            settled = "settled by a closer look." if conflict.resolved else "not settled."
            differ.append(
                f"Episode {number}, “{conflict.criterion}”: code gives {conflict.code:.2f} "
                f"({conflict.measured}), vision {conflict.vision:.2f} ({conflict.seen}); {settled}"
            )
    if not rows:
        return []
    heads = ("episode", "criterion", "score", "when", "what was seen")
    agree = doc.Text("Code and vision agree.", "note")
    return [doc.Table(heads, rows), *(listed(differ) or [agree])]


def _people(ended: EndedSession) -> Blocks:
    """Return vetoes and labels, and where judge and person differ."""
    labels, vetoes = read_labels(ended.folder), read_vetoes(ended.folder)
    blocks = listed([veto.words for veto in vetoes])
    if not labels:
        return blocks
    rows = [
        (
            f"{label.iteration}, {label.member}, {label.episode}",
            "yes" if label.is_wanted else "no",
            score_text(label.score),
            MISSING if label.passed is None else "differ" if label.disagrees else "agree",
            label.author if label.by == "person" else f"{label.author} (an agent)",
            label.why or MISSING,
        )
        for label in labels
    ]
    heads = ("iteration, policy, episode", "wanted", "score", "person and judge", "who", "why")
    calibration = calibration_of(ended.folder, ended.config.threshold)
    return [*blocks, doc.Table(heads, rows), doc.Text(calibration.words, "note")]


def _reading(ended: EndedSession) -> Blocks:
    """Return how doubtful words were interpreted, and which were left out."""
    lines = list(ended.summary.doubts)
    if ended.author is not None:
        left = (*ended.author.not_understood, *ended.author.dropped)
        scope = scope_words([each.words for each in ended.author.covered], left)
        lines = [scope, *lines] if scope else lines
    said = listed(lines) or [doc.Text("No word was doubtful or left out.")]
    return [*said, doc.Text(f"Written by {author_name(ended.config)}.", "note")]


def judge_blocks(ended: EndedSession) -> Blocks:
    """Return the code of the judge, its validation, and the certificate of its verdict."""
    if ended.author is None:
        return []
    note = "Reward authors never see it. It runs confined, on recorded episodes."
    blocks: list[doc.Block] = [doc.Text(note, "note")]
    if ended.folder.trial.exists():
        trial = read_record(ended.folder.trial, Trial)
        rows = [
            (each.name, "good" if each.is_good else "bad", score_text(each.score), figure(each.pay))
            for each in trial.examples
        ]
        blocks += [
            doc.Heading("Validation on reference episodes, before any training"),
            doc.Table(("example", "should be", "judge's score", "reward pays"), rows),
            *listed((*trial.judge_problems, *trial.reward_problems)),
        ]
    if ended.folder.certificate.exists():
        certificate = read_record(ended.folder.certificate, Certificate)
        good = certificate.good or "none"
        blocks += [
            doc.Heading("Can its verdict be believed?"),
            doc.Text(f"Independent confirmation that what passed is good: {good}."),
        ]
        mutants = [
            (
                each.criterion,
                f"{each.caught} of {each.total}",
                MISSING if each.changed is None else str(each.changed),
            )
            for each in certificate.mutants
        ]
        if mutants:
            heads = ("criterion", "mutants noticed", "mutants that change what it measures")
            what = "Mutants: passing episodes, frozen, cut, slowed, reversed, shuffled or mirrored."
            blocks += [doc.Text(what), doc.Table(heads, mutants)]
    return [*blocks, doc.Code(ended.author.judge, "python", "Code of the judge")]


EVIDENCE = {
    "Video": _video,
    "Criteria": criteria_table,
    "Velocity tracking": _commands_tracked,
    "Robustness": robustness_table,
    "What was seen": _seen,
    "Labels and vetoes": _people,
    "How the words were read": _reading,
}
