"""Criteria as data that the host measures on recordings with expressions of quantities.

    mean(forward_velocity)                          highest(-pitch_turns)
    share(uprightness > 0.85)                       body_height("ffoot") - height
    longest((pitch > 0.5) & (height > 0.4))         foot_height[1]

Expressions are parsed and never executed as code. They consist of quantities, metrics from
`telic.judges.metrics`, numbers, arithmetic and comparisons. A judge file lists the criteria and the
phases of a sequence as literals, and contains code only for criteria without an expression.
"""

from __future__ import annotations

import ast
import operator
import pprint
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from telic.core.text import parse_python
from telic.envs.spec import EnvSpec
from telic.errors import RewardError, TelicError, UnknownName, UsageError
from telic.judges.criteria import (
    Composition,
    Criterion,
    CriterionScore,
    EpisodePhase,
    require,
    score,
    score_near,
)
from telic.judges.episode import RecordedEpisode
from telic.judges.metrics import METRICS
from telic.quantities import QUANTITIES
from telic.quantities.quantity import current_names

TIME_LEFT = "time_left()"
"""measure of the end of a phase, in seconds left when the phase is complete"""
_ON_WAY, _TIME_LEFT = "on_way", "time_left"
_CRITERIA, _PHASES, _JUDGE = "CRITERIA", "PHASES", "judge"
_FOR_PEOPLE = {"source", "is_open", "best", "best_source"}
_MAX_LENGTH, _MAX_NODES = 40_000, 8_000
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitAnd: np.logical_and,
    ast.BitOr: np.logical_or,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: np.logical_not,
    ast.Not: np.logical_not,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "cos": np.cos,
    "sin": np.sin,
    "hypot": np.hypot,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


class JudgeFile(NamedTuple):
    """Parsed judge file."""

    criteria: tuple[Criterion, ...]
    """agreed criteria, where those without a measure are measured by the judge's code"""
    phases: tuple[EpisodePhase, ...]
    code: str
    """text without these lists (empty if the host measures everything)"""


NO_CRITERIA = JudgeFile((), (), "")


def judge_text(
    intent: str,
    env: str,
    criteria: Sequence[Criterion],
    phases: Sequence[EpisodePhase] = (),
    code: str = "",
) -> str:
    """Return the source of a judge: criteria as data, plus code for those without a measure."""
    rows = [
        each.model_dump(mode="json", exclude_defaults=True, exclude=_FOR_PEOPLE)
        for each in criteria
    ]
    ends = [each.model_dump(mode="json", exclude_defaults=True) for each in phases]
    about = f"Judge of: {intent} ({env}). The host measures these criteria from the recording."
    words = " ".join(about.replace("\\", " ").replace('"', "'").split())[:400]
    listed = [(_CRITERIA, rows)] + ([(_PHASES, ends)] if ends else [])
    parts = [f'"""{words}"""']
    parts += [f"{name} = {pprint.pformat(own, width=96, sort_dicts=False)}" for name, own in listed]
    return "\n\n".join([*parts, code.strip()] if code.strip() else parts) + "\n"


