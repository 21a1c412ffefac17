"""The report of a session as a document: the result, the attempts, the making, and how to go on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.events import Listener, ignore
from telic.core.text import MISSING, count, duration, figure, money, percent
from telic.judges.criteria import Composition
from telic.report import document as doc
from telic.report.charts import Bar, Gauge, Node, Tree
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.session.records import SessionConfig, SessionSummary
from telic.session.report import words
from telic.session.report.best import credit_bar, looks, why_best
from telic.session.report.costs import what_it_took
from telic.session.report.facts import SessionReportFacts, Troubles, gather, read_session
from telic.session.report.trust import carries, obeys, said_by_people, the_judge
from telic.session.report.words import Blocks
from telic.storage.files import write_text
from telic.storage.layout import SessionFolder


def write_report(
    folder: SessionFolder,
    config: SessionConfig,
    author: Composition | None,
    history: list[SessionIteration],
    summary: SessionSummary,
    tell: Listener = ignore,
    *,
    redraws: bool = True,
) -> None:
    """Write the report of a session as it stands, finished or not: report.html and report.md.

    It never fails the session: what cannot be read, drawn or written is told as a "log" event, and
    listed at the end of the report.
    """
    troubles = Troubles(tell)
    told = SessionReportFacts(folder, config, author, history, summary, redraws=redraws)
    facts = gather(told, troubles)
    report = build_report(facts, troubles)
    with troubles.sparing(folder.page.name):
        write_text(folder.page, render_page(_with_lacks(report, troubles), folder.path))
    with troubles.sparing(folder.report.name):
        write_text(folder.report, render_markdown(_with_lacks(report, troubles), folder.path))


def rewrite_report(folder: SessionFolder, *, redraws: bool = True) -> None:
    """Write the report of a session that has ended anew, from its records."""
    told = read_session(folder)
    parts = told.config, told.author, told.history, told.summary
    write_report(folder, *parts, redraws=redraws)


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
        tab=f"{words.outcome(facts)}: {facts.config.intent}",
        footer=("Made by telic from the records of ", doc.Mono(facts.folder.name)),
    )


def _with_lacks(report: doc.Report, troubles: Troubles) -> doc.Report:
    if not troubles.lines:
        return report
    lacks = doc.Section("What this report lacks", (doc.Items(tuple(troubles.lines), "lacks"),))
    return replace(report, sections=(*report.sections, lacks))


def _listed(lines: Sequence[str]) -> list[doc.Block]:
    """Return a list, or nothing when there is nothing in it."""
    return [doc.Items(tuple(lines))] if lines else []


def _sentences(reasons: Sequence[str]) -> list[str]:
    return [f"{reason[0].upper()}{reason[1:].rstrip('.')}." for reason in reasons]


def _verdict(facts: SessionReportFacts) -> Blocks:
    """Return the outcome, the proof, and what each training seed proves against the threshold."""
    summary, best = facts.summary, facts.best
    outcome = words.outcome(facts)
    ended = f"{outcome.lower()} after {count(summary.iterations, 'iteration')}"
    took = duration(summary.seconds)
    tone = "good" if summary.outcome == "passed" else "middling"
    blocks: list[doc.Block] = [
        doc.Text(f"{facts.config.env}: {ended} and {took} · {summary.session}", "where"),
        doc.Callout(outcome, " ".join([*_sentences(summary.reasons), words.proof(facts)]), tone),
        *_listed([f"Not judged: {reason}" for reason in words.unjudged(facts)]),
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
    value, interval = member.judgement.score, words.spread(member.judgement)
    if value is None:
        return "unknown"
    low, high = interval or (value, value)
    return Gauge(low, value, high, facts.config.threshold, words.scored(member))


def _at_a_glance(facts: SessionReportFacts) -> list[tuple[str, str]]:
    summary, config, costs = facts.summary, facts.config, facts.costs
    rows = [
        ("score", words.score(summary.score)),
        ("proven (95 %)", words.score(summary.low)),
        *([("episodes that pass", words.passing_share(summary))] if summary.episodes else []),
        ("needed", f"{config.threshold:.2f}"),
        ("iterations", f"{summary.iterations} of {config.iterations}"),
        ("steps", words.steps(summary.steps)),
        ("time", duration(summary.seconds)),
    ]
    return rows + ([("models", money(costs.model.usd))] if costs and costs.model.calls else [])


def criteria_table(facts: SessionReportFacts) -> Blocks:
    """Return what was measured, against what was wanted."""
    member = facts.member
    if member is None or not member.judgement.leaves:
        return _listed(
            [criterion.title for criterion in facts.author.criteria] if facts.author else []
        )
    leaves = words.parts(member.judgement)
    rows = [
        (
            title,
            words.counts(leaves[title], facts),
            words.target(leaves[title]),
            f"{figure(value)} {leaves[title].unit}".strip(),
            credit_bar(credit),
        )
        for title, (credit, value) in member.judgement.leaves.items()
    ]
    note = (
        f"Of the best policy ({member.member}), over {member.judgement.episodes} fresh episodes. "
        "A guard rules out look-alikes: the whole score is multiplied by its credit."
    )
    heads = ("criterion", "counts", "target", "measured (median)", "credit")
    return [doc.Table(heads, rows), *_listed(words.beside_best(facts)), doc.Text(note, "note")]


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
    return [doc.Table(heads, rows), *(_listed(differ) or [agree])]


def _reading(facts: SessionReportFacts) -> Blocks:
    said = _listed(words.reading(facts)) or [doc.Text("No word was doubtful or left out.")]
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
    learned = _listed(words.lessons(facts))
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
        "nothing" if iteration.passed else ", ".join(iteration.tags) or "nothing",
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


def _analysis(facts: SessionReportFacts) -> Blocks:
    if facts.analysis is None:
        return []
    return [doc.Text(facts.analysis.story), *_listed(facts.analysis.findings)]


def _curves(facts: SessionReportFacts) -> Blocks:
    """Return a chart of returns per iteration."""
    note = (
        "Return under the iteration's own reward: the line is the mean over training seeds, the "
        "band their range, dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so heights are comparable within a line only."
    )
    charts = doc.Beside(tuple(facts.curves))
    return [charts, doc.Text(note, "note")] if facts.curves else []


def _reward(facts: SessionReportFacts) -> Blocks:
    """Return formula, share of each term, and code of the best policy's reward."""
    reward = facts.reward
    if reward is None:
        first = facts.author.reward if facts.author else None
        return [doc.Code(first, "python", "Reward as first written")] if first else []
    rows: list[tuple[doc.Words, ...]] = []
    for term in reward.terms:
        is_cost = term.total is not None and term.total < 0
        share: doc.Words = MISSING
        if term.share is not None:
            said = f"{percent(term.share)}{' (a cost)' if is_cost else ''}"
            share = Bar(term.share, said, "cost" if is_cost else "")
        weight, total = figure(term.weight), figure(term.total)
        rows.append((doc.Mono(term.name), term.words, weight, total, share))
    heads = ("term", "what it is", "weight", "over an episode", "share")
    return [
        *([doc.Formula(reward.latex)] if reward.latex else []),
        *([doc.Table(heads, rows)] if rows else []),
        *_listed(reward.findings),
        doc.Code(reward.code, "python", "Code of the reward, as trained"),
    ]


