"""The sections of a session's report about the making: curves, reward, judge, costs, going on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from telic.core.text import MISSING, duration, figure, money, percent
from telic.report import document as doc
from telic.report.charts import Bar, Shares
from telic.session.report import words
from telic.session.report.costs import Costs
from telic.session.report.facts import SessionReportFacts

UNKNOWN = "unknown"
Blocks = Sequence[doc.Block]


def listed(lines: Sequence[str]) -> list[doc.Block]:
    """Return a list, or nothing when there is nothing in it."""
    return [doc.Items(tuple(lines))] if lines else []


def curves(facts: SessionReportFacts) -> Blocks:
    """Return a chart of returns per iteration."""
    note = (
        "Return under the iteration's own reward: the line is the mean over training seeds, the "
        "band their range, dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so heights are comparable within a line only."
    )
    charts = doc.Beside(tuple(facts.curves))
    return [charts, doc.Text(note, "note")] if facts.curves else []


def reward(facts: SessionReportFacts) -> Blocks:
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
        *listed(reward.findings),
        doc.Code(reward.code, "python", "Code of the reward, as trained"),
    ]


def judge(facts: SessionReportFacts) -> Blocks:
    """Return the code of the judge, and how it did on examples whose worth is known."""
    if facts.author is None:
        return []
    note = "Whoever writes rewards never sees it. It runs on recorded episodes, confined."
    blocks: list[doc.Block] = [doc.Text(note, "note")]
    if facts.trial is not None:
        rows = [
            (
                example.name,
                "good" if example.is_good else "bad",
                words.score(example.score),
                figure(example.pay),
            )
            for example in facts.trial.examples
        ]
        heads = ("example", "should be", "judge's score", "reward pays")
        blocks += [
            doc.Heading("Tried on examples whose worth is known, before any training"),
            doc.Table(heads, rows),
            *listed((*facts.trial.judge_problems, *facts.trial.reward_problems)),
        ]
    return [*blocks, doc.Code(facts.author.judge, "python", "Code of the judge")]


def costs(facts: SessionReportFacts) -> Blocks:
    """Return where the time went, and what was spent after each iteration."""
    costs, config = facts.costs, facts.config
    if costs is None:
        return []
    times = {
        "training": costs.training_s,
        "judging": costs.judging_s,
        "waiting for models": costs.model.seconds,
        "everything else": costs.other_s or 0.0,
    }
    whole = sum(times.values()) or 1.0
    pieces = tuple((name, seconds / whole) for name, seconds in times.items())
    swatches = {name: doc.Swatch(index) for index, name in enumerate(times)}
    rows: list[tuple[doc.Words, str]] = [
        ((swatches[name], name) if name in swatches else name, value)
        for name, value in _cost_rows(costs)
    ]
    blocks: list[doc.Block] = [
        Shares("Where the time went", pieces, has_legend=False),
        doc.FactSheet(rows, heads=("what", "how much")),
    ]
    most_s = None if config.max_hours is None else 3600 * config.max_hours
    spent = [
        (
            str(sums.number),
            words.out_of(duration, sums.seconds, most_s),
            words.out_of("{:,}".format, sums.steps, config.max_steps),
            words.out_of("{:,}".format, sums.calls, config.max_calls),
            words.out_of(money, sums.usd, config.max_usd),
        )
        for sums in costs.after
    ]
    heads = ("after iteration", "time", "steps", "model calls", "price")
    return [*blocks, *([doc.Table(heads, spent)] if spent else [])]


def _cost_rows(costs: Costs) -> list[tuple[str, str]]:
    use = costs.model
    rows = [
        ("wall clock", duration(costs.total_s)),
        ("training", duration(costs.training_s)),
        ("judging", duration(costs.judging_s)),
        ("waiting for models", duration(use.seconds) if use.calls else "none was asked"),
        ("everything else", duration(costs.other_s, UNKNOWN)),
        ("environment steps", words.steps(costs.steps)),
    ]
    if use.calls:
        rows += [
            ("model", ", ".join(use.names)),
            ("model calls", f"{use.calls:,}"),
            ("tokens", UNKNOWN if use.tokens is None else f"{use.tokens:,}"),
            ("price", money(use.usd)),
        ]
    if use.failed:
        rows.append(("questions without an answer", f"{use.failed:,}, not in the tokens"))
    return rows


def policy(facts: SessionReportFacts) -> Blocks:
    """Return where the policy is and what can be done with it."""
    if facts.run is None or facts.member is None:
        return []
    where = f"{facts.run.path.relative_to(facts.folder.path)}/{facts.member.member}"
    blocks: list[doc.Block] = [doc.Text(("In the session's folder: ", doc.Mono(where), "."))]
    for what, line in words.commands(facts).items():
        blocks += [doc.Heading(what), doc.ShellLine(line)]
    return blocks


def again(facts: SessionReportFacts) -> Blocks:
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