@lru_cache(maxsize=16)
def read_judge(text: str) -> JudgeFile:
    """Parse the text of a judge. A text without a list of criteria consists only of code.

    Raises RewardError for malformed lists.
    """
    try:
        body = parse_python(text).body
    except (SyntaxError, ValueError):
        return JudgeFile((), (), text)  # rejected with its line number when the code is compiled
    found: dict[str, Any] = {}
    lines = text.splitlines(keepends=True)
    try:
        for node in body:
            names = [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
            is_head = node is body[0] and isinstance(node, ast.Expr) and _CRITERIA in text
            if is_head or (names and names[0] in (_CRITERIA, _PHASES)):
                if not is_head and names[0] in found:
                    raise ValueError(f"{names[0]} is listed twice")
                if isinstance(node, ast.Assign):
                    found[names[0]] = ast.literal_eval(node.value)
                for line in range(node.lineno - 1, node.end_lineno or node.lineno):
                    lines[line] = "\n"  # keeps line numbers in messages about the code
        criteria = tuple(Criterion.model_validate(row) for row in found.get(_CRITERIA, ()))
        phases = tuple(EpisodePhase.model_validate(row) for row in found.get(_PHASES, ()))
    except (ValueError, TypeError, ValidationError) as error:
        raise RewardError(f"judge_fn.py is invalid: {error}"[:500]) from None
    has_code = any(isinstance(node, ast.FunctionDef) and node.name == _JUDGE for node in body)
    return JudgeFile(criteria, phases, "".join(lines) if has_code or not criteria else "")


def measured_by_host(written: Composition) -> Composition:
    """Return a composition whose judge has the agreed criteria and the original code.

    The code is kept only if some criterion has no measure.
    """
    if not written.criteria:
        return written
    needs_code = not all(each.measure for each in written.criteria)
    code = read_judge(written.judge).code if needs_code else ""
    text = judge_text(written.intent, written.env, written.criteria, written.phases, code)
    return written.model_copy(update={"judge": text})


# ---- expressions


@lru_cache(maxsize=512)
def _parsed(text: str) -> ast.expr:
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError("too long")
        tree = parse_python(current_names(text.strip()), mode="eval").body
        if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
            raise ValueError("too long")
        return tree
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UsageError(
            f'"{text[:80]}" is not an expression of quantities.',
            hint="Use, for example, mean(forward_velocity) or share(uprightness > 0.85).",
        ) from None


def is_expression(text: str) -> bool:
    """Return whether a text is an expression in known quantities and metrics."""
    try:
        return bool(measured_names(text))
    except TelicError:
        return False


def measured_names(text: str) -> tuple[str, ...]:
    """Return the quantities in an expression, with "" for each metric, or raise UsageError."""
    found: list[str] = []
    for node in ast.walk(_parsed(text)):
        match node:
            case ast.Call(ast.Name(name)) if name in METRICS or name == _TIME_LEFT:
                found.append("")
            case ast.Name(name) | ast.Constant(str() as name) if name in QUANTITIES:
                found.append(name)
            case ast.Name(name) if name not in {*METRICS, *_FUNCTIONS, _ON_WAY, _TIME_LEFT}:
                raise UnknownName("quantity", name, [*QUANTITIES, *METRICS])
            case _:
                pass
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=1024)
def quantities_behind(text: str) -> tuple[str, ...]:
    """Return the quantities that an expression uses, directly or through metrics."""
    if not text or not is_expression(text):
        return ()
    found = [name for name in measured_names(text) if name]
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Name) and node.id in METRICS:
            found += METRICS[node.id].uses
    return tuple(dict.fromkeys(found))


class _Measuring(ast.NodeVisitor):
    """Evaluate the nodes of an expression on one episode."""

    def __init__(self, episode: RecordedEpisode, left: float | None) -> None:
        self._episode, self._left = episode, left

    def _computed(self, how: ast.AST, *parts: ast.AST) -> Any:
        values = [self.visit(each) for each in parts]
        for each in values:
            if isinstance(each, str | tuple):
                raise UsageError(f"{each!r} is not a number.")
        if type(how) not in _OPERATORS:
            raise UsageError(f"{type(how).__name__} is not allowed in an expression.")
        with np.errstate(all="ignore"):
            return _OPERATORS[type(how)](*values)

    def generic_visit(self, node: ast.AST) -> Any:
        raise UsageError(f"{ast.unparse(node)[:80]} is not allowed in an expression.")

    def visit_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, int | float | str):
            self.generic_visit(node)
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in QUANTITIES:
            raise UnknownName("quantity", node.id, [*QUANTITIES])
        return self._episode[node.id]

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.visit(each) for each in node.elts)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._computed(node.op, node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._computed(node.op, node.left, node.right)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return reduce(_OPERATORS[type(node.op)], [self.visit(each) for each in node.values])

    def visit_Compare(self, node: ast.Compare) -> Any:
        sides = [node.left, *node.comparators]
        held = [
            self._computed(how, *pair) for how, pair in zip(node.ops, pairwise(sides), strict=True)
        ]
        return reduce(np.logical_and, held)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        values, column = self.visit(node.value), getattr(node.slice, "value", None)
        if np.ndim(values) != 2 or type(column) is not int or not 0 <= column < values.shape[1]:
            raise UsageError(f"{ast.unparse(node)}: this column does not exist.")
        return values[:, column]

    def visit_Call(self, node: ast.Call) -> Any:
        name = getattr(node.func, "id", "")
        if name == _ON_WAY and len(node.args) == 3:  # evaluate the last argument on that part
            way, meters = (self.visit(each) for each in node.args[:2])
            covered = METRICS["place"].function(self._episode, way)
            part = self._episode.before(self._episode.first(covered - covered[0] > meters))
            return _Measuring(part, self._left).visit(node.args[2])
        given = [self.visit(each) for each in node.args]
        named = {each.arg or "": self.visit(each.value) for each in node.keywords}
        if name in METRICS:
            return METRICS[name].function(self._episode, *given, **named)
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*given)
        if name in QUANTITIES:
            return self._episode.quantity(name, *given, *named.values())
        if name == _TIME_LEFT and self._left is not None:
            return self._left
        raise UnknownName("metric", name, [*METRICS, *QUANTITIES])


