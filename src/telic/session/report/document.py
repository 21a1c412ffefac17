"""The report of a session as a document: the result, the attempts, the making, and how to go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.events import Listener, ignore
from telic.core.text import MISSING, count, duration, figure, money, percent
from telic.judges.criteria import Composition
from telic.report import document as doc
from telic.report.charts import Bar, ColumnChart, Gauge, Node, Tree
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.session.records import SessionConfig, SessionSummary
from telic.session.report import making, words
from telic.session.report.compare import parts
from telic.session.report.facts import SessionReportFacts, Troubles, gather, spread
from telic.session.report.making import UNKNOWN, Blocks, listed
from telic.session.report.pictures import choose_episodes, worst_first
from telic.storage.files import write_text
from telic.storage.layout import SessionFolder

_FULL_CREDIT = 0.995


def write_report(
    folder: SessionFolder,
    config: SessionConfig,
    author: Composition | None,
    history: list[SessionIteration],
    summary: SessionSummary,
    tell: Listener = ignore,
) -> None:
    """Write the report of a session as it stands, finished or not: report.html and report.md.

    It never fails the session: what cannot be read, drawn or written is told as a "log" event, and
    listed at the end of the report.
    """
    troubles = Troubles(tell)
    facts = gather(SessionReportFacts(folder, config, author, history, summary), troubles)
    report = build_report(facts, troubles)
    with troubles.sparing(folder.page.name):
        write_text(folder.page, render_page(_with_lacks(report, troubles), folder.path))
    with troubles.sparing(folder.report.name):
        write_text(folder.report, render_markdown(_with_lacks(report, troubles), folder.path))


def build_report(facts: SessionReportFacts, troubles: Troubles) -> doc.Report:
    """Return the document; a section that cannot be made is noted and left out."""
    header: Blocks = ()
    with troubles.sparing("the verdict"):
        header = _verdict(facts)
    sections: list[doc.Section] = []
    for title, build in _SECTIONS.items():
        with troubles.sparing(f"the section “{title}”"):
            sections.append(doc.Section(title, tuple(build(facts))))
    return doc.Report(
        facts.config.intent,
        tuple(sections),
        doc.Section("", tuple(header)),
        tab=f"{words.OUTCOMES[facts.summary.outcome]}: {facts.config.intent}",
        footer=("Made by telic from the records of ", doc.Mono(facts.folder.name)),
    )


def _with_lacks(report: doc.Report, troubles: Troubles) -> doc.Report:
    if not troubles.lines:
        return report
    lacks = doc.Section("What this report lacks", (doc.Items(tuple(troubles.lines), "lacks"),))
    return replace(report, sections=(*report.sections, lacks))


def _verdict(facts: SessionReportFacts) -> Blocks:
    """Return the outcome, the proof, and what each training seed proves against the threshold."""
    summary, best = facts.summary, facts.best
    outcome = words.OUTCOMES[summary.outcome]
    ended = f"{outcome.lower()} after {count(summary.iterations, 'iteration')}"
    took = duration(summary.seconds)
    tone = "good" if summary.outcome == "passed" else "middling"
    blocks: list[doc.Block] = [
        doc.Text(f"{facts.config.env}: {ended} and {took} · {summary.session}", "where"),
        doc.Callout(outcome, words.proof(facts), tone),
        *listed([f"Not judged: {reason}" for reason in words.unjudged(facts)]),
    ]
    if best is not None:
        own = [member for member in best.members if member.variant == best.variant]
        rows = [(f"seed {member.seed}", _gauge(facts, member)) for member in own]
        blocks.append(doc.Items(tuple(rows), "rated"))
    blocks.append(doc.FactSheet(_at_a_glance(facts), "glance"))
    lacks = [] if summary.outcome == "passed" else words.lacking(facts)
    if lacks:
        blocks.append(doc.Text(f"Missing: {'; '.join(lacks)}."))
    steps = words.next_steps(facts)
    blocks += [doc.Heading("What to try next")] if steps else []
    for what, command in steps:
        blocks.append(doc.Items((what,)))
        blocks += [doc.ShellLine(command)] if command else []
    return blocks


def _gauge(facts: SessionReportFacts, member: MemberScore) -> doc.Inline:
    """Return a policy's score as a picture and in numbers."""
    value, interval = member.judgement.score, spread(member.judgement)
    if value is None:
        return UNKNOWN
    low, high = interval or (value, value)
    return Gauge(low, value, high, facts.config.threshold, words.scored(member))


