"""The report of a study as a document, and its two files; the same facts give the same bytes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from telic.core.text import MISSING, figure, percent, signed, span
from telic.report import document as doc
from telic.report.charts import Bar, Tone
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.studies.evidence.monitor import entered_alerts
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.report import evidence
from telic.studies.report.facts import CandidateFacts, StudyFacts
from telic.studies.state import Incumbent
from telic.studies.study import Study

NOTES_START = "<!-- notes -->"
NOTES_END = "<!-- /notes -->"
_EMPTY_NOTES = "\nWrite here; this block stays when the report is made again.\n"
_NOTES = re.compile(re.escape(NOTES_START) + "(.*?)" + re.escape(NOTES_END), re.DOTALL)
# pyrefly: ignore[bad-assignment]
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("accepted", "good", "low", "approved"), "good"),
    **dict.fromkeys(("rejected", "reverted", "debug", "poor", "high"), "bad"),
    **dict.fromkeys(("inconclusive", "ok", "medium", "pending"), "middling"),
}
"""how states, bands and risks look"""
_NEARLY_GONE = 0.8
_LOST = ("rejected", "inconclusive", "reverted", "debug")
_RESOURCES = {
    "wall_clock_h": "wall clock (h)",
    "gpu_h": "GPU (h)",
    "cpu_core_h": "CPU cores (h)",
    "env_steps": "environment steps",
    "launches": "launches",
    "llm_usd": "models (USD)",
    "llm_tokens": "model tokens",
    "llm_calls": "model calls",
    "disk_gb": "disk (GB)",
}
Blocks = Sequence[doc.Block]


def write_report(study: Study, action: NextAction | None = None) -> StudyFolder:
    """Render the report from structured files alone; people's notes in report.md are kept.

    The same ledger, files and next action give the same bytes. Nothing is entered in the ledger.
    """
    report, folder = build_report(StudyFacts(study, action)), study.folder
    write_text(folder.report, _text(report, folder))
    write_text(folder.report_page, render_page(report, folder.path))
    return folder


def report_text(study: Study, action: NextAction | None = None) -> str:
    """Return what report.md would say; nothing is written."""
    return _text(build_report(StudyFacts(study, action)), study.folder)


def _text(report: doc.Report, folder: StudyFolder) -> str:
    """Return the report as Markdown, with what people wrote between the markers of an older one."""
    notes = kept_notes(read_text(folder.report)) if folder.report.is_file() else None
    own = _EMPTY_NOTES if notes is None else notes
    text = render_markdown(report, folder.path)
    return f"{text}\n## Notes\n\n{NOTES_START}{own}{NOTES_END}\n"


def kept_notes(older: str) -> str | None:
    """Return what people wrote between the markers; None when there are none."""
    notes = _NOTES.search(older)
    return notes.group(1) if notes else None


def build_report(facts: StudyFacts) -> doc.Report:
    """Return the document: a page leaves empty sections out, a text has twelve numbered ones."""
    sections = [
        doc.Section(title, tuple(build(facts)), number, empty)
        for title, (build, number, empty) in _SECTIONS.items()
    ]
    return doc.Report(
        facts.contract.task.statement if facts.contract else facts.folder.name,
        tuple(sections),
        doc.Section("Status", tuple(_status(facts)), 1),
        tab=f"telic study: {facts.state.study}",
        footer="Made by telic from the ledger and the evidence of this study.",
    )


def _status(facts: StudyFacts) -> Blocks:
    """Return whom the study trusts, and the study at a glance."""
    state = facts.state
    blocks: list[doc.Block] = [doc.Text(f"telic study · {state.study}", "where")]
    if state.incumbent is None:
        none = "No incumbent yet: no baseline has been accepted under this protocol."
        blocks.append(doc.Text(none))
    else:
        target = facts.spec.primary.target if facts.spec else None
        goal = "" if target is None else f"The target is {figure(target)}."
        reached = _trusted(facts, state.incumbent)
        blocks.append(doc.Hero(figure(state.incumbent.iqm), reached, goal))
    stops = [f"{stop.rule}: {stop.why}" for stop in state.fired_stops]
    is_well = state.study_status == "open" and not stops
    glance = [
        ("candidates", f"{len(state.candidates)}"),
        ("accepted", f"{state.counts.get('accepted', 0)}"),
        ("runs", f"{len(state.runs)}"),
        ("noise floor", figure(state.noise_floor)),
        ("ledger", f"{state.ledger_head.seq} events"),
    ]
    return [
        *blocks,
        doc.Callout(
            f"study {state.study_status}", " ".join(stops), "good" if is_well else "middling"
        ),
        doc.FactSheet(glance, "glance"),
    ]


def _trusted(facts: StudyFacts, incumbent: Incumbent) -> str:
    """Say in one sentence whom the study trusts and how much."""
    metric = facts.spec.primary.key if facts.spec else "metric"
    over = f"middle half of {figure(incumbent.n)} runs"
    if facts.spec and facts.spec.replication_unit == "eval_episode":
        over = f"mean of {figure(incumbent.n)} fresh episodes"
    reached = f"{metric} {figure(incumbent.iqm)} (95 % {span(incumbent.ci)}, {over})"
    return f"{incumbent.candidate} is trusted: {reached}."


def _next(facts: StudyFacts) -> Blocks:
    action = facts.action
    if action is None:
        return []
    first = tuple(f"first: {step}" for step in action.blocking)
    return [
        doc.Text((doc.Strong(action.action), f": {action.why}")),
        *([doc.Items(first)] if first else []),
        *([doc.ShellLine(action.command)] if action.command else []),
    ]


def _learning(facts: StudyFacts) -> Blocks:
    charts = evidence.learning_curves(facts)
    note = "Mean over seeds; the band reaches from the lowest seed to the highest."
    return [doc.Beside(tuple(charts)), doc.Text(note, "note")] if charts else []


def _candidates(facts: StudyFacts) -> Blocks:
    """Return every candidate, and how they descend from each other."""
    heads = ("candidate", "hypothesis", "status", "verdict", "Δ", "95 %", "PoI")
    rows = [_candidate(candidate) for candidate in facts.candidates]
    table = doc.Table(heads, rows, kind="candidates")
    return [*evidence.lineage(facts), table] if rows else []


def _candidate(candidate: CandidateFacts) -> tuple[doc.Cell, ...]:
    stats = candidate.audit.stats if candidate.audit else None
    status = candidate.state.status.value
    phase, record = (candidate.state.phase or MISSING).replace("_", " "), candidate.record
    kind = f"{candidate.state.kind.replace('_', ' ')}, {phase}"
    return (
        doc.Stack((candidate.name, doc.Soft(kind))),
        " ".join(record.hypothesis.statement.split()) if record else MISSING,
        _badge(status),
        candidate.verdict,
        signed(stats.delta if stats else None),
        span(stats.ci if stats else None),
        percent(stats.poi if stats else None),
    )


def _reward(facts: StudyFacts) -> Blocks:
    """Return what the reward's terms did, and whether it is being gamed."""
    reflection = facts.reflection
    if reflection is None:
        return []
    risk = reflection.hacking
    badge = doc.Badge(f"hacking risk {risk.level}", _TONES.get(risk.level, ""))
    reasons = [*risk.reasons]
    if reflection.insufficient_data:
        reasons.append("fewer than 8 evaluations: alignment was not judged")
    advice = {each.term: f"{each.action}: {each.why}" for each in reflection.advice}
    rows = [
        (
            term.name,
            percent(term.share),
            f"{figure(term.mean_w0)} → {figure(term.mean_w1)}",
            figure(term.trend),
            figure(term.alignment),
            ", ".join(term.flags) or MISSING,
            advice.get(term.name, ""),
        )
        for term in reflection.terms
    ]
    heads = ("term", "share", "first → last", "trend", "alignment", "flags", "advice")
    return [
        doc.Text((badge, f" {risk.score:.2f} · run {reflection.run}")),
        *([doc.Items(tuple(reasons))] if reasons else []),
        *evidence.terms(facts, reflection),
        doc.Table(heads, rows, kind="terms"),
    ]


