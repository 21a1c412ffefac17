"""Render a study report as deterministic Markdown and HTML."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence

from telic.core.text import MISSING, figure, percent, signed, span
from telic.errors import TelicError
from telic.report import document as doc
from telic.report.charts import Bar, ForestRow, RowChart, Tone
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.storage.files import read_fields, write_text
from telic.storage.keys import sign_text
from telic.storage.reading import read_text
from telic.studies.documents.base import read_document
from telic.studies.documents.candidate import Hypothesis
from telic.studies.documents.contract import Contract, MetricSpec
from telic.studies.evidence.audit import AUDIT_CHECKS, Audit
from telic.studies.evidence.review import Reflection
from telic.studies.evidence.robustness import ProbeSummary
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.study import Study

NOTES_START = "<!-- notes -->"
NOTES_END = "<!-- /notes -->"
_EMPTY_NOTES = "\nWrite notes here. They are kept when the report is regenerated.\n"
_NOTES = re.compile(re.escape(NOTES_START) + "(.*?)" + re.escape(NOTES_END), re.DOTALL)
# pyrefly: ignore[bad-assignment]
_TONES: dict[str, Tone] = {
    **dict.fromkeys(("accepted", "low", "approved", "valid_improvement"), "good"),
    **dict.fromkeys(("rejected", "reverted", "debug", "high", "no_improvement", "invalid"), "bad"),
    **dict.fromkeys(("inconclusive", "medium", "pending"), "middling"),
}
"""color class by status, verdict or risk level"""
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
Blocks = Sequence[doc.AnyBlock]


def write_study_report(study: Study, action: NextAction | None = None) -> StudyFolder:
    """Render the report from the study's files, preserving the user's notes in report.md.

    The output depends only on the ledger, the files and the next action.
    """
    report, folder = _Sections(study, action).report(), study.folder
    write_text(folder.report, _markdown(report, folder))
    page = render_page(report, folder.path)
    write_text(folder.report_page, sign_text(page, study=study.name, head=study.ledger.head.hash))
    return folder


def report_text(study: Study, action: NextAction | None = None) -> str:
    """Return the text of report.md without writing it."""
    return _markdown(_Sections(study, action).report(), study.folder)


def _markdown(report: doc.Report, folder: StudyFolder) -> str:
    notes = kept_notes(read_text(folder.report)) if folder.report.is_file() else None
    own = _EMPTY_NOTES if notes is None else notes
    text = render_markdown(report, folder.path)
    return f"{text}\n## Notes\n\n{NOTES_START}{own}{NOTES_END}\n"


def kept_notes(older: str) -> str | None:
    """Return the user's notes between the markers, or None if the markers are missing."""
    notes = _NOTES.search(older)
    return notes.group(1) if notes else None


def _badge(state: str) -> doc.Badge:
    return doc.Badge(state, _TONES.get(state, ""))