def _evaluate(
    text: str, episode: RecordedEpisode, left: float | None = None
) -> np.ndarray[Any, Any] | float:
    """Evaluate an expression on an episode to a number or an array over time.

    `left` is the time remaining after a phase, in seconds. Raises UsageError or UnknownName.
    """
    try:
        value = np.asarray(_Measuring(episode, left).visit(_parsed(text)))
        if value.dtype.kind not in "fib" or value.ndim > 1:
            raise UsageError(f"{text} must evaluate to one number, or to one number per step.")
    except TelicError:
        raise
    except Exception as error:  # wrong number or types of arguments
        raise UsageError(f"{text} cannot be measured: {error}"[:300]) from None
    return value if value.ndim else float(value)


def single_value(
    criterion: Criterion, episode: RecordedEpisode, left: float | None = None
) -> float:
    """Return the value of a criterion in an episode.

    A value per step is reduced to one number: the fraction of time for a condition, the mean for a
    sustained criterion, the last value for an accumulated quantity, and otherwise the best value.
    """
    value = _evaluate(criterion.measure, episode, left)
    if isinstance(value, float):
        return value
    if value.dtype.kind == "b":
        return episode.share(value)
    if criterion.kind == "sustained" or criterion.direction == "about":
        return float(np.mean(value))
    known = QUANTITIES.get(current_names(criterion.measure.strip()))
    if known is not None and known.width is not None:
        return float(value[-1])
    return float(np.max(value) if criterion.direction == "at_least" else np.min(value))


def problem_of_measure(criterion: Criterion, spec: EnvSpec) -> str | None:
    """Return why the host cannot measure a criterion in an environment, or None if it can."""
    try:
        for name in measured_names(criterion.measure):
            if name in QUANTITIES and not QUANTITIES[name].available(spec):
                return f"{spec.id} has no {name}: it requires {QUANTITIES[name].need.words}"
    except TelicError as error:
        return str(error)
    return None


def _phase_parts(
    judge: JudgeFile, episode: RecordedEpisode
) -> Iterator[tuple[int, int, int | None, RecordedEpisode, float]]:
    """Yield the number, first step, last step and part of each phase, and the time left after it.

    The last step is relative to the part, and None if the phase is not completed.
    """
    part, start = episode, 0
    for number, phase in enumerate(judge.phases, 1):
        done, own, left = None, part, 0.0
        if phase.until:
            held = np.asarray(_evaluate(phase.until, part), dtype=bool)
            done = part.when(np.broadcast_to(held, len(part)), phase.seconds)
            own, left = part.before(done), part.left(done)
        yield number, start, done, own, left
        rest = part.after(done)
        part, start = rest, start + len(part) - len(rest)


# ---- evidence for people and vision models


def measured_parts(text: str) -> tuple[str, ...]:
    """Return the quantities of an expression as they are written, e.g. contact_force("torso")."""

    def parts(node: ast.AST) -> Iterator[str]:
        if getattr(getattr(node, "func", getattr(node, "value", node)), "id", "") in QUANTITIES:
            yield ast.unparse(node)
        else:
            for child in ast.iter_child_nodes(node):
                yield from parts(child)

    return tuple(dict.fromkeys(parts(_parsed(text)))) if is_expression(text) else ()


def value_of(text: str, episode: RecordedEpisode) -> np.ndarray[Any, Any]:
    """Evaluate an expression on an episode. Without the required columns, it has no values."""
    try:
        return np.asarray(_evaluate(text, episode))
    except TelicError:
        return np.empty(0)


def measure_between(
    episode: RecordedEpisode, expression: str, between_s: tuple[float, float] | None
) -> str | None:
    """Describe the values of an expression over a part of an episode, or by default over all of it.

    Return None without a value per step, or if the simulation diverged.
    """
    first, last = 0, len(episode) - 1
    if between_s is not None:
        # Row n is the state after its step, at (n + 1) dt.
        first, last = (min(max(round(at / episode.dt) - 1, 0), last) for at in between_s)
    track = value_of(expression, episode)
    if track.shape != (len(episode),) or not np.isfinite(track).all():
        return None
    track = track[first : last + 1]
    numbers = f"mean {track.mean():.3g}, lowest {track.min():.3g}, highest {track.max():.3g}"
    return f"`{expression}` {numbers}"


def deciding_steps(judge: JudgeFile, episode: RecordedEpisode) -> dict[int, dict[int, str]]:
    """Return the steps at which phases end and criteria are decided, by criterion number.

    Ends of phases have the number 0.
    """
    places, found = {0: (0, episode)}, dict[int, dict[int, str]]({0: {}})
    for number, start, done, part, _ in _phase_parts(judge, episode):
        places[number] = start, part
        if done is None:
            break
        found[0][start + done] = f"phase {number} ends"
    for number, criterion in enumerate(judge.criteria, 1):
        if criterion.phase in places and is_expression(criterion.measure):
            start, part = places[criterion.phase]
            steps = _deciding(criterion, part)
            found[number] = {start + at: words for at, words in steps.items()}
    return found


