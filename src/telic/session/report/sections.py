"""The sections of a session's report: evidence, history, reward, judge, cost and policy."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from telic.authors.candidate import MemberScore, SessionIteration, Variant
from telic.core.text import MISSING, count, duration, figure, is_dict, money, percent
from telic.judges.criteria import scope_words
from telic.report import document as doc
from telic.report.charts import Bar, ColumnChart, Gauge, Node, Shares, Tree
from telic.session.labels import calibration_of, read_labels, read_vetoes
from telic.session.pictures import choose_episodes, worst_first
from telic.session.records import SessionConfig
from telic.session.report.data import SessionReportData, interval_of, leaves_of
from telic.session.robustness import RobustnessCard, read_card

Blocks = Sequence[doc.Block]
FULL_CREDIT = 0.995
_NO_OPTIONS = frozenset({"schema_version", "intent", "env", "criteria"})


# -------------------------------------------------------------------------------- the evidence


def _looks(data: SessionReportData) -> Blocks:
    """Return the video of the median episode and the strips of poor, median and good ones."""
    pictures = data.pictures
    blocks: list[doc.Block] = []
    if pictures.video is not None:
        label = f"The median episode, score {score_text(pictures.score)}"
        video = doc.Video(pictures.video, label, pictures.inline)
        blocks.append(doc.Beside((video, *_episode_scores(data, label)), "film"))
    for strip in pictures.strips:
        label = f"Six frames of {strip.title}, score {score_text(strip.score)}"
        blocks.append(doc.Picture(strip.path, label, label))
    return blocks


def _episode_scores(data: SessionReportData, title: str) -> Blocks:
    """Return the scores of all judged episodes; those that are shown are highlighted."""
    verdicts = data.member.judgement.verdicts if data.member else ()
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
    chart = ColumnChart(label, tuple(scores), tuple(shown), data.config.threshold)
    return [doc.Figure(chart, title, note)]


def criteria_table(data: SessionReportData) -> Blocks:
    """Return what was measured, against what was wanted."""
    member = data.member
    if member is None or not member.judgement.leaves:
        return listed([each.title for each in data.author.criteria] if data.author else [])
    leaves = leaves_of(member.judgement)
    whole = sum(leaf.weight for leaf in leaves.values())
    rows: list[tuple[doc.Words, ...]] = []
    for title, (credit, value) in member.judgement.leaves.items():
        leaf = leaves[title]
        weight = percent(leaf.weight / whole) if whole else MISSING
        sign = "≥" if leaf.goal > leaf.zero else "≤"
        tone = "good" if credit >= FULL_CREDIT else "middling"
        rows.append(
            (
                title,
                "constraint" if leaf.is_guard else weight,
                f"{sign} {leaf.goal:.4g} {leaf.unit}".strip(),
                f"{figure(value)} {leaf.unit}".strip(),
                Bar(credit, percent(credit), tone),
            )
        )
    note = (
        f"Of the best policy ({member.member}), over {member.judgement.episodes} fresh episodes. "
        "The whole score is multiplied by the credit of a constraint."
    )
    heads = ("criterion", "weight", "target", "measured (median)", "credit")
    return [doc.Table(heads, rows), *listed(_open_goals(data)), doc.Text(note, "note")]


def _open_goals(data: SessionReportData) -> list[str]:
    """Compare what was to be as much as possible with the best known value for the robot."""
    reached = data.member.judgement.leaves if data.member else {}
    lines: list[str] = []
    for each in data.author.criteria if data.author else ():
        if not each.is_open or each.title not in reached:
            continue
        best = "no best is known for this robot"
        if each.best is not None:
            known = f"{each.best:.3g} {each.unit} ({each.best_source})"
            best = f"the best known for this robot is {known}"
        value = figure(reached[each.title][1])
        lines.append(f"As much as possible: {value} {each.unit} was reached; {best}.")
    return lines


def _commands_tracked(data: SessionReportData) -> Blocks:
    """Return how far off the policy was, by what it was commanded."""
    rows = [
        (
            row.told,
            f"{row.seconds:.0f} s",
            f"{row.command:.2f} {row.unit}",
            f"{row.error:.2f} {row.unit}",
            MISSING if row.share is None else percent(row.share),
        )
        for row in data.obeyed
        if row.seconds
    ]
    if not rows:
        return []
    heads = ("command", "for", "mean command", "mean error", "of standing still")
    note = (
        "All judged episodes of the best policy, by commanded velocity; the first three quarters "
        "of a second after a new command are left out. Standing still is off by 100 %."
    )
    return [doc.Table(heads, rows), doc.Text(note, "note")]


def robustness_table(data: SessionReportData) -> Blocks:
    """Return how the policy that passed does under conditions it was not trained in."""
    card = read_card(data.folder)
    return [] if card is None else card_blocks(card)


def card_blocks(card: RobustnessCard) -> list[doc.Block]:
    """Return the table of a robustness card."""
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


def _seen(data: SessionReportData) -> Blocks:
    """Return what the vision judge saw in the best policy's episodes, and where judges differ."""
    rows: list[tuple[str, ...]] = []
    differ: list[str] = []
    verdicts = data.member.judgement.verdicts if data.member else ()
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


