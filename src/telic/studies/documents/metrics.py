"""The metrics of a study and the protocol of their evaluation."""

from typing import Any, Literal

from pydantic import Field

from telic.studies.documents.adapter import CommandSpec
from telic.studies.documents.base import Document, DocumentPart, Sha

Direction = Literal["max", "min"]


class Primary(DocumentPart):
    """The number that decides; its direction is data and never guessed."""

    key: str
    source: str | None = None
    direction: Direction
    aggregate: Literal["mean", "median", "iqm", "last", "auc"] = "mean"
    target: float | None = None
    min_effect_abs: float = Field(default=0.0, ge=0)
    min_effect_rel: float = Field(default=0.02, ge=0)
    noise_k: float = Field(default=0.5, ge=0)
    bounds: tuple[float, float] | None = None


class Component(DocumentPart):
    """A term of the reward."""

    key: str
    bounds: tuple[float, float] | None = None


class Guardrail(DocumentPart):
    """A number that must not get worse; an interval decides, not a point."""

    key: str
    direction: Direction
    rule: Literal["absolute", "non_inferior"]
    threshold: float | None = None
    margin: float | None = Field(default=None, ge=0)
    severity: Literal["block", "warn"] = "block"


class Extractor(DocumentPart):
    """The reader of the numbers in the outputs of a run."""

    kind: Literal["jsonl", "csv", "tensorboard", "regex_stdout"]
    path: str
    hash: Sha | None = None
    step: str | None = None
    """the column that counts steps; None: found by its name, and refused where several could be"""


class MetricSpec(Document):
    """metric_spec.yaml."""

    schema_id: str = Field(default="telic.metric_spec/1", alias="schema")
    primary: Primary
    replication_unit: Literal["training_seed", "search_run"] = "training_seed"
    components: tuple[Component, ...] = ()
    guardrails: tuple[Guardrail, ...]
    no_guardrails_because: str | None = None
    diagnostics: tuple[Any, ...] = ()
    """only in earlier versions"""
    extractor: Extractor


class Protocol(Document):
    """eval_protocol.yaml: how a result is measured; its hash decides what may be compared."""

    schema_id: str = Field(default="telic.eval_protocol/1", alias="schema")
    command: CommandSpec | None = None
    """None: the numbers come from the training run itself"""
    evaluator_files: dict[str, Sha] = Field(default={})
    """path in the repository to the hash of the file"""
    env_ids: tuple[str, ...] = ()
    env_config_hash: Sha | None = None
    eval_seeds: tuple[int, ...] = ()
    episodes: int = Field(ge=1)
    horizon: int | None = Field(default=None, ge=1)
    deterministic: bool = True
    checkpoint_selection: Literal["last", "fixed_step", "best_on_validation"] = "last"
    perturbations: tuple[Any, ...] = ()
    dataset: str | None = None
    """file of the repository that is trained or evaluated on; a launch needs it as it was"""
    dataset_hash: Sha | None = None
    metric_spec_hash: Sha | None = None
