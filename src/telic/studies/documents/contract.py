"""Schemas of a study's contract, metric specification and evaluation protocol."""

from typing import Any, Literal

from pydantic import Field, field_validator

from telic.studies.canonical import SLUG
from telic.studies.documents.adapter import CommandSpec
from telic.studies.documents.base import Document, DocumentPart, Sha

COMMIT = "^([0-9a-f]{40}|[0-9a-f]{64})$"
StopName = Literal[
    "target_reached",
    "budget_exhausted",
    "max_candidates",
    "no_progress",
    "wallclock_deadline",
    "failure_streak",
    "guardrail_breach",
    "human_stop",
]


class StopRule(DocumentPart):
    """Rule that stops a study. Each kind of rule uses some of the numbers."""

    rule: StopName
    value: float | None = None
    """target of target_reached, or limit of max_candidates"""
    k: int | None = Field(default=None, ge=1)
    """consecutive promotions (no_progress) or debug verdicts (failure_streak)"""
    at: str | None = None
    """time of wallclock_deadline"""
    action: Literal["close", "stop", "pause", "ask"] | None = None
    kill_running: bool = False


CandidateKind = Literal[
    "baseline",
    "config",
    "reward_tuning",
    "reward_engineering",
    "curriculum",
    "environment_generation",
    "dr_probe",
    "dr_tuning",
    "policy_search",
    "algorithm",
    "code",
    "infrastructure",
]
StudyPhase = Literal["smoke", "short_trial", "promotion", "incumbent_validation"]
PHASES: tuple[StudyPhase, ...] = ("smoke", "short_trial", "promotion", "incumbent_validation")
BASELINE_PHASES: tuple[StudyPhase, ...] = ("smoke", "incumbent_validation")
PHASE_SHARE: dict[StudyPhase, float] = {
    "smoke": 0.02,
    "short_trial": 0.25,
    "promotion": 1.0,
    "incumbent_validation": 1.0,
}
"""length of a run by phase, as a fraction of a full training"""
_COUNTS_STEPS, _LARGE_BATCH = 5_000, 10_000
SeedRole = Literal["selection", "promotion", "validation"]
SEED_ROLES: tuple[SeedRole, ...] = ("selection", "promotion", "validation")
ROLES: dict[StudyPhase, SeedRole] = {
    "smoke": "selection",
    "short_trial": "selection",
    "promotion": "promotion",
    "incumbent_validation": "validation",
}
"""seed role by phase that determines the seed pool"""
BudgetUnit = Literal["steps", "wall_clock"]
MIN_SEEDS: dict[StudyPhase, int] = {"promotion": 5, "incumbent_validation": 5}
ApprovalKey = Literal[
    "task_definition",
    "metric_and_guardrails",
    "tuning_scope",
    "budget",
    "hardware",
    "baseline_command",
    "adapter",
    "evaluation_protocol",
    "experiment",
    "network",
    "generated_code",
    "autonomy",
    "physical_actuation",
]
ApprovalStatus = Literal["pending", "approved", "rejected", "void"]
ApprovalMethod = Literal["tty", "elicitation", "dashboard"]


class Approval(DocumentPart):
    """A person's decision on one subject, bound to the hash of the approved content."""

    key: ApprovalKey
    status: ApprovalStatus = "pending"
    by: str | None = None
    at: str | None = None
    method: ApprovalMethod | None = None
    subject_hash: Sha | None = None
    candidate: str | None = None
    """candidate id, for experiment and physical_actuation"""
    note: str = ""
    sig: str | None = None


class TaskSection(DocumentPart):
    """Robot task."""

    task_id: str = Field(pattern=SLUG)
    statement: str
    env_ids: tuple[str, ...] = ()
    success_definition: str = ""


class MetricsSection(DocumentPart):
    """Metric file and the hash of its agreed version."""

    spec: str = "metric_spec.yaml"
    spec_hash: Sha | None = None


class ParamRange(DocumentPart):
    """Allowed values of a parameter."""

    type: Literal["float", "int", "bool", "str"] = "float"
    min: float | None = None
    max: float | None = None
    choices: tuple[Any, ...] | None = None
    max_step_ratio: float | None = Field(default=None, gt=1)
    """maximum of new / old and of old / new"""


