"""The report of a study as Markdown and HTML; the same facts give the same bytes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from telic.core.text import MISSING, figure, percent, signed, span
from telic.errors import TelicError
from telic.report import document as doc
from telic.report.charts import Bar, Row, RowChart, Tone
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.storage.files import as_record, read_fields, write_text
from telic.storage.keys import sign_text
from telic.storage.reading import read_text
from telic.studies.documents.base import read_document
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec
from telic.studies.evidence.audit import AUDIT_CHECKS, Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.reflection import Reflection
from telic.studies.evidence.robustness import ProbeSummary
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.state import CandidateState
from telic.studies.study import Study

NOTES_START = "<!-- notes -->"
NOTES_END = "<!-- /notes -->"
_EMPTY_NOTES = "\nWrite here; this block stays when the report is made again.\n"
_NOTES = re.compile(re.escape(NOTES_START) + "(.*?)" + re.escape(NOTES_END), re.DOTALL)
_CURVE_PLACES = 80
# pyrefly: ignore[bad-assignment]
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("accepted", "low", "approved", "valid_improvement"), "good"),
    **dict.fromkeys(("rejected", "reverted", "debug", "high", "no_improvement", "invalid"), "bad"),
    **dict.fromkeys(("inconclusive", "medium", "pending"), "middling"),
}
"""tones of states, verdicts and risks"""
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


class _CandidateFacts(NamedTuple):
    """A candidate with its last audit; the record is None if it cannot be read."""

    name: str
    state: CandidateState
    record: Candidate | None
    audit: Audit | None
    verdict: str
    why: str


@dataclass(frozen=True)
class _Facts:
    """The sources of a report; what a new study lacks is None or empty."""

    study: Study
    action: NextAction | None
    contract: Contract | None
    spec: MetricSpec | None
    candidates: tuple[_CandidateFacts, ...]
    measurements: dict[str, Measurement]
    last_audit: Audit | None


def write_report(study: Study, action: NextAction | None = None) -> StudyFolder:
    """Render the report from structured files alone; people's notes in report.md are kept.

    The same ledger, files and next action give the same bytes. Nothing is entered in the ledger.
    """
    report, folder = _build_report(_read(study, action)), study.folder
    write_text(folder.report, _markdown(report, folder))
    page = render_page(report, folder.path)
    write_text(folder.report_page, sign_text(page, study=study.name, head=study.ledger.head.hash))
    return folder


def report_text(study: Study, action: NextAction | None = None) -> str:
    """Return the text of report.md; nothing is written."""
    return _markdown(_build_report(_read(study, action)), study.folder)


def _markdown(report: doc.Report, folder: StudyFolder) -> str:
    notes = kept_notes(read_text(folder.report)) if folder.report.is_file() else None
    own = _EMPTY_NOTES if notes is None else notes
    text = render_markdown(report, folder.path)
    return f"{text}\n## Notes\n\n{NOTES_START}{own}{NOTES_END}\n"


def kept_notes(older: str) -> str | None:
    """Return what people wrote between the markers; None when there are none."""
    notes = _NOTES.search(older)
    return notes.group(1) if notes else None


def _read(study: Study, action: NextAction | None) -> _Facts:
    state, folder = study.state, study.folder
    contract = spec = None
    try:
        contract = read_document(folder.contract, Contract)
        spec = read_document(folder.metric_spec, MetricSpec)
    except TelicError:  # people are still writing them
        pass
    candidates: list[_CandidateFacts] = []
    for name, held in state.candidates.items():
        try:
            record = study.candidate(name)
        except TelicError:
            record = None
        audit = study.audits(name)[-1] if study.audits(name) else None
        decided = [each for each in state.decisions.values() if each.candidate == name]
        verdict = audit.verdict if audit else decided[-1].verdict if decided else MISSING
        why = (
            decided[-1].why if decided else next(iter(audit.reasons if audit else ()), held.reason)
        )
        words = verdict.replace("_", " ")
        candidates.append(_CandidateFacts(name, held, record, audit, words, why or MISSING))
    measurements: dict[str, Measurement] = {}
    for name in study.evidence_names("metrics"):
        run, payload = state.evidence[name].run, study.sheet(name).payload
        if "scores" in payload and run is not None and run in state.runs:
            measurements[run] = as_record(payload, Measurement, name)
    audits = [audit for name in state.candidates for audit in study.audits(name)]
    last = max(audits, key=lambda audit: audit.at, default=None)
    return _Facts(study, action, contract, spec, tuple(candidates), measurements, last)


def _build_report(facts: _Facts) -> doc.Report:
    sections = [
        doc.Section(title, tuple(build(facts)), number, empty)
        for title, (build, number, empty) in _SECTIONS.items()
    ]
    return doc.Report(
        facts.contract.task.statement if facts.contract else facts.study.name,
        tuple(sections),
        doc.Section("Status", tuple(_status(facts)), 1),
        tab=f"telic study: {facts.study.name}",
        footer="Made by telic from the ledger and the evidence of this study.",
    )


# ---------------------------------------------------------------------------- sections


def _status(facts: _Facts) -> Blocks:
    state = facts.study.state
    trusted, spec = state.incumbent, facts.spec
    first: doc.Block = doc.Text(
        "No incumbent yet: no baseline has been accepted under this protocol."
    )
    if trusted is not None:
        target = spec.primary.target if spec else None
        over = f"interquartile mean of {figure(trusted.n)} runs"
        metric = spec.primary.key if spec else "metric"
        reached = f"{metric} {figure(trusted.iqm)} (95 % {span(trusted.ci)}, {over})"
        first = doc.Hero(
            figure(trusted.iqm),
            f"{trusted.candidate} is trusted: {reached}.",
            "" if target is None else f"The target is {figure(target)}.",
        )
    stops = [f"{stop.rule}: {stop.why}" for stop in state.fired_stops]
    is_well = state.study_status == "open" and not stops
    tone: Tone = "good" if is_well else "middling"
    glance = [
        ("candidates", f"{len(state.candidates)}"),
        ("accepted", f"{state.counts.get('accepted', 0)}"),
        ("runs", f"{len(state.runs)}"),
        ("noise floor", figure(state.noise_floor)),
        ("ledger", f"{state.ledger_head.seq} events"),
    ]
    return [
        doc.Text(f"telic study · {state.study}", "where"),
        first,
        doc.Callout(f"study {state.study_status}", " ".join(stops), tone),
        doc.FactSheet(glance, "glance"),
    ]


def _next(facts: _Facts) -> Blocks:
    action = facts.action
    if action is None:
        return []
    first = tuple(f"first: {step}" for step in action.blocking)
    return [
        doc.Text((doc.Strong(action.action), f": {action.why}")),
        *([doc.Items(first)] if first else []),
        *([doc.ShellLine(action.command)] if action.command else []),
    ]


def _results(facts: _Facts) -> Blocks:
    """Return every audited run, the incumbent first, and the differences from the incumbent."""
    incumbent = facts.study.incumbent
    runs: list[Row] = []
    effects: list[Row] = []
    for candidate in facts.candidates:
        audit = candidate.audit
        if audit is None:
            continue
        arm, stats, tone = audit.arms["x"], audit.stats, _TONES.get(audit.verdict, "")
        is_trusted = incumbent is not None and candidate.name == incumbent.candidate
        if arm.scores:
            own: Tone = "good" if is_trusted else tone
            row = Row(candidate.name, arm.iqm, arm.ci, arm.scores, tone=own, is_chosen=is_trusted)
            runs.append(row)
        if stats.delta is not None and stats.ci is not None:
            row = Row(candidate.name, stats.delta, stats.ci, (), stats.delta_min, "", tone)
            effects.append(row)
    runs.sort(key=lambda row: not row.is_chosen)
    target = facts.spec.primary.target if facts.spec else None
    figures: list[doc.Block] = []
    if runs:
        text = "Bar: 95 % interval; tick: interquartile mean; dashed line: target."
        chart = RowChart("Scores of every audited run", tuple(runs), target)
        figures.append(doc.Figure(chart, caption=text))
    if effects:
        text = "A claim must exceed the shaded part, and its interval must exclude zero."
        title = "Differences from the incumbent of their time, with 95 % intervals"
        chart = RowChart(title, tuple(effects), zero="no difference")
        figures.append(doc.Figure(chart, caption=text))
    return figures


def _candidates(facts: _Facts) -> Blocks:
    rows: list[tuple[doc.Cell, ...]] = []
    for candidate in facts.candidates:
        stats = candidate.audit.stats if candidate.audit else None
        record, state = candidate.record, candidate.state
        kind = f"{state.kind}, {state.phase or MISSING}".replace("_", " ")
        parents = f" from {', '.join(state.parents)}" if state.parents else ""
        rows.append(
            (
                doc.Stack((candidate.name, doc.Soft(f"{kind}{parents}"))),
                " ".join(record.hypothesis.statement.split()) if record else MISSING,
                _badge(state.status.value),
                candidate.verdict,
                signed(stats.delta if stats else None),
                span(stats.ci if stats else None),
                percent(stats.poi if stats else None),
                candidate.why,
            )
        )
    heads = ("candidate", "hypothesis", "status", "verdict", "Δ", "95 %", "PoI", "why")
    return [doc.Table(heads, rows, kind="candidates")] if rows else []


def _last_audit(facts: _Facts) -> Blocks:
    audit = facts.last_audit
    if audit is None:
        return []
    stats, text = audit.stats, "There was nothing to compare."
    if audit.verdict == "baseline_established":
        text = f"The baseline repeats; its noise floor is {figure(stats.sigma_0)}."
    elif stats.delta is not None:
        text = f"{signed(stats.delta)} against {audit.incumbent} (95 % {span(stats.ci)})."
    reasons = [*audit.reasons]
    if audit.n_star is not None:
        reasons.append(f"{audit.n_star} seeds per arm would show the smallest Δ with power 80 %")
    arms = [
        (
            name or MISSING,
            str(arm.n),
            figure(arm.iqm),
            span(arm.ci),
            ", ".join(map(str, arm.seeds)),
            ", ".join(map(figure, arm.scores)),
        )
        for name, arm in zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    ]
    checks: list[doc.Words] = [
        (
            doc.Tick(check.passed),
            doc.Strong(check.id),
            f" {AUDIT_CHECKS[check.id][0]}",
            *((doc.Soft(f" {check.why}"),) if check.why else ()),
        )
        for check in audit.checks
    ]
    rails = [
        (rail.key, span(rail.ci), doc.Tick(rail.passed), rail.severity) for rail in audit.guardrails
    ]
    return [
        doc.Text(
            (doc.Strong(f"{audit.candidate}: {audit.verdict.replace('_', ' ')}."), f" {text}")
        ),
        *([doc.Items(tuple(reasons))] if reasons else []),
        doc.FactSheet(_numbers(facts, audit), heads=("number", "value")),
        doc.Table(("arm", "n", "IQM", "95 %", "seeds", "scores"), arms),
        doc.Heading("Checks"),
        doc.Items(tuple(checks), "checks"),
        *([doc.Heading("Guardrails")] if rails else []),
        *([doc.Table(("guardrail", "95 %", "holds", "severity"), rails)] if rails else []),
    ]


def _numbers(facts: _Facts, audit: Audit) -> list[tuple[str, str]]:
    stats = audit.stats
    record = next((x.record for x in facts.candidates if x.name == audit.candidate), None)
    expected = record.hypothesis.expected if record else None
    test = "p (paired t)" if stats.is_paired else "p (Welch, one-sided)"
    chances = {
        "p (signs of the pairs)" if stats.is_counted else test: stats.welch_p,
        "p after Holm": stats.holm_p,
        "p (exact Mann-Whitney)": stats.mwu_p,
    }
    return [
        ("Δ (IQM)", signed(stats.delta)),
        ("Δ that its author expected", figure(expected.magnitude if expected else None)),
        ("95 % interval", span(stats.ci)),
        ("smallest Δ that counts", figure(stats.delta_min)),
        *(
            (name, MISSING if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}")
            for name, p in chances.items()
        ),
        ("probability of improvement", percent(stats.poi)),
        ("look, alpha", f"{stats.look}, {stats.alpha:g}"),
        ("noise floor σ₀", figure(stats.sigma_0)),
        ("seed of the resampling", audit.prng_seed),
        ("audit", f"{audit.id}, {audit.label}"),
    ]


def _reward(facts: _Facts) -> Blocks:
    sheet = facts.study.latest("reflection")
    if sheet is None:
        return []
    reflection = Reflection.parse(sheet.payload)
    risk, reasons = reflection.hacking, [*reflection.hacking.reasons]
    if reflection.insufficient_data:
        reasons.append("fewer than 8 evaluations: alignment was not judged")
    rows = [
        (
            term.name,
            percent(term.share),
            f"{figure(term.mean_w0)} → {figure(term.mean_w1)}",
            figure(term.trend),
            figure(term.alignment),
            ", ".join(term.flags) or MISSING,
        )
        for term in reflection.terms
    ]
    heads = ("term", "share", "first → last", "trend", "alignment", "flags")
    badge = doc.Badge(f"hacking risk {risk.level}", _TONES.get(risk.level, ""))
    return [
        doc.Text((badge, f" {risk.score:.2f} · run {reflection.run}")),
        *([doc.Items(tuple(reasons))] if reasons else []),
        doc.Table(heads, rows, kind="terms"),
    ]


def _robustness(facts: _Facts) -> Blocks:
    sheet = facts.study.latest("dr_probe")
    if sheet is None:
        return []
    rows = [
        (
            parameter.path,
            figure(parameter.nominal),
            span(parameter.feasible),
            ", ".join(f"{figure(x.value)}: {percent(x.retention)}" for x in parameter.points),
        )
        for parameter in ProbeSummary.parse(sheet.payload).parameters
    ]
    return [doc.Table(("parameter", "nominal", "holds", "retention"), rows)]


def _budget(facts: _Facts) -> Blocks:
    rows: list[tuple[doc.Words, ...]] = []
    state = facts.study.state
    for key, name in _RESOURCES.items():
        spent, reserved = getattr(state.budget.spent, key), getattr(state.budget.reserved, key)
        limit = getattr(state.budget_limits, key)
        if limit is None and not spent and not reserved:
            continue
        gone = ((spent or 0.0) + (reserved or 0.0)) / limit if limit else 0.0
        tone: Tone = "middling" if gone >= 0.8 else ""
        used: doc.Words = Bar(gone, percent(gone), tone) if limit else MISSING
        rows.append((name, used, figure(spent), figure(reserved), figure(limit)))
    heads = ("resource", "used", "spent", "reserved", "limit")
    return [doc.Table(heads, rows)] if rows else []


def _contract(facts: _Facts) -> Blocks:
    contract, state, spec = facts.contract, facts.study.state, facts.spec
    if contract is None:
        return []
    rows = [
        ("contract", f"version {figure(state.contract_version)}"),
        ("hash", (state.contract_hash or MISSING)[:12]),
        ("protocol", (state.protocol_hash or MISSING)[:12]),
        ("may be tuned", ", ".join(contract.scope.kinds) or MISSING),
        ("success", contract.task.success_definition or MISSING),
    ]
    if spec is not None:
        target = "" if spec.primary.target is None else f", target {figure(spec.primary.target)}"
        rails = [f"{rail.key} ({rail.rule}, {rail.severity})" for rail in spec.guardrails]
        rows.append(("primary metric", f"{spec.primary.key} ({spec.primary.direction}{target})"))
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


def _reproduction(facts: _Facts) -> Blocks:
    """Return the commands of the incumbent's runs, and the head of the ledger."""
    state, folder = facts.study.state, facts.study.folder
    lines: list[str] = []
    for run in state.runs_of(state.incumbent.candidate) if state.incumbent else ():
        path = folder.run(run) / "cmd.json"
        if path.is_file():
            argv = read_fields(path, argv=list[str] | None)["argv"] or []
            lines.append(f"# {run}\n{shlex.join(argv)}")
    none = doc.Text("No run of an incumbent has recorded its command.")
    proof = (
        f"Ledger: {state.ledger_head.seq} events, head ",
        doc.Mono(state.ledger_head.hash),
        ". Check it with ",
        doc.Mono("telic verify"),
        ".",
    )
    return [doc.Code("\n".join(lines), "sh") if lines else none, doc.Text(proof)]


def _badge(state: str) -> doc.Badge:
    return doc.Badge(state, _TONES.get(state, ""))


_SECTIONS: dict[str, tuple[Callable[[_Facts], Blocks], int | None, str]] = {
    "Next": (_next, 8, "Ask with: telic study next"),
    "Results": (_results, None, ""),
    "Last audit": (_last_audit, 5, "No result has been audited."),
    "Candidates": (_candidates, 4, "None."),
    "Reward reflection": (_reward, 6, "No reward has been reflected on."),
    "Robustness": (_robustness, 7, "No parameter of the world has been probed."),
    "Budget": (_budget, 3, "None."),
    "Contract and approvals": (_contract, 2, "The contract cannot be read."),
    "Reproduction": (_reproduction, 9, ""),
}
"""in the order of the page: builder, number in the text, text of an empty section"""
