"""Report of an intent benchmark: the pass rates, and a card for each case."""

from __future__ import annotations

from pathlib import Path

from telic.bench.results import BenchmarkSummary, CaseResult
from telic.core.text import count, duration, figure, money, percent
from telic.report import document as doc
from telic.report.charts import Bar, Gauge, Tone
from telic.session._report_sections import FULL_CREDIT
from telic.session.records import OUTCOMES, outcome_words

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


def build_report(summary: BenchmarkSummary, folder: Path) -> doc.Report:
    """Build the report with overall pass rate, pass rates by group, and a card for each case."""
    rate, brand = summary.overall, doc.Text("telic benchmark", "where")
    head: list[doc.AnyBlock] = [
        brand,
        doc.Text(f"{summary.suite}: no case has finished yet"),
    ]
    if rate.share is not None and rate.low is not None and rate.high is not None:
        interval = f"{percent(rate.low)} to {percent(rate.high)} with 95 % confidence"
        gauge = Gauge(rate.low, rate.share, rate.high, None, interval)
        facts = [
            ("passed", f"{rate.passed} of {rate.total}"),
            ("median time to pass", duration(summary.median_seconds_to_pass)),
            ("median steps to pass", figure(summary.median_steps_to_pass)),
            ("total time of all cases", duration(summary.seconds)),
            ("model cost", money(summary.usd)),
        ]
        note = "of the prompts were learned by a policy"
        head = [
            brand,
            doc.Hero(percent(rate.share), note, (summary.about, gauge)),
            doc.FactSheet(facts, "glance"),
        ]
        notes = [f"{rate.total} of the suite's {summary.cases_in_suite} cases"]
        notes = notes if rate.total < summary.cases_in_suite else []
        notes += [f"not finished: {', '.join(summary.waiting)}"] if summary.waiting else []
        head += [doc.Text(f"{'; '.join(notes)}.", "note")] if notes else []
    groups = [*summary.by_difficulty, *summary.by_category, *summary.by_env]
    rows: list[tuple[doc.Words, ...]] = [
        (
            each.name,
            f"{each.rate.passed} of {each.rate.total}",
            Bar(each.rate.share or 0.0, percent(each.rate.share or 0.0), ""),
        )
        for each in groups
    ]
    cards = tuple(_card(result, folder) for result in summary.results)
    options = {"author": "the composer", **summary.config.options}
    options["author"] = options.pop("model", None) or options["author"]
    parts = [f"{key} {value}" for key, value in options.items() if value not in (None, False)]
    sections = (
        doc.Section("", (doc.Table(("difficulty, category or robot", "passed", "rate"), rows),)),
        doc.Section("", (doc.Cards(cards),)),
    )
    return doc.Report(
        summary.suite,
        sections if cards else (),
        doc.Section("", tuple(head)),
        tab=f"telic · {summary.suite}",
        footer=f"telic {summary.config.telic} · {' · '.join(parts)}",
    )


def _card(result: CaseResult, folder: Path) -> doc.Card:
    """Build the card of a case: pictures, measured values, shortcomings and cost."""
    case, blocks = result.case, list[doc.AnyBlock]()
    pictures: list[doc.Picture | doc.Video] = []
    if result.video:
        says = f"median episode of “{case.intent}”"
        pictures.append(doc.Video(folder / result.video, says, plays=False))
    if result.strip:
        pictures.append(doc.Picture(folder / result.strip, "frames of the median episode"))
    if result.score is not None:
        proven = "" if result.low is None else f"proves {result.low:.2f}"
        blocks.append(doc.Hero(f"{result.score:.2f}", "", proven))
    if result.criteria:
        rows: list[tuple[doc.Words, ...]] = []
        for each in result.criteria:
            tone: Tone = "good" if each.credit >= FULL_CREDIT else "middling"
            measured = f"{figure(each.value)} {each.unit}".strip()
            rows.append((each.title, measured, Bar(each.credit, percent(each.credit), tone)))
        blocks.append(doc.Table(("criterion", "measured", "credit"), rows))
    if result.checks:
        held = ", ".join(f"{title} {percent(share)}" for title, share in result.checks.items())
        blocks.append(doc.Text(f"checks of the suite: {held}", "note"))
    missing = [f"not understood: {', '.join(result.not_understood)}"]
    reasons = [result.reason or "", *(missing if result.not_understood else [])]
    blocks += [doc.Text(reason, "reason") for reason in reasons if reason]
    costs = [
        count(result.iterations, "iteration") if result.iterations else "",
        f"{result.env_steps / 1e6:.2g} M steps" if result.env_steps else "",
        duration(result.seconds),
        f"${result.usd:.2f}" if result.usd else "",
    ]
    note: doc.Words = " · ".join(filter(None, costs))
    if result.session:
        note = f"{note} · ", doc.Link("report", f"{result.session}/report.html")
    state = doc.Badge(WORDS[result.outcome], _TONES.get(result.outcome, "bad"))
    chips = (case.env, case.category, case.difficulty)
    return doc.Card(case.intent, state, chips, tuple(pictures), (*blocks, doc.Text(note, "note")))