class FileScope(DocumentPart):
    """Files that a candidate may change. Deny takes precedence."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ScopeLimits(DocumentPart):
    """Limits on the size of a change."""

    max_diff_lines: int = Field(default=200, ge=0)
    max_changed_params: int = Field(default=4, ge=0)
    max_concurrent: int = Field(default=1, ge=1)


class Scope(DocumentPart):
    """Parameters, files and kinds of change allowed for candidates."""

    kinds: tuple[CandidateKind, ...] = ("config", "reward_tuning", "curriculum", "dr_probe")
    params: dict[str, ParamRange] = Field(default={})
    files: FileScope = FileScope()
    limits: ScopeLimits = ScopeLimits()


class Resources(DocumentPart):
    """Amounts of resources. None means unlimited in a budget and unknown in an actual cost."""

    wall_clock_h: float | None = Field(default=None, ge=0)
    gpu_h: float | None = Field(default=None, ge=0)
    cpu_core_h: float | None = Field(default=None, ge=0)
    env_steps: float | None = Field(default=None, ge=0)
    launches: float | None = Field(default=None, ge=0)


RESOURCES: tuple[str, ...] = tuple(Resources.model_fields)


class StudyBudget(Resources):
    """Cost limits of the whole study."""

    per_candidate: Resources = Resources()


class Hardware(DocumentPart):
    """Hosts and GPUs of runs."""

    hosts: tuple[str, ...] = ("local",)
    gpus: tuple[int, ...] = ()
    launcher: Literal["local"] = "local"
    min_free_gpu_gb: float | None = Field(default=None, ge=0)
    min_free_disk_gb: float | None = Field(default=None, ge=0)


class Baseline(DocumentPart):
    """Baseline, the first incumbent."""

    command: Literal["train", "eval", "smoke", "resume"] = "train"
    commit: str | None = Field(default=None, pattern=COMMIT)
    """commit of evaluator and candidates; default: the current one when the contract is agreed"""
    overrides: dict[str, Any] = Field(default={})
    seeds: tuple[int, ...] = ()
    steps: int | None = Field(default=None, ge=1)
    """steps of a full training, also the default for candidates"""
    smoke_steps: int | None = Field(default=None, ge=1)
    """steps of a smoke run. The default is 2 %, but at least one batch of most trainers."""
    equal_budget: BudgetUnit = "steps"
    """budget unit that must be equal in both arms of a claim, launched steps or time"""
    est: Resources = Resources()
    """estimated cost of measuring one candidate, also the default for candidates"""


class EvaluationPlan(DocumentPart):
    """Protocol file and the hash of its agreed version."""

    protocol: str = "eval_protocol.yaml"
    protocol_hash: Sha | None = None
    measures_training_log: bool = False
    """whether a change of code may be measured by its own training log, without an evaluator"""


class SeedPools(DocumentPart):
    """Disjoint seed pools for selection, claims and confirmation, as ranges like 1-99,120."""

    selection: str = "1-99"
    promotion: str = "100-199"
    validation: str = "900-999"

    @field_validator("*")
    @classmethod
    def _check_ranges(cls, text: str) -> str:
        seeds_of(text)
        return text

    def pool(self, role: SeedRole) -> frozenset[int]:
        """Return the seeds of a role."""
        return seeds_of(getattr(self, role))


class PreApproved(DocumentPart):
    """Class of candidates that do not need individual approval."""

    kind: CandidateKind
    max_gpu_h: float | None = Field(default=None, ge=0)
    phases: tuple[StudyPhase, ...] = ("smoke", "short_trial")


class Automation(DocumentPart):
    """Steps that need no approval by a person."""

    autoloop: bool = False
    """whether `proposer` proposes candidates until a budget or a stop rule ends the study"""
    proposer: Literal["numeric"] | tuple[str, ...] | None = None
    """`numeric` (varies one parameter of the scope at a time), or a command that prints a draft"""
    launch: Literal["ask", "pre_approved"] = "ask"
    decide: Literal["ask", "auto"] = "ask"
    kill_fatal: bool = False
    max_debug_attempts: int = Field(default=3, ge=0)
    pre_approved: tuple[PreApproved, ...] = ()


class Network(DocumentPart):
    """Network destinations allowed for runs, with purposes. If empty, runs are offline."""

    destinations: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()


class GeneratedCode(DocumentPart):
    """Permission to execute model-generated code. It is not confined."""

    allowed: bool = False


class Contract(Document):
    """Contract of a study (contract.yaml), versioned by amendments."""

    schema_id: str = Field(default="telic.contract/1", alias="schema")
    version: int = Field(ge=1)
    task: TaskSection
    metrics: MetricsSection
    scope: Scope
    budget: StudyBudget
    hardware: Hardware
    baseline: Baseline
    evaluation: EvaluationPlan
    seeds: SeedPools = SeedPools()
    automation: Automation = Automation()
    stop_rules: tuple[StopRule, ...] = ()
    network: Network | None = None
    generated_code: GeneratedCode | None = None

    def phase_share(self, phase: StudyPhase, steps: int | None) -> float:
        """Return the length of a phase's runs as a fraction of a full training run of `steps`.

        No run is shorter than a smoke run, because shorter runs may not log the metric.
        """
        if not steps:
            return PHASE_SHARE[phase]
        # Small numbers count iterations or epochs, each of which is a whole batch.
        least = 2 if steps < _COUNTS_STEPS else min(steps / 4, _LARGE_BATCH)
        size = self.baseline.smoke_steps or max(PHASE_SHARE["smoke"] * steps, least)
        return max(PHASE_SHARE[phase], min(1.0, size / steps))


def seeds_of(text: str) -> frozenset[int]:
    """Parse seed ranges such as "1-99,120"."""
    seeds: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f'"{part}" is not a range of seeds such as 1-99')
        seeds.update(range(int(first), int(last or first) + 1))
    return frozenset(seeds)


# ---------------------------------------------------------------------------- metrics and protocol

Direction = Literal["max", "min"]


class Primary(DocumentPart):
    """Primary metric. Its direction is specified, never inferred."""

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
    """Reward term."""

    key: str
    bounds: tuple[float, float] | None = None


class Guardrail(DocumentPart):
    """Metric that must not degrade. It is tested with an interval instead of a point estimate."""

    key: str
    direction: Direction
    rule: Literal["absolute", "non_inferior"]
    threshold: float | None = None
    margin: float | None = Field(default=None, ge=0)
    severity: Literal["block", "warn"] = "block"


class Extractor(DocumentPart):
    """Extractor of metrics from a run's outputs."""

    kind: Literal["jsonl", "csv", "tensorboard", "regex_stdout"]
    path: str
    hash: Sha | None = None
    step: str | None = None
    """step column. If None, it is detected by name, and ambiguous names are an error."""


class MetricSpec(Document):
    """Metric specification (metric_spec.yaml)."""

    schema_id: str = Field(default="telic.metric_spec/1", alias="schema")
    primary: Primary
    components: tuple[Component, ...] = ()
    guardrails: tuple[Guardrail, ...]
    no_guardrails_because: str | None = None
    extractor: Extractor


class Protocol(Document):
    """Evaluation protocol (eval_protocol.yaml). Only results with the same hash are comparable."""

    schema_id: str = Field(default="telic.eval_protocol/1", alias="schema")
    command: CommandSpec | None = None
    """evaluation command. If None, the numbers of the training run are used."""
    evaluator_files: dict[str, Sha] = Field(default={})
    """file hash by path in the repository"""
    env_ids: tuple[str, ...] = ()
    eval_seeds: tuple[int, ...] = ()
    episodes: int = Field(ge=1)
    horizon: int | None = Field(default=None, ge=1)
    deterministic: bool = True
    checkpoint_selection: Literal["last", "fixed_step", "best_on_validation"] = "last"
    perturbations: tuple[Any, ...] = ()
    dataset: str | None = None
    """repository file used in training or evaluation that must be unchanged at launch"""
    dataset_hash: Sha | None = None