def _people(data: SessionReportData) -> Blocks:
    """Return vetoes and labels, and where judge and person differ."""
    labels, vetoes = read_labels(data.folder), read_vetoes(data.folder)
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
    calibration = calibration_of(data.folder, data.config.threshold)
    return [*blocks, doc.Table(heads, rows), doc.Text(calibration.words, "note")]


def _reading(data: SessionReportData) -> Blocks:
    """Return how doubtful words were interpreted, and which were left out."""
    lines = list(data.summary.doubts)
    if data.author is not None:
        left = (*data.author.not_understood, *data.author.dropped)
        scope = scope_words([each.words for each in data.author.covered], left)
        lines = [scope, *lines] if scope else lines
    said = listed(lines) or [doc.Text("No word was doubtful or left out.")]
    return [*said, doc.Text(f"Written by {author_name(data.config)}.", "note")]


def _judge(data: SessionReportData) -> Blocks:
    """Return the code of the judge, its validation, and the certificate of its verdict."""
    if data.author is None:
        return []
    note = "Reward authors never see it. It runs confined, on recorded episodes."
    blocks: list[doc.Block] = [doc.Text(note, "note")]
    if data.trial is not None:
        problems = (*data.trial.judge_problems, *data.trial.reward_problems)
        rows = [
            (each.name, "good" if each.is_good else "bad", score_text(each.score), figure(each.pay))
            for each in data.trial.examples
        ]
        heads = ("example", "should be", "judge's score", "reward pays")
        blocks += [
            doc.Heading("Validation on reference episodes, before any training"),
            doc.Table(heads, rows),
            *listed(problems),
        ]
    certificate = data.certificate
    if certificate is not None:
        good = certificate.good or "none"
        blocks += [
            doc.Heading("Can its verdict be believed?"),
            doc.Text(f"Independent confirmation that what passed is good: {good}."),
        ]
        if certificate.mutants:
            mutants = [
                (
                    each.criterion,
                    f"{each.caught} of {each.total}",
                    MISSING if each.changed is None else str(each.changed),
                )
                for each in certificate.mutants
            ]
            heads = ("criterion", "mutants noticed", "mutants that change what it measures")
            what = "Mutants: passing episodes, frozen, cut, slowed, reversed, shuffled or mirrored."
            blocks += [doc.Text(what), doc.Table(heads, mutants)]
    return [*blocks, doc.Code(data.author.judge, "python", "Code of the judge")]


# -------------------------------------------------------------------------------- the history


def _tried(data: SessionReportData) -> Blocks:
    """Return the lineage and a row per iteration."""
    if not data.history:
        return []
    nodes = [
        Node(
            key=iteration.number,
            parent=iteration.parent,
            title=_named(data, iteration),
            note=score_text(iteration.score),
            share=iteration.score,
            is_chosen=iteration is data.best,
            hint=iteration.change,
        )
        for iteration in data.history
    ]
    heads = ("iteration", "from", "change", "policies", "failed", "training", "steps")
    note = (
        "Dots are scores, lines their 95 % intervals, the mark the threshold. "
        "★ is the best; a box shows the mean score of an iteration's policies."
    )
    learned = listed([f"{lesson.text} ({lesson.tier})" for lesson in data.lessons])
    rows = [_attempt(data, iteration) for iteration in data.history]
    return [
        Tree("Lineage of the iterations, with the mean score of iteration", tuple(nodes)),
        doc.Table(heads, rows, kind="attempts"),
        doc.Text(note, "note"),
        *([doc.Heading("Lessons"), *learned] if learned else []),
    ]


