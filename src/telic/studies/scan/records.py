"""What a scan of a repository comes to: answers with the lines they rest on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field

from telic.core.config import Record
from telic.studies.documents.adapter import ConfigSystem, OverrideStyle

SURE_ENOUGH = 0.5
"""below this confidence the honest answer is that it is not known"""

Role = Literal["train", "eval"]
SinkKind = Literal["wandb", "tensorboard", "csv", "json", "stdout", "custom"]
Archetype = Literal[
    "single_file_trainers",
    "framework",
    "library",
    "library_with_examples",
    "environments",
    "language_model_loop",
]


class SourceLine(Record):
    """A line of the repository and what it says."""

    path: str
    line: int
    note: str


class Placed(Protocol):
    """Anything that stands on a line of a file."""

    @property
    def path(self) -> str:
        """The file, relative to the root."""
        ...

    @property
    def line(self) -> int:
        """The line, counted from one."""
        ...


def quote(fact: Placed, note: str) -> SourceLine:
    """Return where something stands, with what it says."""
    return SourceLine(path=fact.path, line=fact.line, note=note)


class EntryPoint(Record):
    """A command that trains or evaluates."""

    role: Role
    argv: tuple[str, ...]
    path: str
    """the file it comes down to"""
    function: str = ""
    confidence: float
    evidence: tuple[SourceLine, ...] = ()
    hazardous: bool = False
    """drives hardware; never offered as a command"""
    given: tuple[str, ...] = ()
    """what the documented line gives to the script"""
    documented: bool = False
    """whether the command is one that a text of the repository shows"""
    problems: tuple[str, ...] = ()
    """what the parser it meets would say against it"""
    seed: tuple[str, ...] = ()
    """the words that set its seed, with `{seed}`; empty when it takes none"""


class Default(Record):
    """What holds when a setting is not given, and where that is written."""

    value: Any = None
    known: bool = True
    """whether the text alone gives it"""
    flag: str | None = None
    path: str
    line: int


class ConfigFinding(Record):
    """How a parameter is changed and where defaults live."""

    primary: ConfigSystem | None
    secondary: tuple[ConfigSystem, ...] = ()
    override_style: OverrideStyle | None = None
    detail: str = ""
    roots: tuple[str, ...] = ()
    confidence: float = 0.0
    evidence: tuple[SourceLine, ...] = ()
    defaults: dict[str, Default] = Field(default={})
    """effective defaults of the settings that matter: logger, seed, headless, device, steps"""


class Sink(Record):
    """A place where numbers appear."""

    kind: SinkKind
    name: str
    """the tool or package, where the kind does not say it"""
    default: bool
    network: bool = False
    switch: str | None = None
    path_template: str | None = None
    via: str | None = None
    """the dependency that writes it"""
    confidence: float
    evidence: tuple[SourceLine, ...] = ()


class RewardTerm(Record):
    """A named part of the reward: its code, its weight, or both."""

    name: str
    code: str | None = None
    """path:line of the function"""
    weight: str | None = None
    """path:line of the weight"""
    value: float | None = None


class SourceFinding(Record):
    """Where a part of the task is written."""

    files: tuple[str, ...] = ()
    external: bool = False
    confidence: float = 0.0
    evidence: tuple[SourceLine, ...] = ()


class TaskSources(Record):
    """Reward, termination, curriculum, randomisation, wrappers, policy and evaluator code."""

    reward: SourceFinding
    termination: SourceFinding
    curriculum: SourceFinding
    randomization: SourceFinding
    wrappers: SourceFinding
    policy: SourceFinding
    evaluator: SourceFinding
    terms: tuple[RewardTerm, ...] = ()

    @property
    def unweighted(self) -> list[str]:
        """Terms with code and no weight."""
        return [term.name for term in self.terms if term.code and not term.weight]

    @property
    def uncoded(self) -> list[str]:
        """Weights without code."""
        return [term.name for term in self.terms if term.weight and not term.code]


class EvaluationFinding(Record):
    """How a trained policy is evaluated."""

    style: Literal["script", "same_entry", "embedded", "none"]
    flag: str | None = None
    emits_scalars: bool | None = None
    headless: bool | None = None
    needs_network: bool | None = None
    turned_off: tuple[str, ...] = ()
    """training randomisation it switches off"""
    evidence: tuple[SourceLine, ...] = ()


class SeedFinding(Record):
    """How seeds are set."""

    flag: str | None = None
    default: Any = None
    controllable: bool = False
    words: tuple[str, ...] = ()
    """what the training command is given, with `{seed}`; empty where only a file sets it"""
    claims_determinism: bool = False
    evidence: tuple[SourceLine, ...] = ()


class OutputFinding(Record):
    """What a run leaves behind."""

    run_dir_template: str | None = None
    checkpoint_glob: str | None = None
    evidence: tuple[SourceLine, ...] = ()


class HazardFinding(Record):
    """Something that could do harm or mislead."""

    id: str
    detail: str
    evidence: tuple[SourceLine, ...] = ()


class OpenQuestion(Record):
    """What the text does not settle, with the answers it allows."""

    field: str
    """of the adapter"""
    why: str
    candidates: tuple[str, ...] = ()


class RepositoryAudit(Record):
    """Everything a scan found out about a repository."""

    name: str
    archetype: Archetype
    summary: str
    files: int
    python_files: int
    seconds: float
    train: tuple[EntryPoint, ...] = ()
    """ranked; the first is the answer, empty: no training command"""
    evaluate: tuple[EntryPoint, ...] = ()
    config: ConfigFinding
    sinks: tuple[Sink, ...] = ()
    sources: TaskSources
    evaluation: EvaluationFinding
    seeds: SeedFinding
    outputs: OutputFinding
    unignored: tuple[str, ...] = ()
    """places that runs write to and git does not ignore; they would make the tree unclean"""
    metrics: dict[str, str] = Field(default={})
    """canonical metric names to logged keys"""
    hazards: tuple[HazardFinding, ...] = ()
    packages: tuple[str, ...] = ()
    """top-level packages it holds or imports"""
    questions: tuple[OpenQuestion, ...] = ()
    """what is not known, with candidates"""
    unreadable: tuple[str, ...] = ()
    """Python files that do not parse"""


_CAP = 0.5
_SHOWN = 8


@dataclass(slots=True)
class Signals:
    """Evidence for one answer; a signal against it caps the confidence at one half."""

    scale: float = 1.0
    """how much the place of the answer counts"""
    weights: list[float] = field(default_factory=list[float])
    evidence: list[SourceLine] = field(default_factory=list[SourceLine])

    def add(self, weight: float, path: str, line: int, note: str) -> None:
        """Count a signal."""
        self.weights.append(weight)
        self.evidence.append(SourceLine(path=path, line=line, note=note))

    @property
    def confidence(self) -> float:
        """One minus the chance that every signal misleads."""
        sure = combined(weight * self.scale for weight in self.weights if weight > 0)
        return round(min(sure, _CAP) if any(weight < 0 for weight in self.weights) else sure, 3)

    @property
    def strongest(self) -> tuple[SourceLine, ...]:
        """The evidence worth showing, strongest first."""
        order = sorted(range(len(self.weights)), key=lambda index: -abs(self.weights[index]))
        return tuple(self.evidence[index] for index in order[:_SHOWN])


def combined(confidences: Iterable[float]) -> float:
    """Return how sure several independent signals are together: 1 - (1 - a)(1 - b)."""
    doubt = 1.0
    for confidence in confidences:
        doubt *= 1 - confidence
    return 1 - doubt
