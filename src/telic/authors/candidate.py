"""Reward candidates and evaluation results that authors and sessions exchange.

Reward weights are read and changed without executing the reward file, which may be untrusted.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import AliasChoices, Field

from telic.core.config import Record
from telic.core.events import Event
from telic.errors import RefusedCode, RewardError
from telic.judges.code import OFFERED
from telic.judges.verdict import Judgment
from telic.robots.terrain import on_fresh_ground
from telic.sandbox.source import compile_source, source_lines
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder

Tier = Literal["hard", "strong", "soft", "retired"]
SHORT = 0.3
"""fraction of the training steps used in the screening run of a variant"""


class Lesson(Record):
    """Lesson for later revisions."""

    text: str = Field(min_length=1, description="one sentence that holds beyond this iteration")
    tier: Tier = Field(
        default="strong",
        description="hard (always follow), strong (follow by default), soft (may be challenged) or "
        "retired (found to be wrong, kept to avoid repeating it)",
    )


class Variant(Record):
    """Variant of a candidate's reward and training setup."""

    weights: dict[str, float] = Field(default={}, description="reward weights that differ")
    warm: bool = Field(default=False, description="whether to start from the parent's policies")
    reward: str | None = Field(
        default=None, description="reward that replaces the candidate's reward, or None"
    )
    structure: tuple[str, ...] = Field(
        default=(), description="differences from the reward as originally written"
    )


class RewardCandidate(Record):
    """Reward for training a policy, with environment arguments and trainer settings."""

    schema_version: Literal[1] = 1
    reward: str
    variants: tuple[Variant, ...] = Field(default=(Variant(),), min_length=1)
    """variants to compare in screening runs; the best one is trained in full"""
    rungs: tuple[float, ...] = ()
    """written by earlier versions"""
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="trainer settings that differ")
    steps: int
    parent: int | None = None
    """iteration from which the candidate is derived"""
    change: str = "first try"
    diagnosis: str = ""
    """the reviser's explanation of why the parent failed"""
    lessons: tuple[Lesson, ...] = ()
    """lessons from earlier iterations; a later lesson with the same text replaces the tier"""

    @property
    def judged_args(self) -> dict[str, Any]:
        """Environment arguments for evaluation, with newly sampled terrain."""
        return on_fresh_ground(self.env_args)


