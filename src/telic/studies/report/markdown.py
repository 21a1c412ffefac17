"""The report as Markdown: twelve sections, the same bytes for the same facts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from telic.studies.evidence.checks import TITLES
from telic.studies.report import words
from telic.studies.report.judges_section import judged_table
from telic.studies.report.story import Story

NOTES_START = "<!-- notes -->"
NOTES_END = "<!-- /notes -->"
_EMPTY_NOTES = "\nWrite here; this block stays when the report is made again.\n"
_NOTES = re.compile(re.escape(NOTES_START) + "(.*?)" + re.escape(NOTES_END), re.DOTALL)


def render_markdown(story: Story, notes: str | None = None) -> str:
    """Return the report; `notes` is what people wrote between the markers of an older one."""
    parts = [f"# {story.folder.study_id}: {_task(story)}", ""]
    for place, (title, section) in enumerate(_SECTIONS.items(), start=1):
        parts += [f"## {place}. {title}", "", *section(story), ""]
    own = _EMPTY_NOTES if notes is None else notes
    parts += ["## Notes", "", f"{NOTES_START}{own}{NOTES_END}"]
    return "\n".join(parts) + "\n"


def kept_notes(older: str) -> str | None:
    """Return what people wrote between the markers; None when there are none."""
    found = _NOTES.search(older)
    return found.group(1) if found else None


def _task(story: Story) -> str:
    return _cell(story.contract.task.statement) if story.contract else story.folder.name


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    body = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if not body:
        return ["None."]
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body]


def _status(story: Story) -> list[str]:
    state = story.state
    lines = [words.status_line(story), ""]
    if story.source is not None:
        lines += [words.told_of(story.source), ""]
    lines += [
        f"- study: {state.study}, {state.study_status}",
        f"- protocol: {words.short_hash(state.protocol_hash)}",
        f"- ledger head: {state.ledger_head.seq} events, `{state.ledger_head.hash}`",
    ]
    lines += [f"- stopped by {each.rule}: {each.why}" for each in state.fired_stops]
    return lines


def _contract(story: Story) -> list[str]:
    contract, state = story.contract, story.state
    if contract is None:
        return ["There is no contract that can be read."]
    lines = [
        f"- version {words.number(state.contract_version)}, "
        f"hash {words.short_hash(state.contract_hash)}",
        f"- success: {contract.task.success_definition or words.MISSING}",
        f"- may be tuned: {', '.join(contract.scope.kinds) or words.MISSING}",
    ]
    if story.spec is not None:
        primary = story.spec.primary
        target = "" if primary.target is None else f", target {words.number(primary.target)}"
        lines.append(f"- decides: {primary.key} ({primary.direction}{target})")
        rules = [f"{each.key} ({each.rule}, {each.severity})" for each in story.spec.guardrails]
        lines.append(f"- guardrails: {', '.join(rules) or words.MISSING}")
    rows = [
        (key, held.status, held.by or words.MISSING, held.at or words.MISSING)
        for key, held in sorted(state.approvals.items())
    ]
    rows += [
        (key, "pending", words.MISSING, words.MISSING)
        for key in state.pending_approvals
        if key not in state.approvals
    ]
    if story.source is not None and not rows:
        return [*lines, "", words.NOT_APPROVED_HERE]
    return [*lines, "", *_table(["approval", "status", "by", "at"], rows)]


def _budget(story: Story) -> list[str]:
    rows = [
        (
            name,
            words.number(spent),
            words.number(held),
            words.number(limit),
            words.percent(gone) if limit else words.MISSING,
        )
        for name, spent, held, limit, gone in words.budget_rows(story)
    ]
    return _table(["resource", "spent", "reserved", "limit", "gone"], rows)


def _history(story: Story) -> list[str]:
    return _table(["at", "from", "to"], [(at, a or words.MISSING, b) for at, a, b in story.moved])


def _candidates(story: Story) -> list[str]:
    rows: list[Sequence[object]] = []
    for told in story.candidates:
        stats = told.audit.stats if told.audit else None
        rows.append(
            (
                told.name,
                told.held.kind,
                words.statement(told),
                words.phase(told),
                told.held.status.value,
                words.verdict(told),
                words.signed(stats and stats.delta),
                words.span(stats and stats.ci),
                words.percent(stats and stats.poi),
            )
        )
    heads = ["id", "kind", "hypothesis", "phase", "status", "verdict", "Δ", "95 %", "PoI"]
    names, judged = judged_table(story)
    said = ["", *_table(["judges", *names], judged)] if judged else []
    return [*_table(heads, rows), *said]


def _audit(story: Story) -> list[str]:
    audit = story.last_audit
    if audit is None:
        return ["No result has been audited."]
    stats = audit.stats
    numbers = [
        ("Δ (IQM)", words.signed(stats.delta)),
        ("95 % interval", words.span(stats.ci)),
        ("smallest Δ that counts", words.number(stats.delta_min)),
        (words.test_of(stats), words.chance(stats.welch_p)),
        ("p after Holm", words.chance(stats.holm_p)),
        ("p (Mann-Whitney)", words.chance(stats.mwu_p)),
        ("PoI", words.percent(stats.poi)),
        ("noise floor", words.number(stats.sigma_0)),
        ("look, alpha", f"{stats.look}, {stats.alpha:g}"),
        ("seed of the resampling", audit.prng_seed),
    ]
    arms = [
        (
            name,
            arm.n,
            words.number(arm.iqm),
            words.span(arm.ci),
            ", ".join(map(str, arm.seeds)),
            ", ".join(map(words.number, arm.scores)),
        )
        for name, arm in zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    ]
    checks = [
        (each.id, TITLES[each.id], "yes" if each.passed else "**no**", each.why)
        for each in audit.checks
    ]
    lines = [f"**{audit.candidate}: {words.VERDICTS[audit.verdict]}** ({audit.id}, {audit.label})"]
    lines += ["", words.conclusion(audit), ""]
    lines += [f"- {reason}" for reason in audit.reasons]
    if audit.n_star is not None:
        lines.append(f"- {audit.n_star} seeds per arm would show the smallest Δ in 80 % of tries")
    lines += ["", *_table(["arm", "n", "IQM", "95 %", "seeds", "scores"], arms)]
    lines += ["", *_table(["number", "value"], numbers)]
    lines += ["", *_table(["check", "what", "passed", "why not"], checks)]
    rails = [(e.key, words.span(e.ci), "yes" if e.passed else "**no**") for e in audit.guardrails]
    return [*lines, "", *_table(["guardrail", "95 %", "holds"], rails)]


def _reflection(story: Story) -> list[str]:
    found = story.reflection
    if found is None:
        return ["No reward has been reflected on."]
    risk = found.hacking
    lines = [f"Run {found.run}. Hacking risk **{risk.level}** ({risk.score:.2f})."]
    lines += [f"- {each}" for each in risk.reasons]
    if found.insufficient_data:
        lines.append("- fewer than 8 evaluations: alignment was not judged")
    advice = {each.term: f"{each.action}: {each.why}" for each in found.advice}
    rows = [
        (
            each.name,
            words.percent(each.share),
            words.number(each.mean_w0),
            words.number(each.mean_w1),
            words.number(each.trend),
            words.number(each.alignment),
            ", ".join(each.flags) or words.MISSING,
            advice.get(each.name, ""),
        )
        for each in found.terms
    ]
    heads = ["term", "share", "at first", "at last", "trend", "alignment", "flags", "advice"]
    return [*lines, "", *_table(heads, rows)]


def _robustness(story: Story) -> list[str]:
    lines: list[str] = []
    if story.probe is None:
        lines.append("No parameter of the world has been probed.")
    else:
        rows = [
            (
                each.path,
                words.number(each.nominal),
                words.span(each.feasible),
                words.span(each.suggested_range),
                words.number(each.sensitivity),
                ", ".join(each.censored) or words.MISSING,
                "; ".join(each.safety_notes),
            )
            for each in story.probe.parameters
        ]
        heads = [
            "parameter",
            "nominal",
            "holds from … to",
            "suggested",
            "sensitivity",
            "censored",
            "notes",
        ]
        lines += _table(heads, rows)
    curricula = [each for each in story.candidates if each.record and each.record.curriculum]
    rows = [
        (each.name, each.record.curriculum.get("mode", ""))
        for each in curricula
        if each.record and each.record.curriculum
    ]
    return lines + (["", *_table(["curriculum candidate", "mode"], rows)] if rows else [])


def _alerts(story: Story) -> list[str]:
    rows = [
        (each.run, each.signature, each.severity, "open" if each.is_open else "over")
        for each in story.alerts
    ]
    return _table(["run", "signature", "severity", "state"], rows)


def _failures(story: Story) -> list[str]:
    return _table(["candidate", "status", "why"], words.failures(story))


def _next(story: Story) -> list[str]:
    action = story.action
    if action is None:
        return ["Ask with: telic study next"]
    lines = [f"**{action.action}**: {action.why}"]
    lines += [f"- first: {each}" for each in action.blocking]
    return lines + (["", "```sh", action.command, "```"] if action.command else [])


def _reproduction(story: Story) -> list[str]:
    if not story.commands:
        return ["No run of an incumbent has recorded its command."]
    lines = ["```sh"]
    for run, argv in story.commands.items():
        lines += [f"# {run}", shlex.join(argv)]
    return [*lines, "```"]


_SECTIONS: dict[str, Callable[[Story], list[str]]] = {
    "Status": _status,
    "Contract and approvals": _contract,
    "Budget": _budget,
    "Incumbents": _history,
    "Candidates": _candidates,
    "Last audit": _audit,
    "Reward reflection": _reflection,
    "Robustness and curriculum": _robustness,
    "Alerts": _alerts,
    "What was tried and did not work": _failures,
    "Next": _next,
    "Reproduction": _reproduction,
}