def _attempt(data: SessionReportData, iteration: SessionIteration) -> tuple[doc.Cell, ...]:
    trials = (doc.Soft("screening runs"), _policies(data, iteration.trials))
    members = _policies(data, iteration.members, iteration.best)
    return (
        _named(data, iteration),
        MISSING if iteration.parent is None else str(iteration.parent),
        doc.Stack(tuple(_change(data, iteration))),
        doc.Stack((members, *(trials if iteration.trials else ()))),
        "nothing" if iteration.passed else ", ".join(iteration.tags) or "nothing",
        duration(iteration.training_s),
        step_count(iteration.steps),
    )


def _named(data: SessionReportData, iteration: SessionIteration) -> str:
    return f"{iteration.number}{' ★' if iteration is data.best else ''}"


def _policies(
    data: SessionReportData, members: Sequence[MemberScore], best: str | None = None
) -> doc.Items:
    rows: list[doc.Words] = []
    for member in members:
        name = doc.Strong(member.member) if member.member == best else doc.Mono(member.member)
        rows.append((name, gauge(data, member)))
    return doc.Items(tuple(rows), "rated")


def _change(data: SessionReportData, iteration: SessionIteration) -> list[str]:
    """Return what an iteration changed, why, and which notes it answers."""
    candidate = data.candidates.get(iteration.number)
    lines = [iteration.change]
    if iteration.failure:
        lines.append(f"Could not be trained: {iteration.failure}")
    lines += [f"Alarm: {alarm}" for alarm in iteration.alarms]
    lines += [f"Not judged: {reason}" for reason in iteration.unjudged]
    lines += [f"Judge in doubt: {iteration.judge_doubted}"] if iteration.judge_doubted else []
    if candidate and candidate.diagnosis:
        lines.append(f"Why: {candidate.diagnosis}")
    if candidate and len(candidate.variants) > 1:
        lines += [
            f"Variant {number}: {_weights(variant)}"
            for number, variant in enumerate(candidate.variants, start=1)
        ]
    return lines + [f"Answers: “{note}”" for note in data.notes.get(iteration.number, ())]


def _weights(variant: Variant) -> str:
    named = [*variant.structure]
    named += [f"{name} {figure(value)}" for name, value in variant.weights.items()]
    start = ["starts from the policies of its parent"] if variant.warm else []
    return ", ".join(named + start) or "as the reward says"


def _analysis(data: SessionReportData) -> Blocks:
    if data.analysis is None:
        return []
    return [doc.Text(data.analysis.story), *listed(data.analysis.findings)]


def _curves(data: SessionReportData) -> Blocks:
    note = (
        "Return under the iteration's own reward: the line is the mean over training seeds, the "
        "band their range, dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so compare heights within a line only."
    )
    return [doc.Beside(tuple(data.curves)), doc.Text(note, "note")] if data.curves else []


def _reward(data: SessionReportData) -> Blocks:
    """Return formula, share of each term, and code of the best policy's reward."""
    reward = data.reward
    if reward is None:
        first = data.author.reward if data.author else None
        return [doc.Code(first, "python", "Reward as first written")] if first else []
    rows: list[tuple[doc.Words, ...]] = []
    for term in reward.terms:
        is_cost = term.total is not None and term.total < 0
        share: doc.Words = MISSING
        if term.share is not None:
            text = f"{percent(term.share)}{' (a cost)' if is_cost else ''}"
            share = Bar(term.share, text, "cost" if is_cost else "")
        weight, total = figure(term.weight), figure(term.total)
        rows.append((doc.Mono(term.name), term.words, weight, total, share))
    heads = ("term", "meaning", "weight", "over an episode", "share")
    return [
        *([doc.Formula(reward.latex)] if reward.latex else []),
        *([doc.Table(heads, rows)] if rows else []),
        *listed(reward.findings),
        doc.Code(reward.code, "python", "Code of the reward, as trained"),
    ]


def _costs(data: SessionReportData) -> Blocks:
    """Return where the time went, and what models cost."""
    costs = data.costs
    if costs is None:
        return []
    times = {
        "training": costs.training_s,
        "judging": costs.judging_s,
        "waiting for models": costs.model_s,
        "everything else": costs.other_s,
    }
    whole = sum(seconds or 0.0 for seconds in times.values()) or 1.0
    pieces = tuple((name, (seconds or 0.0) / whole) for name, seconds in times.items())
    rows: list[tuple[doc.Words, str]] = [("wall clock", duration(costs.total_s))]
    rows += [
        ((doc.Swatch(index), name), duration(seconds, "unknown"))
        for index, (name, seconds) in enumerate(times.items())
    ]
    rows.append(("environment steps", step_count(costs.steps)))
    if costs.calls:
        rows += [
            ("model", ", ".join(costs.models)),
            ("model calls", f"{costs.calls:,}"),
            ("tokens", "unknown" if costs.tokens is None else f"{costs.tokens:,}"),
            ("price", money(costs.usd)),
        ]
    if costs.failed:
        rows.append(("questions without an answer", f"{costs.failed:,}, not in the tokens"))
    shares = Shares("Where the time went", pieces, has_legend=False)
    return [shares, doc.FactSheet(rows, heads=("what", "how much"))]


