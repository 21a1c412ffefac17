"""Read a repository, say how it trains, evaluates and what is risky, and draft its adapter.

Every field of an adapter says how sure we are of it and which lines are behind it. Presets of named
stacks only pre-fill what the tree did not answer.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
import time
import tomllib
from collections.abc import Iterator
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import Field

from telic.core.config import Record
from telic.studies import git_read
from telic.studies.documents.adapter import (
    Adapter,
    Commands,
    CommandSpec,
    ConfigSpec,
    Files,
    FileSet,
    Hazard,
    LauncherSpec,
    Logging,
    LogSource,
    MetricMap,
    Provenance,
    Quote,
    RepositoryOutputs,
    Seeds,
)
from telic.studies.documents.base import put_at, value_at
from telic.studies.scan.config_system import find_config_system
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.evaluation import find_evaluation
from telic.studies.scan.facts import is_list, is_table
from telic.studies.scan.hazards import HARM, RESULTS, Findings, find_hazards
from telic.studies.scan.hazards_running import RUNNING
from telic.studies.scan.records import (
    SURE_ENOUGH,
    Archetype,
    EntryPoint,
    OpenQuestion,
    OutputFinding,
    RepositoryAudit,
    Sink,
    SourceFinding,
    SourceLine,
    TaskSources,
)
from telic.studies.scan.roles import consults
from telic.studies.scan.runs import find_metrics, find_outputs, find_seeds
from telic.studies.scan.sinks import find_sinks
from telic.studies.scan.source import VOCABULARY, RepositoryTree
from telic.studies.scan.task_sources import find_task_sources

_LEARNS = re.compile(r"\.(learn|fit|backward|apply_gradients|apply_updates)\(|\.train\([^)\s]")
_SHOWN = 5
_ALIKE = 0.1
RULES = (*HARM, *RESULTS, *RUNNING)
"""every hazard rule; the name of each is the hazard it looks for"""
_SINGLE_FILES = 3
_VARIABLE = frozenset("{}*<>$%~")


def audit_repository(root: Path) -> RepositoryAudit:
    """Return what can be known of a repository by reading it; nothing is run or written."""
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no cycles; looking for some would double the time
    try:
        return _audit(RepositoryTree(root), time.perf_counter())
    finally:
        if collecting:
            gc.enable()


def _audit(tree: RepositoryTree, started: float) -> RepositoryAudit:
    scan = RepositoryScan(tree)
    sinks, sources, outputs = find_sinks(scan), find_task_sources(scan), find_outputs(scan)
    archetype = _archetype(scan, sources)
    modules = scan.repository.modules.values()
    audit = RepositoryAudit(
        name=tree.root.name,
        archetype=archetype,
        summary=_summary(scan, sources, sinks, archetype),
        files=len(tree.paths),
        python_files=len(tree.python),
        seconds=0.0,
        train=tuple(scan.train),
        evaluate=tuple(scan.evaluate),
        config=find_config_system(scan),
        sinks=sinks,
        sources=sources,
        evaluation=find_evaluation(scan),
        seeds=find_seeds(scan),
        outputs=outputs,
        unignored=unignored_outputs(tree.root, outputs, sinks),
        metrics=find_metrics(scan),
        packages=_packages(scan),
        unreadable=tuple(facts.path for facts in modules if facts.broken is not None),
    )
    hazards = tuple(find_hazards(RULES, Findings(scan, audit)))
    seconds = round(time.perf_counter() - started, 3)
    questions = tuple(open_questions(scan, audit))
    changes = {"hazards": hazards, "seconds": seconds, "questions": questions}
    return audit.model_copy(update=changes)


def unignored_outputs(
    root: Path, outputs: OutputFinding, sinks: tuple[Sink, ...]
) -> tuple[str, ...]:
    """Return folders and files that runs write to, as far as the text says, and git would show.

    After a run the tree would not be clean. Empty outside of git. What starts with a variable is
    not known and left out.
    """
    if not git_read.is_repository(root):
        return ()
    own = (outputs.run_dir_template, outputs.checkpoint_glob)
    templates = (*own, *(sink.path_template for sink in sinks))
    places = dict.fromkeys(place for each in templates if each and (place := _fixed(each)))
    # asked for something inside, since a pattern such as logs/ speaks of folders only
    return tuple(place for place in places if not git_read.ignores(root, f"{place}/x"))


def _fixed(template: str) -> str | None:
    """Return the part of a path before its first variable; None when that is not in the tree."""
    if template.startswith(("/", "..")):
        return None
    parts = template.removeprefix("./").rstrip("/").split("/")
    return "/".join(takewhile(_VARIABLE.isdisjoint, parts)) or None


def _packages(scan: RepositoryScan) -> tuple[str, ...]:
    inits = (path for path in scan.tree.python if path.endswith("/__init__.py"))
    own = {path.split("/")[-2] for path in inits}
    origins = (origin for facts in scan.sources() for origin in facts.import_lines)
    imported = {origin.partition(".")[0] for origin in origins}
    return tuple(sorted(own | imported))


def _archetype(scan: RepositoryScan, sources: TaskSources) -> Archetype:
    if not scan.train:
        is_small = not sources.reward.external and len(scan.learners) < _SINGLE_FILES
        return "environments" if is_small else "library"
    if scan.main is not None and next(consults(scan.main), None):
        return "language_model_loop"
    if all(scan.tree.place(entry.path) == "example" for entry in scan.train):
        return "library_with_examples"
    alone = [entry for entry in scan.train if entry.path in scan.learners]
    if len(alone) >= _SINGLE_FILES and 2 * len(alone) > len(scan.train):
        return "single_file_trainers"
    return "framework"


def _summary(
    scan: RepositoryScan, sources: TaskSources, sinks: tuple[Sink, ...], archetype: Archetype
) -> str:
    if not scan.train:
        what = "A library of environments" if archetype == "environments" else "A library"
        trains = f"{what}: no training command."
    else:
        more = f", and {len(scan.train) - 1} more" if len(scan.train) > 1 else ""
        trains = f"Trains with `{' '.join(scan.train[0].argv)}`{more}."
    files = list(sources.reward.files)
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    where = "outside this repository" if sources.reward.external else f"in {files[0]}{more}"
    names = ", ".join(dict.fromkeys(sink.name for sink in sinks if sink.default)) or "nothing"
    return f"{trains} Rewards are {where}. Logs to {names} by default."


# ---------------------------------------------------------------------------- adapters

MOST_CONFIDENCE = 0.4
"""a preset is a guess until the tree confirms it"""
_PARTS = ("reward", "termination", "curriculum", "randomization", "policy", "evaluator")


class AdapterPreset(Record):
    """What a stack usually looks like."""

    name: str
    packages: tuple[str, ...] = Field(default=(), description="import names; empty: every stack")
    confidence: float = Field(default=MOST_CONFIDENCE, ge=0, le=MOST_CONFIDENCE)
    fields: dict[str, Any] = Field(description="adapter fields by dotted name")


def draft_adapter(
    audit: RepositoryAudit, root: Path, presets: tuple[AdapterPreset, ...] = ()
) -> Adapter:
    """Turn a scan into an adapter; what is not sure enough stays empty and says so."""

    def files(sources: SourceFinding) -> FileSet:
        return FileSet(globs=() if sources.external else sources.files, external=sources.external)

    def places(evidence: tuple[SourceLine, ...]) -> str:
        return ", ".join(f"{line.path}:{line.line}" for line in evidence[:3])

    train = audit.train[0] if audit.train else None
    evaluate = audit.evaluate[0] if audit.evaluate else None
    config = audit.config
    adapter = Adapter(
        commands=Commands(
            train=_command(audit, train), eval=_command(audit, evaluate), smoke=None, resume=None
        ),
        config=ConfigSpec(
            system=config.primary or "custom",
            detail=", ".join((config.primary or "unknown", *config.secondary)),
            override_style=config.override_style or "source_edit",
            roots=config.roots,
        ),
        logging=Logging(sources=tuple(_source(sink) for sink in audit.sinks)),
        metrics=MetricMap(map=audit.metrics),
        files=Files(**{part: files(getattr(audit.sources, part)) for part in _PARTS}),
        launcher=LauncherSpec(kind="local"),
        seeds=Seeds(
            flag=audit.seeds.flag,
            controllable=audit.seeds.controllable,
            deterministic="claimed" if audit.seeds.claims_determinism else "no",
        ),
        outputs=RepositoryOutputs(
            run_dir_template=audit.outputs.run_dir_template,
            checkpoint_glob=audit.outputs.checkpoint_glob,
        ),
        hazards=tuple(
            Hazard(id=hazard.id, detail=hazard.detail, evidence=places(hazard.evidence))
            for hazard in audit.hazards
        ),
        provenance=_provenance(audit, root),
    )
    return apply_presets(adapter, presets)


def _command(audit: RepositoryAudit, entry: EntryPoint | None) -> CommandSpec | None:
    if entry is None:
        return None
    return CommandSpec(argv=(*map(_typed, entry.argv), *entry.seed, "{overrides}"))


def _typed(word: str) -> str:
    """Braces in a documented word are its own, not placeholders of ours."""
    return re.sub(r"\{([^{}]*)\}", r"$\1", word)


def _source(sink: Sink) -> LogSource:
    offline: dict[str, dict[str, str]] = VOCABULARY.table("network_trackers")["offline"]
    return LogSource(
        kind=sink.kind,
        default=sink.default,
        path_template=sink.path_template,
        switch=sink.switch,
        offline_env=offline.get(sink.name, {}) if sink.network else {},
        network=sink.network,
    )


def _provenance(audit: RepositoryAudit, root: Path) -> dict[str, Provenance]:
    def stated(confidence: float, evidence: tuple[SourceLine, ...]) -> Provenance:
        sure = confidence >= SURE_ENOUGH
        quotes = tuple(_quote(root, each) for each in evidence[:5])
        return Provenance(
            status="inferred" if sure else "unknown", confidence=confidence, evidence=quotes
        )

    def of_entry(entries: tuple[EntryPoint, ...]) -> Provenance:
        return stated(entries[0].confidence, entries[0].evidence) if entries else stated(0.0, ())

    strongest = max((sink.confidence for sink in audit.sinks), default=0.0)
    fields = {
        "commands.train": of_entry(audit.train),
        "commands.eval": of_entry(audit.evaluate),
        "config": stated(audit.config.confidence, audit.config.evidence),
        "logging": stated(strongest, tuple(e for s in audit.sinks for e in s.evidence[:1])),
        "metrics": stated(0.6 if audit.metrics else 0.0, ()),
        "seeds": stated(0.6 if audit.seeds.controllable else 0.0, audit.seeds.evidence),
        "outputs": stated(0.5 if audit.outputs.evidence else 0.0, audit.outputs.evidence),
        "launcher": Provenance(status="unknown", confidence=0.0),
    }
    for part in _PARTS:
        part_sources: SourceFinding = getattr(audit.sources, part)
        # nothing found after reading everything is itself an answer: it lives elsewhere
        sure = part_sources.confidence if not part_sources.external else SURE_ENOUGH
        fields[f"files.{part}"] = stated(sure, part_sources.evidence)
    return fields


def _quote(root: Path, evidence: SourceLine) -> Quote:
    lines = (root / evidence.path).read_text("utf-8", errors="replace").splitlines()
    text = lines[evidence.line - 1] if 0 < evidence.line <= len(lines) else ""
    digest = hashlib.sha256(text.strip().encode()).hexdigest()
    return Quote(path=evidence.path, line=evidence.line, quote_hash=digest)


def keep_confirmed(drafted: Adapter, confirmed: Adapter) -> Adapter:
    """Return the new draft with every field that a person confirmed taken from the old one."""
    data, old = drafted.as_data(), confirmed.as_data()
    for field, provenance in confirmed.provenance.items():
        if provenance.status == "confirmed":
            put_at(data, field, value_at(old, field))
            data["provenance"][field] = old["provenance"][field]
    return Adapter.parse(data, "adapter")


def load_presets() -> tuple[AdapterPreset, ...]:
    """Return every shipped preset; those for a named stack before the generic one."""
    files = resources.files("telic.studies.scan").joinpath("presets").iterdir()
    presets = [AdapterPreset.model_validate(tomllib.loads(f.read_text("utf-8"))) for f in files]
    return tuple(sorted(presets, key=lambda preset: (not preset.packages, preset.name)))


def matching_presets(packages: tuple[str, ...]) -> tuple[AdapterPreset, ...]:
    """Return the presets that apply to a repository which holds or imports these packages."""
    known = set(packages)
    return tuple(p for p in load_presets() if not p.packages or known & set(p.packages))


def apply_presets(adapter: Adapter, presets: tuple[AdapterPreset, ...]) -> Adapter:
    """Fill fields whose provenance is unknown; they are inferred with low confidence."""
    data = adapter.as_data()
    for preset in presets:
        for field, value in preset.fields.items():
            provenance = data["provenance"].get(field)
            if (
                provenance is not None
                and provenance["status"] == "unknown"
                and not provenance["confidence"]
            ):
                old = value_at(data, field)
                are_tables = is_table(value) and is_table(old)
                put_at(data, field, {**old, **value} if are_tables else value)
                data["provenance"][field] = {
                    "status": "inferred",
                    "confidence": preset.confidence,
                    "evidence": [],
                    "x-hint": preset.name,
                }
    return Adapter.parse(data, "adapter")


# ---------------------------------------------------------------------------- what is left open
# With the answers that are possible: better asked than guessed.


def open_questions(scan: RepositoryScan, audit: RepositoryAudit) -> Iterator[OpenQuestion]:
    """Yield what a person has to say before a command can be trusted."""
    if not audit.train:
        yield from _no_command(scan)
        return
    first = audit.train[0]
    if first.problems:
        told = [" ".join(each.words) for each in scan.documented if each.resolved == first.path]
        why = "its parser would say: " + "; ".join(first.problems[:3])
        yield OpenQuestion(field="commands.train", why=why, candidates=tuple(told[:_SHOWN]))
    alike = [each for each in audit.train if first.confidence - each.confidence < _ALIKE]
    if len(alike) > 1:
        lines = tuple(" ".join(each.argv) for each in alike[:_SHOWN])
        why = f"{len(alike)} commands train and nothing prefers one of them clearly"
        yield OpenQuestion(field="commands.train", why=why, candidates=lines)
    if audit.seeds.controllable and not audit.seeds.words:
        place = audit.seeds.evidence[0]
        why = "no word of the command sets the seed, only this file does"
        line = f"{place.path}:{place.line}"
        yield OpenQuestion(field="seeds", why=why, candidates=(line,))


def _no_command(scan: RepositoryScan) -> Iterator[OpenQuestion]:
    """Where training may begin though no command was found: notebooks, files in doubt."""
    found = [path for path in scan.tree.with_suffix(".ipynb") if _LEARNS.search(_code(scan, path))]
    found += [" ".join(entry.argv) for entry in scan.unsure]
    found += [" ".join(each.words) for each in scan.documented if each.resolved is None]
    if found:
        why = "no command of the repository was seen to train; one of these may"
        candidates = tuple(dict.fromkeys(found))[:_SHOWN]
        yield OpenQuestion(field="commands.train", why=why, candidates=candidates)


def _code(scan: RepositoryScan, path: str) -> str:
    """The code of a notebook."""
    try:
        data: Any = json.loads(scan.tree.text(path))
    except ValueError:
        return ""
    cells = data.get("cells") if is_table(data) else None
    sources = [cell.get("source", "") for cell in cells if is_table(cell)] if is_list(cells) else []
    return "\n".join("".join(map(str, each)) if is_list(each) else str(each) for each in sources)