def _policy(facts: SessionReportFacts) -> Blocks:
    """Return where the policy is and what can be done with it."""
    if facts.run is None or facts.member is None:
        return []
    where = f"{facts.run.path.relative_to(facts.folder.path)}/{facts.member.member}"
    blocks: list[doc.Block] = [doc.Text(("In the session's folder: ", doc.Mono(where), "."))]
    for what, line in words.commands(facts).items():
        blocks += [doc.Heading(what), doc.ShellLine(line)]
    return blocks


def _again(facts: SessionReportFacts) -> Blocks:
    """Return the command that asks for the same again, and what it was made with."""
    manifest = facts.manifest
    versions = manifest.get("versions", {})
    rows = [("session", facts.folder.name)]
    rows += [(name, str(version)) for name, version in versions.items() if version]
    rows += [
        (name, str(manifest[name]))
        for name in ("python", "platform", "processors", "created_at")
        if manifest.get(name) is not None
    ]
    rows += [("reward, SHA-256", _hash(facts.reward.code))] if facts.reward else []
    rows += [("judge, SHA-256", _hash(facts.author.judge))] if facts.author else []
    return [
        doc.ShellLine(words.command(facts.config, facts.folder.config)),
        doc.FactSheet(
            [(name, doc.Mono(value)) for name, value in rows], heads=("what", "version or hash")
        ),
    ]


def _hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


_SECTIONS: dict[str, Callable[[SessionReportFacts], Blocks]] = {
    "What it looks like": looks,
    "Criteria": criteria_table,
    "How it obeys": obeys,
    "How far it carries": carries,
    "What was seen": _seen,
    "What people say": said_by_people,
    "How the words were read": _reading,
    "What was tried": _tried,
    "Why this one is the best": why_best,
    "What a model makes of it": _analysis,
    "Learning curves": _curves,
    "The reward": _reward,
    "The judge": the_judge,
    "What it took": what_it_took,
    "The policy": _policy,
    "Do it again": _again,
}