def _deciding(criterion: Criterion, part: RecordedEpisode) -> dict[int, str]:
    """Return the steps of a part of an episode that decide a criterion."""
    node, name = _parsed(criterion.measure), ""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and call.args and getattr(call.func, "id", "") in METRICS:
            node, name = call.args[0], getattr(call.func, "id", "")
            break
    try:
        series = np.asarray(_Measuring(part, None).visit(node))
    except TelicError:
        return {}
    if series.shape != (len(part),) or name == "last":
        return {len(part) - 1: "last"}
    if series.dtype == bool:
        ends = np.flatnonzero(np.diff(np.concatenate(([False], series, [False]))))
        if not len(ends):
            return {0: "never"}
        begin, end = max(ends.reshape(-1, 2).tolist(), key=lambda run: run[1] - run[0])
        return {begin: "begins", end - 1: "ends"}
    if name == "lowest" or (name != "highest" and criterion.direction == "at_least"):
        return {int(series.argmin()): "lowest"}
    if name == "highest" or criterion.direction == "at_most":
        return {int(series.argmax()): "highest"}
    return {int(np.abs(series - (criterion.goal or 0.0)).argmax()): "farthest"}


# ---- scores


def score_criterion(
    criterion: Criterion, value: float, after: CriterionScore | None = None
) -> CriterionScore:
    """Score a measured value with the zero and goal of its criterion."""
    zero, goal = criterion.zero, criterion.goal
    if zero is None or goal is None:
        raise UsageError(f'The criterion "{criterion.title}" lacks zero or goal.')
    tag = criterion.tag or criterion.title[:100]
    common: dict[str, Any] = {"unit": criterion.unit, "tag": tag, "after": after}
    if criterion.is_guard:
        return require(criterion.title, value, zero=zero, goal=goal, **common)
    common |= {"weight": criterion.weight, "stated": criterion.is_stated}
    if criterion.direction == "about":
        within = float(f"{abs(goal - zero) / 4.0:.4g}")
        return score_near(criterion.title, value, goal, within, **common)
    return score(criterion.title, value, zero=zero, goal=goal, **common)


def measure_criteria(judge: JudgeFile, episode: RecordedEpisode) -> list[CriterionScore]:
    """Return the scores of the criteria with a measure, in order.

    Each phase is measured on its part of the episode, and counts only if the previous phase was
    completed.
    """
    scores: dict[str, CriterionScore] = {}
    gate = None
    for number, _, done, own, left in _phase_parts(judge, episode):
        ends = score("done", float(done is not None), zero=0.0, goal=1.0, after=gate)
        for each in judge.criteria:
            if each.phase == number and each.measure:
                made = score_criterion(each, single_value(each, own, left), gate)
                scores[each.title] = made
                ends = made if each.measure == TIME_LEFT else ends
        gate = ends
    for each in judge.criteria:
        if each.measure and each.title not in scores:
            scores[each.title] = score_criterion(each, single_value(each, episode))
    return [scores[each.title] for each in judge.criteria if each.measure]


def joined(
    judge: JudgeFile, measured: Sequence[CriterionScore], coded: Sequence[CriterionScore]
) -> list[CriterionScore]:
    """Merge the scores that the host measured with scores from the judge's code.

    Only the measured values of code are used, with the agreed zero and goal. A score for which no
    criterion was agreed is ignored, unless it is a constraint, which can only lower the total.
    """
    if not judge.criteria:
        return list(coded)
    places = iter(measured)
    taken: list[str] = []
    scores: list[CriterionScore] = []
    for criterion in judge.criteria:
        if criterion.measure:
            scores.append(next(places))
            continue
        made = next((each for each in coded if is_score_of(each, criterion.title)), None)
        if criterion.zero is None or criterion.goal is None:  # only its code has numbers
            missing = score(criterion.title, float("nan"), zero=0.0, goal=1.0)
            scores.append(made or missing)
            continue
        value = float("nan") if made is None or made.value is None else made.value
        if made is not None and criterion.direction == "about" and "(within " in made.title:
            value += criterion.goal or 0.0  # it is the distance from the goal
        taken += [] if made is None else [made.title]
        scores.append(score_criterion(criterion, value))
    titles = {*taken, *(each.title for each in scores)}
    return scores + [each for each in coded if each.is_guard and each.title not in titles]


def is_score_of(made: CriterionScore, criterion: str) -> bool:
    """Return whether a score belongs to a criterion. Titles of `score_near` include a tolerance."""
    own, title = made.title.strip().casefold(), criterion.strip().casefold()
    return own == title or own.startswith(f"{title} (within ")
