"""The result of a benchmark of intents as a report: how many became policies, and each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telic.bench.results import CaseGroup, CaseResult, Tally
from telic.core.text import count, duration, figure, money, percent
from telic.report import document as doc
from telic.report.charts import Bar, Gauge, Row, RowChart, Tone
from telic.session.outcome import OUTCOMES, outcome_words

WORDS = {
    **{outcome: outcome_words(outcome) for outcome in OUTCOMES},
    "unconfirmed": "not confirmed",
    "refused": "refused",
    "error": "error",
}
_TONES: dict[str, Tone] = {
    "passed": "good",
    "unconfirmed": "middling",
    "unproven": "middling",
    "passed_in_part": "middling",
    "refused": "",
}
_FULL_CREDIT = 0.995


def build_report(tally: Tally, folder: Path) -> doc.Report:
    """Return the document: the pass rate, what it depends on, and a card per case."""
    panels = (
        _bars("by difficulty", tally.by_difficulty),
        _bars("by category", tally.by_category),
        _bars("by robot", tally.by_env),
    )
    cards = tuple(_card(result, folder) for result in tally.results)
    sections = (
        doc.Section("", (doc.Beside(panels, "panels"),)),
        doc.Section("", (doc.Cards(cards),)),
    )
    return doc.Report(
        tally.suite,
        sections if cards else (),
        doc.Section("", tuple(_headline(tally))),
        tab=f"telic · {tally.suite}",
        footer=_settings(tally),
    )


def _headline(tally: Tally) -> list[doc.Block]:
    rate = tally.overall
    brand = doc.Text("telic benchmark", "where")
    if rate.share is None or rate.low is None or rate.high is None:
        return [brand, doc.Text(f"{tally.suite}: no case has come to an end yet")]
    said = "of the intents became a policy that does them"
    interval = f"{percent(rate.low)} to {percent(rate.high)} with 95 % confidence"
    gauge = Gauge(rate.low, rate.share, rate.high, None, interval)
    facts = [
        ("passed", f"{rate.passed} of {rate.total}"),
        ("median time to a pass", duration(tally.median_seconds_to_pass)),
        ("median steps to a pass", figure(tally.median_steps_to_pass)),
        ("all cases took", duration(tally.seconds)),
        ("models cost", money(tally.usd)),
    ]
    return [
        brand,
        doc.Hero(percent(rate.share), said, (tally.about, gauge)),
        doc.FactSheet(facts, "glance"),
        *_missing(tally),
    ]


def _missing(tally: Tally) -> list[doc.Block]:
    """Say what the rate does not cover."""
    ran = tally.overall.total
    notes = [f"{ran} of the suite's {tally.cases_in_suite} cases"] * (ran < tally.cases_in_suite)
    if tally.waiting:
        notes.append(f"not finished: {', '.join(tally.waiting)}")
    return [doc.Text(f"{'; '.join(notes)}.", "note")] if notes else []


def _bars(title: str, groups: Sequence[CaseGroup]) -> doc.Figure:
    """Return one bar per group: the pass rate and its interval."""
    rows: list[Row] = []
    for group in groups:
        rate = group.rate
        ends = None if rate.low is None or rate.high is None else (rate.low, rate.high)
        note = f"{rate.passed} of {rate.total}"
        rows.append(Row(group.name.removesuffix("-v5"), rate.share, ends, note=note))
    return doc.Figure(RowChart(f"pass rate {title}", tuple(rows), are_shares=True), title)


def _card(result: CaseResult, folder: Path) -> doc.Card:
    """Return what a case looks like, its measured values, and what is lacking."""
    case = result.case
    pictures: list[doc.Picture | doc.Video] = []
    if result.video:
        says = f"the median episode of “{case.intent}”"
        pictures.append(doc.Video(folder / result.video, says, plays=False))
    if result.strip:
        pictures.append(doc.Picture(folder / result.strip, "moments of the median episode"))
    state = doc.Badge(WORDS[result.outcome], _TONES.get(result.outcome, "bad"))
    chips = (case.env, case.category, case.difficulty)
    return doc.Card(case.intent, state, chips, tuple(pictures), tuple(_known(result)))


def _known(result: CaseResult) -> list[doc.Block]:
    blocks: list[doc.Block] = []
    if result.score is not None:
        proven = "" if result.low is None else f"proves {result.low:.2f}"
        blocks.append(doc.Hero(f"{result.score:.2f}", "", proven))
    if result.criteria:
        rows = [
            (
                criterion.title,
                f"{figure(criterion.value)} {criterion.unit}".strip(),
                _credit(criterion.credit),
            )
            for criterion in result.criteria
        ]
        blocks.append(doc.Table(("criterion", "measured", "credit"), rows))
    if result.checks:
        parts = ", ".join(f"{title} {percent(share)}" for title, share in result.checks.items())
        blocks.append(doc.Text(f"checked by the suite: {parts}", "note"))
    blocks += [doc.Text(result.reason, "reason")] if result.reason else []
    if result.not_understood:
        said = f"not understood: {', '.join(result.not_understood)}"
        blocks.append(doc.Text(said, "reason"))
    return [*blocks, doc.Text(_costs(result), "note")]


def _credit(credit: float) -> Bar:
    return Bar(credit, percent(credit), "good" if credit >= _FULL_CREDIT else "middling")


def _costs(result: CaseResult) -> doc.Words:
    facts = [
        count(result.iterations, "iteration") if result.iterations else "",
        f"{result.env_steps / 1e6:.2g} M steps" if result.env_steps else "",
        duration(result.seconds),
        f"${result.usd:.2f}" if result.usd else "",
    ]
    said = " · ".join(fact for fact in facts if fact)
    if not result.session:
        return said
    return f"{said} · ", doc.Link("report", f"{result.session}/report.html")


def _settings(tally: Tally) -> str:
    options = {"author": "the composer", **tally.config.options}
    model = options.pop("model", None)
    if model is not None:
        options["author"] = model
    parts = [f"{key} {value}" for key, value in options.items() if value not in (None, False)]
    return f"telic {tally.config.telic} · {' · '.join(parts)}"