def _policy(data: SessionReportData) -> Blocks:
    """Return where the policy is and what can be done with it."""
    if data.run is None or data.member is None:
        return []
    where = f"{data.run.path.relative_to(data.folder.path)}/{data.member.member}"
    chosen = [str(data.run.path), "--member", data.member.member]
    judged = [*chosen, "--step", str(data.member.step)]
    commands = {
        "watch it": ["telic", "play", *judged],
        "export it (ONNX, TorchScript)": ["telic", "export", *judged],
        "label it": ["telic", "label", data.folder.name, "yes"],
        "see its training": ["telic", "show", *chosen],
    }
    blocks: list[doc.Block] = [doc.Text(("In the session's folder: ", doc.Mono(where), "."))]
    for what, line in commands.items():
        blocks += [doc.Heading(what), doc.ShellLine(shlex.join(line))]
    return blocks


def _again(data: SessionReportData) -> Blocks:
    """Return the command that repeats the session, and the versions it was made with."""
    manifest = data.manifest
    rows = [("session", data.folder.name)]
    rows += [(name, str(value)) for name, value in manifest.get("versions", {}).items() if value]
    rows += [
        (name, str(manifest[name]))
        for name in ("python", "platform", "processors", "created_at")
        if manifest.get(name) is not None
    ]
    rows += [("reward, SHA-256", text_digest(data.reward.code))] if data.reward else []
    rows += [("judge, SHA-256", text_digest(data.author.judge))] if data.author else []
    named = [(name, doc.Mono(value)) for name, value in rows]
    return [
        doc.ShellLine(command(data.config, data.folder.config)),
        doc.FactSheet(named, heads=("what", "version or hash")),
    ]


SECTIONS: dict[str, Callable[[SessionReportData], Blocks]] = {
    "Video": _looks,
    "Criteria": criteria_table,
    "Velocity tracking": _commands_tracked,
    "Robustness": robustness_table,
    "What was seen": _seen,
    "Labels and vetoes": _people,
    "How the words were read": _reading,
    "Iterations": _tried,
    "Analysis by the model": _analysis,
    "Learning curves": _curves,
    "The reward": _reward,
    "The judge": _judge,
    "Cost": _costs,
    "The policy": _policy,
    "Run it again": _again,
}


# -------------------------------------------------------------------------------- text


def listed(lines: Sequence[str]) -> list[doc.Block]:
    """Return a list, or nothing when there is nothing in it."""
    return [doc.Items(tuple(lines))] if lines else []


def score_text(value: float | None) -> str:
    """Return a score; "unknown" when it is None."""
    return "unknown" if value is None else f"{value:.2f}"


def step_count(value: int | None) -> str:
    """Return a number of environment steps."""
    return f"{value:,}" if value else MISSING


def text_digest(source: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(source.encode()).hexdigest()


def author_name(config: SessionConfig) -> str:
    """Return who wrote criteria, reward and judge."""
    if config.model is None:
        return "the composer, without a model"
    others = ", ".join(f"{role}: {model}" for role, model in config.model_for.items())
    return f"{config.model} ({others})" if others else config.model


def command(config: SessionConfig, request: Path) -> str:
    """Return the command that repeats a request; `request` is the file that holds it."""
    words = ["telic", "run", config.intent, "--env", config.env]
    if config.criteria is not None:
        words += ["--criteria", str(request)]
    for name, field in SessionConfig.model_fields.items():
        value: object = getattr(config, name)
        if name in _NO_OPTIONS or value == field.default:
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif is_dict(value):
            for role, word in value.items():
                words += [option, f"{role}={word}"]
        else:
            many = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            words += [option, ",".join(map(str, many))]
    return shlex.join(words)


def gauge(data: SessionReportData, member: MemberScore) -> doc.Inline:
    """Return a policy's score as a picture and in numbers."""
    value, interval = member.judgement.score, interval_of(member.judgement)
    if value is None:
        return "unknown"
    if interval is None:
        return Gauge(value, value, value, data.config.threshold, f"{value:.2f}")
    text = f"{value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    return Gauge(interval.low, value, interval.high, data.config.threshold, text)
