"""What a session asks for, is doing, and comes to: the records behind its files."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from typing_extensions import TypedDict

from telic.core.config import Config, Record
from telic.core.request import FieldHelp
from telic.core.text import read_count, texts
from telic.errors import BadFile, UsageError
from telic.judges.criteria import Criterion
from telic.session import ENV, EPISODES, FIRST_REWARDS, ITERATIONS, SEEDS, THRESHOLD
from telic.session.evidence import NO_SEAL, SEALED_ELSEWHERE, broken_seal, is_sealed_elsewhere
from telic.session.outcome import ENDED, PASSES, Outcome, outcome_words
from telic.storage.files import read_facts, read_record
from telic.storage.layout import SessionFolder, WorkFolder
from telic.storage.locks import lock_holder
from telic.storage.reading import given_text, parse_json

Reason = Literal["pause", "approval", "cores"]
State = Literal[
    "running",
    "pausing",
    "paused",
    "waiting for approval",
    "waiting for cores",
    "interrupted",
    Outcome,
]
LIMITS = ("max_calls", "max_usd", "max_hours", "max_steps")
"""of a request: what may be spent, which may change while it is carried out"""
_WAITS: dict[Reason, State] = {
    "pause": "paused",
    "approval": "waiting for approval",
    "cores": "waiting for cores",
}


def read_criteria(path: str, option: str) -> tuple[Criterion, ...]:
    """Read the file of an option that holds criteria."""
    from telic.session.control import parse_criteria

    return parse_criteria(parse_json(given_text(path, option), path))


class SessionConfig(Config):
    """An intent and how much to spend on it."""

    schema_version: Literal[1] = 1
    intent: str = Field(
        description="What the robot should do, in words.",
        json_schema_extra=FieldHelp(scope="argument", is_positional=True),
    )
    env: str = Field(default=ENV, description="Environment id or path of an MJCF file.")
    iterations: int = Field(default=ITERATIONS, ge=1, description="Maximum number of rewards.")
    seeds: tuple[int, ...] = Field(
        default=SEEDS, description="Training seeds per reward: 1,2,3 or 1-3."
    )
    first_rewards: int = Field(
        default=FIRST_REWARDS,
        ge=1,
        description="Initial reward candidates that screening runs compare.",
    )
    threshold: float = Field(
        default=THRESHOLD,
        ge=0,
        le=1,
        description="Required lower confidence bound of the score.",
    )
    episodes: int = Field(
        default=EPISODES,
        ge=4,
        description="Fresh evaluation episodes per policy; raised where so few prove nothing.",
    )
    start_seed: int | None = Field(
        default=None,
        description="Seed of the evaluation episodes; default: drawn for each session.",
    )
    steps: int | None = Field(
        default=None,
        description="Environment steps per policy, e.g. 300k.",
        json_schema_extra=FieldHelp(read=read_count),
    )
    motion: str | None = Field(
        default=None,
        description="Reference motion of the reward: a family (walk, wave, bow, ...), a library "
        "folder, FOLDER/CLIP, or none. Default: generated when the prompt needs one.",
    )
    device: str = Field(default="cpu", description="cpu or cuda.")
    devices: tuple[str, ...] = Field(
        default=(),
        description="Train on several devices at once: cuda:0,cuda:1 or cpu,cpu. Policies are "
        "spread over them.",
    )
    model: str | None = Field(
        default=None,
        description="Author of reward and judge: provider:model, or host (work orders). Default: "
        "the composer, which needs no model.",
    )
    model_for: dict[str, str] = Field(
        default={},
        description="Model of one role, e.g. vision=google:gemini-2.5-pro. Roles: reader, reward, "
        "judge, reviewer, reviser, vision, analyst.",
        json_schema_extra=FieldHelp(many=True, read=texts, metavar="ROLE=MODEL"),
    )
    effort_for: dict[str, str] = Field(
        default={},
        description="Reasoning effort of one role, e.g. reward=high: minimal, low, medium, high, "
        "xhigh, max.",
        json_schema_extra=FieldHelp(many=True, read=texts, metavar="ROLE=EFFORT"),
    )
    vision: bool = Field(default=True, description="Let the model also watch episodes.")
    judge: str | None = Field(
        default=None,
        description="Additional judge from an installed package; the lower score counts.",
    )
    criteria: tuple[Criterion, ...] | None = Field(
        default=None,
        description="File of criteria to use instead of reading them from the intent.",
        json_schema_extra=FieldHelp(read=read_criteria),
    )
    approve: bool = Field(
        default=False, description="Wait for telic approve before training starts."
    )
    accept_partial: bool = Field(
        default=False,
        description="Accept a pass even if parts of the prompt are not measured.",
    )
    robustness: bool = Field(
        default=True,
        description="Evaluate robustness (pushes, noise, changed dynamics) after a pass.",
    )
    max_calls: int | None = Field(default=None, ge=1, description="Maximum model calls.")
    max_usd: float | None = Field(default=None, gt=0, description="Maximum model cost in USD.")
    max_hours: float | None = Field(default=None, gt=0, description="Maximum hours of work.")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Maximum environment steps over all policies, e.g. 5M.",
        json_schema_extra=FieldHelp(read=read_count),
    )

    @field_validator("model_for", "effort_for", mode="before")
    @classmethod
    def _check_roles(cls, value: Any, info: ValidationInfo) -> Any:
        given: dict[str, Any] = dict(value or {})
        if given:
            from telic.authors.cast import check_effort, check_role

            for role, word in given.items():
                check_role(role)
                if info.field_name == "effort_for":
                    check_effort(word)
        return given

    @model_validator(mode="before")
    @classmethod
    def _has_the_device_of_devices(cls, given: dict[str, Any]) -> dict[str, Any]:
        devices = given.get("devices")
        return {**given, "device": devices[0].partition(":")[0]} if devices else given

    @model_validator(mode="after")
    def _has_a_model_to_vary(self) -> Self:
        if self.model is None and (self.model_for or self.effort_for):
            raise ValueError(
                "models and efforts of single roles need a model for the others: without one the "
                "composer writes, which asks nobody; name one with --model"
            )
        if self.model is not None and self.motion not in (None, "none"):
            raise ValueError("a motion is followed by rewards of the composer: leave --model out")
        return self

    @field_validator("intent")
    @classmethod
    def _says_something(cls, intent: str) -> str:
        if not any(map(str.isalnum, intent)):
            raise ValueError('What should the robot do? For example: "run forward fast".')
        return intent

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError("seeds must be one number or several that differ, such as 1-3.")
        return seeds

    @field_validator("criteria")
    @classmethod
    def _criteria_are_some(
        cls, criteria: tuple[Criterion, ...] | None
    ) -> tuple[Criterion, ...] | None:
        if criteria is not None and not criteria:
            raise ValueError("There are no criteria; leave them out to have the intent read.")
        return criteria

    @property
    def terms(self) -> str:
        """What a verdict rests on, as text: all that was asked for but what may be spent."""
        # Without defaults: a field that a later version adds does not make it another request.
        return self.model_dump_json(exclude=set(LIMITS), exclude_defaults=True)

    @property
    def needed(self) -> int:
        """Training seeds that must pass: two of three."""
        return -(-2 * len(self.seeds) // 3)


class SessionSummary(Record):
    """What a session came to."""

    schema_version: Literal[1] = 1
    session: str
    intent: str
    env: str
    outcome: Outcome
    reason: str | None = None
    """why it stopped before it passed or had tried everything"""
    out_of_budget: bool = False
    """whether it stopped because nothing more may be spent"""
    iterations: int
    best_iteration: int | None
    best_member: str | None
    best_step: int | None = None
    """its checkpoint that was judged, which need not be the one with the highest return"""
    score: float | None
    low: float | None
    """what the mean score is proven to be at least; None: nothing is proven"""
    passing: int | None = None
    """episodes of the best policy whose score reaches the threshold; None: not counted"""
    episodes: int | None = None
    """episodes that it was judged on"""
    start_seed: int | None = None
    """where judged episodes started is drawn from it; None: as in every session before"""
    steps: int = 0
    """environment steps of all policies"""
    seconds: float
    not_understood: tuple[str, ...]
    doubts: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """why it is unproven, or passed in part only; first on the screen and in the report"""
    limits: tuple[str, ...] = ()
    """what narrows a pass: one training seed"""

    def as_unproven(self) -> SessionSummary:
        """Return it without what it claims: of a proof that does not hold no number is left."""
        return self.model_copy(update={"outcome": "unproven", "low": None})


class SessionOutcome(TypedDict):
    """How a session ended, of its summary.json."""

    outcome: Outcome


class Waiting(Record):
    """What a running session waits for."""

    schema_version: Literal[1] = 1
    reason: Reason
    message: str


def state_of(folder: SessionFolder) -> State:
    """Return what a session is doing now, or how it ended."""
    if lock_holder(folder.lock) is not None:
        with suppress(BadFile):  # it may go on at any moment
            return _WAITS[read_record(folder.waiting, Waiting).reason]
        return "pausing" if folder.pause.exists() else "running"
    if folder.summary.exists():
        outcome = read_facts(folder.summary, SessionOutcome)["outcome"]
        is_pass = outcome in PASSES
        return read_summary(folder, thorough=False).outcome if is_pass else outcome
    return "interrupted"


def read_summary(folder: SessionFolder, *, thorough: bool = True) -> SessionSummary:
    """Return what a session came to, as far as its files are those it ended with.

    A pass whose evidence was changed afterwards, or that no certificate stands behind, is unproven.

    Args:
        folder: of a session that has ended.
        thorough: look at the policy and the judged episodes, too, not only at the records.
    """
    summary = read_record(folder.summary, SessionSummary)
    is_pass = summary.outcome in PASSES
    needs = [folder.summary, *([folder.certificate] if is_pass else [])]
    if summary.best_iteration is not None and is_pass:
        needs.append(folder.iteration(summary.best_iteration).judgment)
    fault = broken_seal(folder, needs=tuple(needs), thorough=thorough)
    if fault == NO_SEAL and not is_pass:
        fault = None  # nothing is claimed
    if fault is None and is_pass and folder.vetoes.exists():
        fault = "a person vetoed it"
    if fault is not None:
        told = summary.model_copy(update={"reasons": (fault, *summary.reasons)})
        return told.as_unproven() if is_pass else told
    if is_pass and is_sealed_elsewhere(folder):
        return summary.model_copy(update={"limits": (*summary.limits, SEALED_ELSEWHERE)})
    return summary


def is_running(folder: WorkFolder) -> bool:
    """Say whether a process works in the folder, or waits in it."""
    return lock_holder(folder.lock) is not None


def require_unfinished(folder: SessionFolder) -> None:
    """Raise UsageError if the session came to its end, so that nothing can be asked of it."""
    state = state_of(folder)
    if state in ENDED:
        raise UsageError(
            f"{folder.name} came to its end: {outcome_words(state)}.",
            hint=f"Start from one of its iterations with: telic branch {folder.name} --iteration N",
        )