def _robustness(facts: StudyFacts) -> Blocks:
    """Return how far the world may differ, and which candidates bring a curriculum."""
    blocks: list[doc.Block] = []
    if facts.probe is not None:
        charts = [evidence.retention(parameter) for parameter in facts.probe.parameters]
        drawn = tuple(chart for chart in charts if chart is not None)
        rows = [
            (
                parameter.path,
                figure(parameter.nominal),
                span(parameter.feasible),
            )
            for parameter in facts.probe.parameters
        ]
        heads = ("parameter", "nominal", "holds")
        blocks += [*([doc.Beside(drawn)] if drawn else []), doc.Table(heads, rows)]
    curricula = [
        (candidate.name, str(candidate.record.curriculum.get("mode", "")))
        for candidate in facts.candidates
        if candidate.record and candidate.record.curriculum
    ]
    heads = ("curriculum candidate", "mode")
    return [*blocks, *([doc.Table(heads, curricula)] if curricula else [])]


def _budget(facts: StudyFacts) -> Blocks:
    """Return what is spent, and what is left."""
    rows: list[tuple[doc.Words, ...]] = []
    budget = facts.state.budget
    for key, name in _RESOURCES.items():
        spent, reserved = getattr(budget.spent, key), getattr(budget.reserved, key)
        limit = getattr(facts.state.budget_limits, key)
        if limit is None and not spent and not reserved:
            continue
        gone = ((spent or 0.0) + (reserved or 0.0)) / limit if limit else 0.0
        tone: Tone = "middling" if gone >= _NEARLY_GONE else ""
        used: doc.Words = Bar(gone, percent(gone), tone) if limit else MISSING
        rows.append((name, used, figure(spent), figure(reserved), figure(limit)))
    heads = ("resource", "gone", "spent", "reserved", "limit")
    return [doc.Table(heads, rows)] if rows else []