class _Sections:
    """Sections of the report. Data that does not exist yet is None or empty."""

    def __init__(self, study: Study, action: NextAction | None) -> None:
        self.study, self.state, self.action = study, study.state, action
        self.contract, self.spec = None, None
        with contextlib.suppress(TelicError):  # not completed yet
            self.contract = read_document(study.folder.contract, Contract)
            self.spec = read_document(study.folder.metric_spec, MetricSpec)
        self.audits = {x: study.audits(x)[-1] for x in study.state.candidates if study.audits(x)}
        self.target = self.spec.primary.target if self.spec else None

    def report(self) -> doc.Report:
        # In page order: blocks, number in the text, placeholder of an empty section.
        sections: dict[str, tuple[Blocks, int | None, str]] = {
            "Next": (self._next(), 8, "Ask with: telic study next"),
            "Results": (self._results(), None, ""),
            "Last audit": (self._last_audit(), 5, "No result has been audited."),
            "Candidates": (self._candidates(), 4, "None."),
            "Reward reflection": (self._reward(), 6, "No reward has been analyzed."),
            "Robustness": (self._robustness(), 7, "No parameter has been probed."),
            "Budget": (self._budget(), 3, "None."),
            "Contract and approvals": (self._contract(), 2, "The contract cannot be read."),
            "Reproduction": (self._reproduction(), 9, ""),
        }
        return doc.Report(
            self.contract.task.statement if self.contract else self.study.name,
            tuple(doc.Section(title, tuple(x), n, e) for title, (x, n, e) in sections.items()),
            doc.Section("Status", tuple(self._status()), 1),
            tab=f"telic study: {self.study.name}",
            footer="Generated by telic from the ledger and the evidence of this study.",
        )

    def _status(self) -> Blocks:
        state, trusted = self.state, self.state.incumbent
        first: doc.AnyBlock = doc.Text(
            "No incumbent yet: no baseline has been accepted under this protocol."
        )
        if trusted is not None:
            over = f"interquartile mean of {figure(trusted.n)} runs"
            metric = self.spec.primary.key if self.spec else "metric"
            reached = f"{metric} {figure(trusted.iqm)} (95 % {span(trusted.ci)}, {over})"
            first = doc.Hero(
                figure(trusted.iqm),
                f"{trusted.candidate} is trusted: {reached}.",
                "" if self.target is None else f"The target is {figure(self.target)}.",
            )
        stops = [f"{stop.rule}: {stop.why}" for stop in state.fired_stops]
        tone: Tone = "good" if state.study_status == "open" and not stops else "middling"
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

    def _next(self) -> Blocks:
        action = self.action
        if action is None:
            return []
        first = tuple(f"first: {step}" for step in action.blocking)
        return [
            doc.Text((doc.Strong(action.action), f": {action.why}")),
            *([doc.Items(first)] if first else []),
            *([doc.ShellLine(action.command)] if action.command else []),
        ]

    def _results(self) -> Blocks:
        """Return all audited runs, starting with the incumbent, and their differences from it."""
        trusted = self.state.incumbent and self.state.incumbent.candidate
        runs: list[ForestRow] = []
        effects: list[ForestRow] = []
        for name, audit in sorted(self.audits.items(), key=lambda item: item[0] != trusted):
            arm, stats, tone = audit.arms["x"], audit.stats, _TONES.get(audit.verdict, "")
            if arm.scores:
                own: Tone = "good" if name == trusted else tone
                chosen = name == trusted
                runs.append(
                    ForestRow(name, arm.iqm, arm.ci, arm.scores, tone=own, is_chosen=chosen)
                )
            if stats.delta is not None and stats.ci is not None:
                effects.append(ForestRow(name, stats.delta, stats.ci, (), stats.delta_min, tone))
        figures: list[doc.AnyBlock] = []
        if runs:
            text = "Bar: 95 % interval; tick: interquartile mean; dashed line: target."
            chart = RowChart("Scores of every audited run", tuple(runs), self.target)
            figures.append(doc.Figure(chart, caption=text))
        if effects:
            text = "A gain must exceed the shaded area, and its interval must exclude zero."
            title = "Differences from the incumbent at the time, with 95 % intervals"
            chart = RowChart(title, tuple(effects), zero="no difference")
            figures.append(doc.Figure(chart, caption=text))
        return figures

    def _hypothesis(self, name: str) -> Hypothesis | None:
        try:
            return self.study.candidate(name).hypothesis
        except TelicError:  # unreadable file
            return None

    def _candidates(self) -> Blocks:
        rows: list[tuple[doc.Cell, ...]] = []
        decided = {each.candidate: each for each in self.state.decisions.values()}
        for name, held in self.state.candidates.items():
            audit, last, idea = self.audits.get(name), decided.get(name), self._hypothesis(name)
            stats = audit.stats if audit else None
            verdict = audit.verdict if audit else last.verdict if last else MISSING
            why = last.why if last else next(iter(audit.reasons if audit else ()), held.reason)
            kind = f"{held.kind}, {held.phase or MISSING}".replace("_", " ")
            parents = f" from {', '.join(held.parents)}" if held.parents else ""
            rows.append(
                (
                    doc.Stack((name, doc.Soft(f"{kind}{parents}"))),
                    " ".join(idea.statement.split()) if idea else MISSING,
                    _badge(held.status.value),
                    verdict.replace("_", " "),
                    signed(stats.delta if stats else None),
                    span(stats.ci if stats else None),
                    percent(stats.poi if stats else None),
                    why or MISSING,
                )
            )
        heads = ("candidate", "hypothesis", "status", "verdict", "Δ", "95 %", "PoI", "why")
        return [doc.Table(heads, rows, kind="candidates")] if rows else []

    def _last_audit(self) -> Blocks:
        audit = max(self.audits.values(), key=lambda audit: audit.at, default=None)
        if audit is None:
            return []
        stats, text = audit.stats, "No incumbent was available for comparison."
        if audit.verdict == "baseline_established":
            text = f"The baseline was repeated; its noise floor is {figure(stats.sigma_0)}."
        elif stats.delta is not None:
            text = f"{signed(stats.delta)} against {audit.incumbent} (95 % {span(stats.ci)})."
        reasons = [*audit.reasons]
        if audit.n_star is not None:
            needed = f"{audit.n_star} seeds per arm detect the smallest relevant Δ with power 80 %"
            reasons.append(needed)
        arms = [
            (
                name or MISSING,
                str(arm.n),
                figure(arm.iqm),
                span(arm.ci),
                ", ".join(map(str, arm.seeds)),
                ", ".join(map(figure, arm.scores)),
            )
            for name, arm in zip(
                (audit.candidate, audit.incumbent), audit.arms.values(), strict=False
            )
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
        rails = [(x.key, span(x.ci), doc.Tick(x.passed), x.severity) for x in audit.guardrails]
        title = doc.Strong(f"{audit.candidate}: {audit.verdict.replace('_', ' ')}.")
        return [
            doc.Text((title, f" {text}")),
            *([doc.Items(tuple(reasons))] if reasons else []),
            doc.FactSheet(self._numbers(audit), heads=("number", "value")),
            doc.Table(("arm", "n", "IQM", "95 %", "seeds", "scores"), arms),
            doc.Heading("Checks"),
            doc.Items(tuple(checks), "checks"),
            *([doc.Heading("Guardrails")] if rails else []),
            *([doc.Table(("guardrail", "95 %", "holds", "severity"), rails)] if rails else []),
        ]

    def _numbers(self, audit: Audit) -> list[tuple[str, str]]:
        stats, idea = audit.stats, self._hypothesis(audit.candidate)
        expected = idea.expected.magnitude if idea and idea.expected else None
        test = "p (paired t)" if stats.is_paired else "p (Welch, one-sided)"
        chances = {
            "p (sign test)" if stats.is_counted else test: stats.welch_p,
            "p (Holm)": stats.holm_p,
            "p (exact Mann-Whitney)": stats.mwu_p,
        }
        return [
            ("Δ (IQM)", signed(stats.delta)),
            ("Δ expected by the author", figure(expected)),
            ("95 % interval", span(stats.ci)),
            ("smallest relevant Δ", figure(stats.delta_min)),
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

    def _reward(self) -> Blocks:
        sheet = self.study.latest("reflection")
        if sheet is None:
            return []
        reflection = Reflection.parse(sheet.payload)
        risk, reasons = reflection.hacking, [*reflection.hacking.reasons]
        if reflection.insufficient_data:
            reasons.append("fewer than 8 evaluations: alignment was not computed")
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

    def _robustness(self) -> Blocks:
        sheet = self.study.latest("dr_probe")
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

    def _budget(self) -> Blocks:
        rows: list[tuple[doc.Words, ...]] = []
        budget, limits = self.state.budget, self.state.budget_limits
        for key, name in _RESOURCES.items():
            spent, reserved, limit = (
                getattr(x, key) for x in (budget.spent, budget.reserved, limits)
            )
            if limit is None and not spent and not reserved:
                continue
            gone = ((spent or 0.0) + (reserved or 0.0)) / limit if limit else 0.0
            bar = Bar(gone, percent(gone), "middling" if gone >= 0.8 else "")
            numbers = (figure(spent), figure(reserved), figure(limit))
            rows.append((name, bar if limit else MISSING, *numbers))
        heads = ("resource", "used", "spent", "reserved", "limit")
        return [doc.Table(heads, rows)] if rows else []

    def _contract(self) -> Blocks:
        contract, state, spec = self.contract, self.state, self.spec
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
            target = "" if self.target is None else f", target {figure(self.target)}"
            rails = [f"{rail.key} ({rail.rule}, {rail.severity})" for rail in spec.guardrails]
            primary = f"{spec.primary.key} ({spec.primary.direction}{target})"
            rows += [("primary metric", primary), ("guardrails", ", ".join(rails) or MISSING)]
        approvals: list[tuple[doc.Words, ...]] = [
            (key, _badge(held.status), held.by or MISSING, held.at or MISSING)
            for key, held in sorted(state.approvals.items())
        ]
        pending = [key for key in state.pending_approvals if key not in state.approvals]
        approvals += [(key, _badge("pending"), MISSING, MISSING) for key in pending]
        heads = ("approval", "status", "by", "at")
        return [doc.FactSheet(rows), doc.Heading("Approvals"), doc.Table(heads, approvals)]

    def _reproduction(self) -> Blocks:
        """Return the commands of the incumbent's runs and the ledger head."""
        state, lines = self.state, list[str]()
        for run in state.runs_of(state.incumbent.candidate) if state.incumbent else ():
            path = self.study.folder.run(run) / "cmd.json"
            if path.is_file():
                argv = read_fields(path, argv=list[str] | None)["argv"] or []
                lines.append(f"# {run}\n{shlex.join(argv)}")
        none = doc.Text("No run of an incumbent has a recorded command.")
        proof = (
            f"Ledger: {state.ledger_head.seq} events, head ",
            doc.Mono(state.ledger_head.hash),
            ". Check it with ",
            doc.Mono("telic verify"),
            ".",
        )
        return [doc.Code("\n".join(lines), "sh") if lines else none, doc.Text(proof)]
