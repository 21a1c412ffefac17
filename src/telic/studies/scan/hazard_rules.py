"""What every hazard rule is given and gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from telic.studies.scan.context import Scan
from telic.studies.scan.records import (
    ConfigFinding,
    EvaluationFinding,
    Evidence,
    HazardFinding,
    OutputFinding,
    SeedFinding,
    Sink,
    TaskSources,
)
from telic.studies.scan.syntax import Call
from telic.studies.scan.vocabulary import VOCABULARY

_SHOWN = 5


class Findings(NamedTuple):
    """The answers that hazards build on."""

    scan: Scan
    config: ConfigFinding
    sinks: tuple[Sink, ...]
    sources: TaskSources
    evaluation: EvaluationFinding
    seeds: SeedFinding
    outputs: OutputFinding


Rule = Callable[[Findings], Iterator[HazardFinding]]


def hazard(name: str, detail: str, evidence: Iterable[Evidence] = ()) -> HazardFinding:
    """Return a finding with its first few lines of evidence."""
    return HazardFinding(id=name, detail=detail, evidence=tuple(evidence)[:_SHOWN])


def at(path: str, line: int, note: str) -> Evidence:
    """Return a line as evidence."""
    return Evidence(path=path, line=line, note=note)


def train_calls(found: Findings) -> Iterator[tuple[str, Call]]:
    """Return the calls that training makes; of a library, all its own."""
    scan = found.scan
    return scan.calls(scan.any_train_reach) if scan.train else scan.source_calls()


def imports(found: Findings, group: str, paths: Iterable[str] | None = None) -> list[Evidence]:
    """Return the imports of known packages of one group that are not the repository itself."""
    scan = found.scan
    seen: list[Evidence] = []
    for path in scan.source_files if paths is None else paths:
        for origin, line in scan.repository.modules[path].import_lines.items():
            package = VOCABULARY.package(origin, group)
            if package and scan.repository.module(package) is None:
                seen.append(at(path, line, f"imports {package}"))
    return seen