def _at_a_glance(facts: SessionReportFacts) -> list[tuple[str, str]]:
    summary, config, costs = facts.summary, facts.config, facts.costs
    rows = [
        ("score", words.score(summary.score)),
        ("proven (95 %)", words.score(summary.low)),
        ("needed", f"{config.threshold:.2f}"),
        ("iterations", f"{summary.iterations} of {config.iterations}"),
        ("steps", words.steps(summary.steps)),
        ("time", duration(summary.seconds)),
    ]
    return rows + ([("models", money(costs.model.usd))] if costs and costs.model.calls else [])


def _looks(facts: SessionReportFacts) -> Blocks:
    """Return the video of the median episode and the strips of poor, median and good ones."""
    pictures = facts.pictures
    blocks: list[doc.Block] = []
    if pictures.video is not None:
        label = f"The median episode, score {words.score(pictures.score)}"
        film = doc.Video(pictures.video, label, pictures.inline)
        blocks.append(doc.Beside((film, *_episodes(facts, label)), "film"))
    for strip in pictures.strips:
        label = f"Six moments of {strip.words}, score {words.score(strip.score)}"
        blocks.append(doc.Picture(strip.path, label, label))
    return blocks


def _episodes(facts: SessionReportFacts, title: str) -> Blocks:
    """Return the scores of all judged episodes, those that are shown in full colour."""
    verdicts = facts.judgement.verdicts if facts.judgement else ()
    order = [index for index in worst_first(verdicts) if verdicts[index].score is not None]
    scores = [score for index in order if (score := verdicts[index].score) is not None]
    if not scores:
        return []
    shown = [order.index(index) for index in choose_episodes(verdicts).values() if index in order]
    label = f"Scores of {count(len(scores), 'episode')}, from {scores[0]:.2f} to {scores[-1]:.2f}"
    note = (
        f"{label}. Each began where training never did. In full colour: those shown here; the "
        "dashed line is what is needed."
    )
    chart = ColumnChart(label, tuple(scores), tuple(shown), facts.config.threshold)
    return [doc.Figure(chart, title, note)]


def _criteria(facts: SessionReportFacts) -> Blocks:
    """Return what was measured, against what was wanted."""
    member = facts.member
    if member is None or not member.judgement.leaves:
        return listed(
            [criterion.title for criterion in facts.author.criteria] if facts.author else []
        )
    leaves = parts(member.judgement)
    rows = [
        (
            title,
            words.counts(leaves[title], facts),
            words.target(leaves[title]),
            f"{figure(value)} {leaves[title].unit}".strip(),
            _credit(credit),
        )
        for title, (credit, value) in member.judgement.leaves.items()
    ]
    note = (
        f"Of the best policy ({member.member}), over {member.judgement.episodes} fresh episodes. "
        "A guard rules out look-alikes: the whole score is multiplied by its credit."
    )
    heads = ("criterion", "counts", "target", "measured (median)", "credit")
    return [doc.Table(heads, rows), doc.Text(note, "note")]


def _credit(credit: float) -> Bar:
    return Bar(credit, percent(credit), "good" if credit >= _FULL_CREDIT else "middling")


def _seen(facts: SessionReportFacts) -> Blocks:
    """Return what the vision judge saw in the best policy's episodes, and where judges differ."""
    verdicts = facts.judgement.verdicts if facts.judgement else ()
    rows: list[tuple[str, ...]] = []
    differ: list[str] = []
    for number, verdict in enumerate(verdicts, start=1):
        for seen in verdict.seen:
            is_timed = seen.start_s is not None and seen.end_s is not None
            when = f"{seen.start_s:.1f} to {seen.end_s:.1f} s" if is_timed else MISSING
            score = words.score(seen.score)
            rows.append((str(number), seen.criterion, score, when, seen.evidence))
        for conflict in verdict.disagreements:
            settled = "settled by a closer look." if conflict.resolved else "not settled."
            differ.append(
                f"Episode {number}, “{conflict.criterion}”: code gives {conflict.code:.2f} "
                f"({conflict.measured}), the eye {conflict.vision:.2f} ({conflict.seen}); {settled}"
            )
    if not rows:
        return []
    heads = ("episode", "criterion", "score", "when", "what was seen")
    agree = doc.Text("Code and eye agree.", "note")
    return [doc.Table(heads, rows), *(listed(differ) or [agree])]


