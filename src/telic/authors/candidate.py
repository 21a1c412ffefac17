"""A reward to try and how it was judged: the records that authors and sessions exchange.

The weights of a reward file are read and changed without running it: it may be foreign code.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Record
from telic.core.events import Event
from telic.errors import RefusedCode, RewardError
from telic.judges.code import OFFERED
from telic.judges.verdict import Judgement
from telic.robots.terrain import on_fresh_ground
from telic.sandbox.source import check_source, compile_source, source_lines
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder

Tier = Literal["hard", "strong", "soft", "retired"]
SHORT = 0.3
"""share of a training's steps that the screening run of a variant takes"""


class Lesson(Record):
    """Something learned that later revisions should keep to."""

    text: str = Field(min_length=1, description="one sentence, true beyond this one iteration")
    tier: Tier = Field(
        default="strong",
        description="hard: never go against it; strong: keep to it; soft: may be challenged; "
        "retired: found wrong, kept so that it is not found again",
    )


class Variant(Record):
    """One way to train a candidate's reward."""

    weights: dict[str, float] = Field(default={}, description="changes of the reward's weights")
    warm: bool = Field(default=False, description="starts from the parent's policies")
    reward: str | None = Field(
        default=None, description="another reward than the candidate's; None: the same"
    )
    structure: tuple[str, ...] = Field(
        default=(), description="what this reward does otherwise than as it was first written"
    )


class RewardCandidate(Record):
    """A reward to try, with the settings that belong to it."""

    schema_version: Literal[1] = 1
    reward: str
    variants: tuple[Variant, ...] = Field(default=(Variant(),), min_length=1)
    """compared in screening runs; the best one is trained in full"""
    rungs: tuple[float, ...] = ()
    """of earlier versions"""
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="changes of the trainer's settings")
    steps: int
    parent: int | None = None
    """iteration it was made from"""
    change: str = "first try"
    diagnosis: str = ""
    """why the parent failed, as the reviser sees it"""
    lessons: tuple[Lesson, ...] = ()
    """learned from what came before; a later text that is equal but for its tier replaces it"""

    @property
    def judged_args(self) -> dict[str, Any]:
        """Arguments of the environment that policies are judged in: on freshly drawn ground."""
        return on_fresh_ground(self.env_args)


