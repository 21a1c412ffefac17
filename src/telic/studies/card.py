"""What a scan found, for people: the task card, and the adapter beside it; what they said stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.studies.documents.base import rewrite_yaml, write_yaml
from telic.studies.folder import StudyFolder
from telic.studies.scan.audit import draft_adapter, keep_confirmed, matching_presets
from telic.studies.scan.records import EntryPoint, RepositoryAudit, SourceFinding, SourceLine

BEGIN, END = "<!-- scan -->", "<!-- /scan -->"
_BLOCK = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END) + r"\n?", re.S)
_LISTED = 12
_HARMFUL = {
    "actuates_hardware",
    "network_by_default",
    "deletes_results",
    "executes_generated_code",
    "installs_packages_at_runtime",
    "unpriced_llm_calls",
}


def write_audit(folder: StudyFolder, audit: RepositoryAudit) -> None:
    """Fill adapter.yaml and the task card; confirmed fields and people's comments stay."""
    drafted = draft_adapter(audit, folder.root, matching_presets(audit.packages))
    if folder.adapter.exists():
        rewrite_yaml(folder.adapter, keep_confirmed(drafted, folder.read_adapter()))
    else:
        write_yaml(folder.adapter, drafted)
    write_card(folder, audit)


def write_card(folder: StudyFolder, audit: RepositoryAudit) -> str:
    """Write the task card anew and return it; people's own words in it stay."""
    path = folder.task_card
    held = read_text(path) if path.exists() else ""
    text = render_card(folder.task_id, "", audit, held)
    write_text(path, text)
    return text


def render_card(title: str, statement: str, audit: RepositoryAudit, held: str = "") -> str:
    """Return the card; what people wrote outside the marked block of `held` stays as it is."""
    block = f"{BEGIN}\n{_body(audit)}\n{END}\n"
    if not held.strip():
        return f"# {title}\n\n{statement}\n\n{block}"
    if _BLOCK.search(held):
        return _BLOCK.sub(lambda _: block, held, count=1)
    return f"{held.rstrip()}\n\n{block}"


def _body(audit: RepositoryAudit) -> str:
    size = f"{audit.python_files} Python files, {audit.archetype.replace('_', ' ')}."
    sections = [
        ("What it is", [audit.summary, size]),
        ("Training", _commands(audit.train) or ["No training command: this is a library."]),
        ("Evaluation", _evaluation(audit)),
        ("Settings", _settings(audit)),
        ("Numbers", _numbers(audit)),
        ("Task", _task(audit)),
        ("Hazards", _hazards(audit)),
        ("Questions for a person", _questions(audit)),
    ]
    return "\n\n".join(f"## {title}\n\n" + "\n".join(lines) for title, lines in sections if lines)


def _place(evidence: tuple[SourceLine, ...]) -> str:
    return f" ({evidence[0].path}:{evidence[0].line})" if evidence else ""


def _commands(entries: Sequence[EntryPoint]) -> list[str]:
    lines = [
        f"- `{' '.join(each.argv)}`, {round(100 * each.confidence)} % sure{_place(each.evidence)}"
        for each in entries[:_LISTED]
    ]
    if len(entries) > _LISTED:
        lines.append(f"- and {len(entries) - _LISTED} more")
    return lines


def _evaluation(audit: RepositoryAudit) -> list[str]:
    evaluation, place = audit.evaluation, _place(audit.evaluation.evidence)
    styles = {
        "script": "By its own command:",
        "same_entry": f"By the training command with `{evaluation.flag}`{place}.",
        "embedded": f"Inside training{place}; there is no separate command.",
        "none": "Not found.",
    }
    lines = [styles[evaluation.style], *_commands(audit.evaluate)]
    if evaluation.emits_scalars is False:
        lines.append("It writes no score.")
    if evaluation.turned_off:
        lines.append(f"It switches off: {', '.join(evaluation.turned_off[:6])}.")
    return lines


def _settings(audit: RepositoryAudit) -> list[str]:
    config = audit.config
    if config.primary is None:
        lines = ["How settings are changed was not found."]
    else:
        also = f", defaults in {', '.join(config.secondary)}" if config.secondary else ""
        lines = [
            f"{config.primary}{also}; changed by `{config.override_style}`"
            f"{_place(config.evidence)}."
        ]
    for name, default in config.defaults.items():
        value = default.value if default.known else "decided at run time"
        lines.append(
            f"- {name}: {value} ({default.flag or default.path}, {default.path}:{default.line})"
        )
    seeds = audit.seeds
    if seeds.flag:
        lines.append(f"- seed: `{seeds.flag}`, default {seeds.default}")
    return lines


def _numbers(audit: RepositoryAudit) -> list[str]:
    lines = [
        f"- {sink.name}: {'by default' if sink.default else 'when asked for'}"
        + (", over the network" if sink.network else "")
        + (f", written by {sink.via}" if sink.via else "")
        + (f", switch {sink.switch}" if sink.switch else "")
        + _place(sink.evidence)
        for sink in audit.sinks
    ]
    lines += [f"- {canonical}: `{key}`" for canonical, key in audit.metrics.items()]
    return lines


def _task(audit: RepositoryAudit) -> list[str]:
    sources = audit.sources
    lines = [
        f"- {part}: {_where(getattr(sources, part))}"
        for part in ("reward", "termination", "curriculum", "randomization", "policy")
    ]
    if sources.terms:
        named = ", ".join(
            term.name + ("" if term.value is None else f" {term.value:g}")
            for term in sources.terms[:_LISTED]
        )
        lines.append(f"- {len(sources.terms)} reward terms: {named}")
    if sources.uncoded:
        lines.append(f"- weights without code here: {', '.join(sources.uncoded[:_LISTED])}")
    if sources.unweighted:
        lines.append(f"- code without a weight: {', '.join(sources.unweighted[:_LISTED])}")
    return lines


def _where(source: SourceFinding) -> str:
    if source.external:
        return "outside this repository"
    shown = ", ".join(source.files[:4])
    return shown + (f" and {len(source.files) - 4} more" if len(source.files) > 4 else "")


def _hazards(audit: RepositoryAudit) -> list[str]:
    ordered = sorted(audit.hazards, key=lambda each: each.id not in _HARMFUL)
    return [f"- **{each.id}**: {each.detail}{_place(each.evidence)}" for each in ordered]


def _questions(audit: RepositoryAudit) -> list[str]:
    asked: list[str] = []
    if len(audit.train) > 1:
        asked.append("- Which of the training commands is meant?")
    if not audit.train:
        asked.append("- Which command trains, and where does it live?")
    if audit.evaluation.style in ("none", "embedded"):
        asked.append("- Which command evaluates a checkpoint and writes a score?")
    if not audit.seeds.controllable:
        asked.append("- How is the seed set?")
    if audit.config.primary is None:
        asked.append("- How is a setting changed?")
    if not audit.metrics:
        asked.append("- Which logged key is the return, and which the success rate?")
    return asked