def _incumbents(facts: StudyFacts) -> Blocks:
    rows = [
        (event.at, str(event.data.get("from") or MISSING), str(event.data.get("to") or ""))
        for event in facts.study.events_of("incumbent.changed")
    ]
    return [doc.Table(("at", "from", "to"), rows)] if rows else []


def _alerts(facts: StudyFacts) -> Blocks:
    rows = [
        (alert.run, alert.signature, alert.severity, "open" if alert.is_open else "over")
        for alert in entered_alerts(facts.study.events_of("monitor.alert"))
    ]
    return [doc.Table(("run", "signature", "severity", "state"), rows)] if rows else []


def _failures(facts: StudyFacts) -> Blocks:
    rows = [
        (candidate.name, candidate.state.status.value, candidate.why)
        for candidate in facts.candidates
        if candidate.state.status.value in _LOST
    ]
    return [doc.Table(("candidate", "status", "why"), rows)] if rows else []


def _contract(facts: StudyFacts) -> Blocks:
    """Return what was agreed, and who approved what."""
    contract, state = facts.contract, facts.state
    if contract is None:
        return []
    rows = [
        ("contract", f"version {figure(state.contract_version)}"),
        ("hash", (state.contract_hash or MISSING)[:12]),
        ("protocol", (state.protocol_hash or MISSING)[:12]),
        ("may be tuned", ", ".join(contract.scope.kinds) or MISSING),
        ("success", contract.task.success_definition or MISSING),
    ]
    if facts.spec is not None:
        primary = facts.spec.primary
        target = "" if primary.target is None else f", target {figure(primary.target)}"
        rails = [f"{rail.key} ({rail.rule}, {rail.severity})" for rail in facts.spec.guardrails]
        rows.append(("decides", f"{primary.key} ({primary.direction}{target})"))
        rows.append(("guardrails", ", ".join(rails) or MISSING))
    approvals: list[tuple[doc.Words, ...]] = [
        (key, _badge(held.status), held.by or MISSING, held.at or MISSING)
        for key, held in sorted(state.approvals.items())
    ]
    approvals += [
        (key, _badge("pending"), MISSING, MISSING)
        for key in state.pending_approvals
        if key not in state.approvals
    ]
    heads = ("approval", "status", "by", "at")
    return [doc.FactSheet(rows), doc.Heading("Approvals"), doc.Table(heads, approvals)]


def _reproduction(facts: StudyFacts) -> Blocks:
    """Return how the incumbent's runs were started, and what proves that nothing was changed."""
    head = facts.state.ledger_head
    lines = [f"# {run}\n{shlex.join(argv)}" for run, argv in facts.commands.items()]
    none = doc.Text("No run of an incumbent has recorded its command.")
    proof = (
        f"Ledger: {head.seq} events, head ",
        doc.Mono(head.hash),
        ". Check it with ",
        doc.Mono("telic study verify"),
        ".",
    )
    return [doc.Code("\n".join(lines), "sh") if lines else none, doc.Text(proof)]


def _badge(state: str) -> doc.Badge:
    return doc.Badge(state, _TONES.get(state, ""))


_SECTIONS: dict[str, tuple[Callable[[StudyFacts], Blocks], int | None, str]] = {
    "Next": (_next, 11, "Ask with: telic study next"),
    "Results": (evidence.results, None, ""),
    "Learning": (_learning, None, ""),
    "Last audit": (evidence.last_audit, 6, "No result has been audited."),
    "Candidates": (_candidates, 5, "None."),
    "Reward reflection": (_reward, 7, "No reward has been reflected on."),
    "Robustness and curriculum": (_robustness, 8, "No parameter of the world has been probed."),
    "Budget": (_budget, 3, "None."),
    "Incumbents": (_incumbents, 4, "None."),
    "Alerts": (_alerts, 9, "None."),
    "What was tried and did not work": (_failures, 10, "None."),
    "Contract and approvals": (_contract, 2, "There is no contract that can be read."),
    "Reproduction": (_reproduction, 12, ""),
}
"""in the order of the page: how each is built, its number in the text, what a text says instead"""