class MemberScore(Record):
    """The score of one trained policy."""

    member: str
    variant: int
    seed: int
    step: int
    judgement: Judgement
    choosing: float | None = None
    """mean score on the episodes on which it was chosen; None: nothing was chosen"""
    policy_hash: str | None = None
    """SHA-256 of the policy's file from before it played; None: it was only compared with others"""

    @property
    def low(self) -> float:
        """Lower confidence bound of its score; -1 when it could not be judged."""
        return -1.0 if self.judgement.low is None else self.judgement.low

    @property
    def median_episode(self) -> int:
        """Index of the episode in the middle of its scores."""
        known = [verdict.score for verdict in self.judgement.verdicts]
        scores = [-1.0 if score is None else score for score in known]
        return sorted(range(len(scores)), key=scores.__getitem__)[len(scores) // 2]


class Selection(Record):
    """The screening runs of several variants, and the one that was kept."""

    schema_version: Literal[1] = 1
    kept: int
    members: tuple[MemberScore, ...]
    training_s: float
    judging_s: float


class SessionIteration(Event):
    """One candidate, trained and judged."""

    NAME = "session.judged"
    OMITTED = frozenset({"members", "trials"})

    schema_version: Literal[1] = 1
    number: int
    parent: int | None
    change: str
    passed: bool
    score: float | None
    """mean score of the policies"""
    variant: int
    """the variant that was trained in full"""
    best: str | None
    """its best policy; None: none was trained"""
    tags: tuple[str, ...]
    members: tuple[MemberScore, ...] = ()
    """empty when the candidate could not be trained"""
    scores: dict[str, float | None] = Field(default={})
    """of each policy"""
    trials: tuple[MemberScore, ...] = ()
    """the screening runs of all variants"""
    steps: int = 0
    """environment steps of all policies, screening runs included"""
    training_s: float
    judging_s: float
    failure: str | None = None
    """why the candidate could not be trained"""
    alarms: tuple[str, ...] = ()
    """policies whose return rose while their score fell"""
    judge_hash: str | None = None
    """SHA-256 of the judge that judged it; None: it was changed meanwhile, or is not on record"""
    reward_hashes: dict[str, str] = Field(default={})
    """SHA-256 of the reward that each policy was trained with"""
    unjudged: tuple[str, ...] = ()
    """why episodes of its policies have no score, each reason once with a count"""
    judge_doubted: str | None = None
    """where the pictures contradict the judge's code, also after a closer look; None: nowhere"""

    @property
    def best_member(self) -> MemberScore | None:
        """The best policy as it was judged; None if none was trained."""
        return next((member for member in self.members if member.member == self.best), None)


def worth(iteration: SessionIteration) -> float:
    """Return the score that orders iterations; one that could not be judged ranks last."""
    return -1.0 if iteration.score is None else iteration.score


def handed_out(history: Iterable[SessionIteration]) -> SessionIteration | None:
    """Return the iteration whose best policy is delivered: one that passed, or the best proven.

    Revisions start from the reward with the best mean; a user wants the single best policy.
    """

    def rank(iteration: SessionIteration) -> tuple[bool, float, float]:
        best = iteration.best_member
        return iteration.passed, -1.0 if best is None else best.low, worth(iteration)

    return max((each for each in history if each.members), key=rank, default=None)


def read_candidates(
    folder: SessionFolder, history: Iterable[SessionIteration]
) -> dict[int, RewardCandidate]:
    """Return the candidate of each finished iteration, by number."""
    return {
        iteration.number: read_record(folder.iteration(iteration.number).candidate, RewardCandidate)
        for iteration in history
    }


def structure_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward's file of a variant, with the weights that it was written with."""
    return candidate.variants[variant % len(candidate.variants)].reward or candidate.reward


def reward_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward's file as a variant is trained with it."""
    text = structure_text(candidate, variant)
    changes = candidate.variants[variant % len(candidate.variants)].weights
    return with_weights(text, {**weights_in(text), **changes})


def reward_texts(candidates: Iterable[RewardCandidate]) -> Iterator[str]:
    """Yield the reward files of all variants of candidates, as they were trained."""
    for candidate in candidates:
        for variant in range(len(candidate.variants)):
            yield reward_text(candidate, variant)


def latest_lessons(candidates: Iterable[RewardCandidate]) -> tuple[Lesson, ...]:
    """Return the lessons of candidates in their order; of equal texts the latest tier holds."""
    latest = {lesson.text: lesson for candidate in candidates for lesson in candidate.lessons}
    return tuple(latest.values())


def weights_in(source: str) -> dict[str, float]:
    """Return the weights that the reward's class declares; empty if it declares none."""
    declaration = _declaration(source)
    if declaration is None:
        return {}
    try:
        value = ast.literal_eval(declaration.value)
        return {str(name): float(weight) for name, weight in value.items()}
    except (ValueError, TypeError, AttributeError):
        raise RewardError(
            f"Line {declaration.lineno}: weights must be a dictionary of plain numbers.",
            hint='Write weights = {"speed": 1.0, "control": 0.1}.',
            line=declaration.lineno,
        ) from None


def with_weights(source: str, weights: dict[str, float]) -> str:
    """Return the file with these weights written into it, so that it says what was trained."""
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
    """Return a file without the values of its weights: what it pays for, not how much."""
    return with_weights(source, dict.fromkeys(weights_in(source), 1.0))


def _declaration(source: str, name: str = "weights") -> ast.Assign | None:
    """Return the assignment of a name in the first class that has one."""
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
    """Raise RefusedCode for a file that is not Python, or uses what foreign code may not."""
    _check_syntax(source)
    check_source(source, "reward_fn.py")


def check_judge(source: str) -> None:
    """Raise RefusedCode for a file that is not Python, not allowed, or defines no judge."""
    _check_syntax(source)
    compile_source(source, "judge_fn.py", extra_modules=OFFERED)
    if "def judge(" not in source:
        raise RefusedCode("judge_fn.py defines no function judge(episode).")


def _check_syntax(source: str) -> None:
    try:
        compile(source, "file", "exec")
    except SyntaxError as error:
        raise RefusedCode(f"Line {error.lineno}: this is not valid Python: {error.msg}.") from None