def _reading(facts: SessionReportFacts) -> Blocks:
    said = listed(words.reading(facts)) or [doc.Text("No word was doubtful or left out.")]
    return [*said, doc.Text(f"Written by {words.author(facts.config)}.", "note")]


def _tried(facts: SessionReportFacts) -> Blocks:
    """Return the lineage and a row per iteration."""
    if not facts.history:
        return []
    nodes = [
        Node(
            key=iteration.number,
            parent=iteration.parent,
            title=_named(facts, iteration),
            note=words.score(iteration.score),
            share=iteration.score,
            is_chosen=iteration is facts.best,
            hint=iteration.change,
        )
        for iteration in facts.history
    ]
    heads = ("iteration", "from", "change", "policies", "lacking", "training", "steps")
    note = (
        "Dots are scores, lines their 95 % intervals, the mark what is needed. "
        "★ is the best; a box shows the mean score of an iteration's policies."
    )
    learned = listed(words.lessons(facts))
    return [
        Tree("Lineage of the iterations, with the mean score of iteration", tuple(nodes)),
        doc.Table(
            heads, [_attempt(facts, iteration) for iteration in facts.history], kind="attempts"
        ),
        doc.Text(note, "note"),
        *([doc.Heading("Learned on the way"), *learned] if learned else []),
    ]


def _attempt(facts: SessionReportFacts, iteration: SessionIteration) -> tuple[doc.Cell, ...]:
    trials = (doc.Soft("short trials"), _policies(facts, iteration.trials))
    members = _policies(facts, iteration.members, iteration.best)
    return (
        _named(facts, iteration),
        MISSING if iteration.parent is None else str(iteration.parent),
        doc.Stack(tuple(words.change(facts, iteration))),
        doc.Stack((members, *(trials if iteration.trials else ()))),
        ", ".join(iteration.tags) or "nothing",
        duration(iteration.training_s),
        words.steps(iteration.steps),
    )


def _named(facts: SessionReportFacts, iteration: SessionIteration) -> str:
    return f"{iteration.number}{' ★' if iteration is facts.best else ''}"


def _policies(
    facts: SessionReportFacts, members: Sequence[MemberScore], best: str | None = None
) -> doc.Items:
    rows: list[doc.Words] = []
    for member in members:
        name = doc.Strong(member.member) if member.member == best else doc.Mono(member.member)
        rows.append((name, _gauge(facts, member)))
    return doc.Items(tuple(rows), "rated")


def _why_best(facts: SessionReportFacts) -> Blocks:
    """Return the best policy beside the runner-up, criterion by criterion."""
    rival = facts.runner_up
    if rival is None:
        return []
    rows = [
        (
            difference.title,
            f"{figure(difference.value)} {difference.unit}".strip(),
            f"{figure(difference.other_value)} {difference.unit}".strip(),
            _credit(difference.credit),
            _credit(difference.other_credit),
        )
        for difference in rival.differences
    ]
    heads = ("criterion", "best", "runner-up", "credit of the best", "credit of the runner-up")
    return [doc.Text(words.runner_up(facts, rival)), doc.Table(heads, rows)]


def _analysis(facts: SessionReportFacts) -> Blocks:
    if facts.analysis is None:
        return []
    return [doc.Text(facts.analysis.story), *listed(facts.analysis.findings)]


_SECTIONS: dict[str, Callable[[SessionReportFacts], Blocks]] = {
    "What it looks like": _looks,
    "Criteria": _criteria,
    "What was seen": _seen,
    "How the words were read": _reading,
    "What was tried": _tried,
    "Why this one is the best": _why_best,
    "What a model makes of it": _analysis,
    "Learning curves": making.curves,
    "The reward": making.reward,
    "The judge": making.judge,
    "What it took": making.costs,
    "The policy": making.policy,
    "Do it again": making.again,
}
