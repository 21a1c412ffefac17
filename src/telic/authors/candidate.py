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
"""share of a training's steps that the short trial of a variant takes"""


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
    warm: bool = Field(default=False, description="goes on from the parent's policies")
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
    """tried for a short while each; the best one is trained in full"""
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
    """How one trained policy was judged."""

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
        """Score it proves; -1 when it could not be judged."""
        return -1.0 if self.judgement.low is None else self.judgement.low

    @property
    def median_episode(self) -> int:
        """Index of the episode in the middle of its scores."""
        known = [verdict.score for verdict in self.judgement.verdicts]
        scores = [-1.0 if score is None else score for score in known]
        return sorted(range(len(scores)), key=scores.__getitem__)[len(scores) // 2]


class Selection(Record):
    """How short trials of several variants went, and which one was trained on."""

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
    """its best policy; None: it has none"""
    tags: tuple[str, ...]
    members: tuple[MemberScore, ...] = ()
    """empty when the candidate could not be trained"""
    scores: dict[str, float | None] = Field(default={})
    """of each policy"""
    trials: tuple[MemberScore, ...] = ()
    """the short trials of all variants"""
    steps: int = 0
    """environment steps of all policies, trials included"""
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
    """on what the pictures contradict the judge's code, also after a closer look; None: nothing"""

    @property
    def best_member(self) -> MemberScore | None:
        """The best policy as it was judged; None if there is no policy."""
        return next((member for member in self.members if member.member == self.best), None)


def worth(iteration: SessionIteration) -> float:
    """Return what orders iterations; one that could not be judged is behind one worth nothing."""
    return -1.0 if iteration.score is None else iteration.score


def handed_out(history: Iterable[SessionIteration]) -> SessionIteration | None:
    """Return the iteration whose best policy is handed out: one that passed, or it proves most.

    Of a reward the mean of its policies says most, and that is what is gone on from; but who asked
    for a policy wants the best one, also where the others of its reward are worth little.
    """

    def rank(iteration: SessionIteration) -> tuple[bool, float, float]:
        best = iteration.best_member
        return iteration.passed, -1.0 if best is None else best.low, worth(iteration)

    return max((each for each in history if each.members), key=rank, default=None)


def read_candidates(
    folder: SessionFolder, history: Iterable[SessionIteration]
) -> dict[int, RewardCandidate]:
    """Return what each finished iteration tried, by its number."""
    return {
        iteration.number: read_record(folder.iteration(iteration.number).candidate, RewardCandidate)
        for iteration in history
    }


def structure_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward's file of a variant, with the weights that it was written with."""
    return _variant(candidate, variant).reward or candidate.reward


def reward_text(candidate: RewardCandidate, variant: int) -> str:
    """Return the reward's file as a variant is trained with it."""
    text = structure_text(candidate, variant)
    return with_weights(text, {**weights_in(text), **_variant(candidate, variant).weights})


def reward_texts(candidates: Iterable[RewardCandidate]) -> Iterator[str]:
    """Yield the reward files of all variants of candidates, as they were trained."""
    for candidate in candidates:
        for variant in range(len(candidate.variants)):
            yield reward_text(candidate, variant)


def _variant(candidate: RewardCandidate, variant: int) -> Variant:
    return candidate.variants[variant if variant < len(candidate.variants) else 0]


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


def same_memory(one: str, other: str) -> bool:
    """Return whether two rewards keep the same memory, so that one's policies fit the other."""
    return _memory(one) == _memory(other)


def _memory(source: str) -> list[str]:
    found = (_declaration(source, name) for name in ("memory", "memory_to"))
    return ["" if each is None else ast.dump(each.value) for each in found]


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
    _parses(source)
    check_source(source, "reward_fn.py")


def check_judge(source: str) -> None:
    """Raise RefusedCode for a file that is not Python, not allowed, or defines no judge."""
    _parses(source)
    compile_source(source, "judge_fn.py", extra_modules=OFFERED)
    if "def judge(" not in source:
        raise RefusedCode("judge_fn.py defines no function judge(episode).")


def _parses(source: str) -> None:
    try:
        compile(source, "file", "exec")
    except SyntaxError as error:
        raise RefusedCode(f"Line {error.lineno}: this is not valid Python: {error.msg}.") from None