class MemberScore(Record):
    """Score of one trained policy."""

    member: str
    variant: int
    seed: int
    step: int
    judgment: Judgment = Field(
        validation_alias=AliasChoices("judgment", "judgement")  # language: quoted
    )
    choosing: float | None = None
    """mean score on the selection episodes, or None without a selection"""
    policy_hash: str | None = None
    """SHA-256 of the policy file before evaluation, or None for screening runs"""

    @property
    def low(self) -> float:
        """Lower confidence bound of the score, or -1 if it could not be judged."""
        return -1.0 if self.judgment.low is None else self.judgment.low

    @property
    def code_score(self) -> float | None:
        """Mean score that the code judge gave the policy."""
        given = [each.by_judge.get("code", each.score) for each in self.judgment.verdicts]
        known = [score for score in given if score is not None]
        return sum(known) / len(known) if known else None

    @property
    def median_episode(self) -> int:
        """Index of the episode with the median score."""
        known = [verdict.score for verdict in self.judgment.verdicts]
        scores = [-1.0 if score is None else score for score in known]
        return sorted(range(len(scores)), key=scores.__getitem__)[len(scores) // 2]


class Selection(Record):
    """Screening runs of several variants and the selected variant."""

    schema_version: Literal[1] = 1
    kept: int
    members: tuple[MemberScore, ...]
    training_s: float
    judging_s: float


class SessionIteration(Event):
    """Result of training and judging one candidate."""

    NAME = "session.judged"
    OMITTED = frozenset({"members", "trials"})

    schema_version: Literal[1] = 1
    number: int
    parent: int | None
    change: str
    passed: bool
    score: float | None
    """mean score over policies"""
    variant: int
    """index of the variant that was trained in full"""
    best: str | None
    """name of the best policy, or None if none was trained"""
    tags: tuple[str, ...]
    members: tuple[MemberScore, ...] = ()
    """scores of the trained policies, or empty if training failed"""
    scores: dict[str, float | None] = Field(default={})
    """score of each policy"""
    trials: tuple[MemberScore, ...] = ()
    """screening runs of all variants"""
    steps: int = 0
    """number of environment steps of all policies, including screening runs"""
    training_s: float
    judging_s: float
    failure: str | None = None
    """why training failed"""
    alarms: tuple[str, ...] = ()
    """policies whose return rose while their score fell"""
    judge_hash: str | None = None
    """SHA-256 of the judge, or None if it changed during evaluation or was not recorded"""
    reward_hashes: dict[str, str] = Field(default={})
    """SHA-256 of each policy's reward"""
    unjudged: tuple[str, ...] = ()
    """distinct reasons for episodes without a score, with counts"""
    judge_doubted: str | None = None
    """disagreement between vision and code judge that remains after a second look, or None"""

    @property
    def best_member(self) -> MemberScore | None:
        """Score of the best policy, or None if none was trained."""
        return next((member for member in self.members if member.member == self.best), None)


def worth(iteration: SessionIteration) -> float:
    """Return the score of an iteration for sorting, or -1 if it could not be judged."""
    return -1.0 if iteration.score is None else iteration.score


def handed_out(history: Iterable[SessionIteration]) -> SessionIteration | None:
    """Return the iteration with the policy to deliver, preferring passes, then lower bounds.

    Revisions start from the reward with the best mean score, but users need the best policy.
    """

    def rank(iteration: SessionIteration) -> tuple[bool, float, float]:
        best = iteration.best_member
        return iteration.passed, -1.0 if best is None else best.low, worth(iteration)

    return max((each for each in history if each.members), key=rank, default=None)


def read_candidates(
    folder: SessionFolder, history: Iterable[SessionIteration]
) -> dict[int, RewardCandidate]:
    """Return the candidates of finished iterations by iteration number."""
    return {
        iteration.number: read_record(folder.iteration(iteration.number).candidate, RewardCandidate)
        for iteration in history
    }


def structure_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward source of a variant with its original weights."""
    return candidate.variants[variant % len(candidate.variants)].reward or candidate.reward


def reward_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward source of a variant with the weights used in training."""
    text = structure_text(candidate, variant)
    changes = candidate.variants[variant % len(candidate.variants)].weights
    return with_weights(text, {**weights_in(text), **changes})


def latest_lessons(candidates: Iterable[RewardCandidate]) -> tuple[Lesson, ...]:
    """Return the lessons of candidates in order. A repeated lesson gets its latest tier."""
    latest = {lesson.text: lesson for candidate in candidates for lesson in candidate.lessons}
    return tuple(latest.values())


def weights_in(source: str) -> dict[str, float]:
    """Return the weights declared by the reward class, or an empty dictionary."""
    declaration = _declaration(source)
    if declaration is None:
        return {}
    try:
        value = ast.literal_eval(declaration.value)
        return {str(name): float(weight) for name, weight in value.items()}
    except (ValueError, TypeError, AttributeError):
        raise RewardError(
            f"Line {declaration.lineno}: weights must be a dictionary with numeric literals.",
            hint='Write weights = {"speed": 1.0, "control": 0.1}.',
            line=declaration.lineno,
        ) from None


def with_weights(source: str, weights: dict[str, float]) -> str:
    """Replace the weights declared in a reward file."""
    declaration = _declaration(source)
    if declaration is None or not weights:
        return source
    lines = source_lines(source)
    inside = ", ".join(f"{json.dumps(name)}: {value:g}" for name, value in weights.items())
    indent = " " * declaration.col_offset
    end = declaration.end_lineno or declaration.lineno
    new = f"{indent}weights = {{{inside}}}"
    return "\n".join([*lines[: declaration.lineno - 1], new, *lines[end:]])


def program_text(source: str) -> str:
    """Return the reward source with all weights set to 1, for comparing reward structure."""
    return with_weights(source, dict.fromkeys(weights_in(source), 1.0))


def _declaration(source: str, name: str = "weights") -> ast.Assign | None:
    """Return the assignment to a class attribute in the first class that has the attribute."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == name for target in statement.targets
            ):
                return statement
    return None


def check_reward(source: str) -> None:
    """Raise RefusedCode if a reward file has a syntax error or uses forbidden constructs."""
    compile_source(source, "reward_fn.py")


def check_judge(source: str) -> None:
    """Raise RefusedCode if a judge file is invalid, uses forbidden code or defines no judge."""
    compile_source(source, "judge_fn.py", extra_modules=OFFERED)
    if "def judge(" not in source:
        raise RefusedCode("judge_fn.py does not define a function judge(episode).")
