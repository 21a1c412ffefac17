"""An adapter from a scan: every field with how sure we are of it and the lines behind it.

Presets of named stacks only pre-fill what the tree did not answer.
"""

from __future__ import annotations

import hashlib
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field

from telic.core.config import Record
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
from telic.studies.scan.records import (
    SURE_ENOUGH,
    EntryPoint,
    RepositoryAudit,
    Sink,
    SourceFinding,
    SourceLine,
)
from telic.studies.scan.vocabulary import VOCABULARY

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
        files=Files(**{part: _files(getattr(audit.sources, part)) for part in _PARTS}),
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
            Hazard(id=each.id, detail=each.detail, evidence=_places(each.evidence))
            for each in audit.hazards
        ),
        provenance=_provenance(audit, root),
    )
    return apply_presets(adapter, presets)


def _command(audit: RepositoryAudit, entry: EntryPoint | None) -> CommandSpec | None:
    if entry is None:
        return None
    seed: tuple[str, ...] = ()
    flag = audit.seeds.flag
    if entry.role == "train" and flag:
        bare = flag.lstrip("-")
        seed = {
            "k=v": (f"{bare}={{seed}}",),
            "--k=v": (f"--{bare}={{seed}}",),
            "--k v": (f"--{bare}", "{seed}"),
        }.get(audit.config.override_style or "", ())
    return CommandSpec(argv=(*entry.argv, *seed, "{overrides}"))


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


def _files(sources: SourceFinding) -> FileSet:
    return FileSet(globs=() if sources.external else sources.files, external=sources.external)


def _places(evidence: tuple[SourceLine, ...]) -> str:
    return ", ".join(f"{each.path}:{each.line}" for each in evidence[:3])


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
                _fill(data, field, value)
                data["provenance"][field] = {
                    "status": "inferred",
                    "confidence": preset.confidence,
                    "evidence": [],
                    "x-hint": preset.name,
                }
    return Adapter.parse(data, "adapter")


def _fill(data: dict[str, Any], field: str, value: Any) -> None:
    *path, last = field.split(".")
    for name in path:
        data = data[name]
    if isinstance(value, dict) and isinstance(data[last], dict):
        data[last] = {**data[last], **value}
    else:
        data[last] = value
