"""The roles in which a model is asked: elicitor, the two authors, reviewer, reviser, analyst.

A role's prompt is a Markdown file in prompts/. The two authors see the criteria and the robot,
never one another's code; only the reviewer sees both files, and each author is told what concerns
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from telic.authors.answers import (
    Analysis,
    Elicited,
    Look,
    Review,
    Revision,
    Turn,
    WrittenJudge,
    WrittenReward,
)
from telic.authors.cast import Players, ask
from telic.core.text import few_digits
from telic.errors import RefusedCode, RewardError, TelicError
from telic.judges.code import OFFERED
from telic.judges.criteria import Criterion
from telic.judges.findings import ExampleResult
from telic.judges.habits import HABITS
from telic.judges.trial import Trial
from telic.sandbox.source import check_source, compile_source

File = TypeVar("File", WrittenReward, WrittenJudge)
ASK_ANEW = (
    "Take a stronger model, or start anew with --fresh: the same command would only read the same "
    "answers again, because they are paid for."
)
_TRIES = 3
_LOOKS = 6
_A_HAIR = 0.1
"""distance from the score that passes within which an example is said to be near it"""


def elicit(models: Players, shown: dict[str, str]) -> Elicited:
    """Make an intent measurable."""
    habits = "\n".join(f"- {name}" for name in HABITS)
    return ask(models, "elicitor", Elicited, {**shown, "habits": habits})


def write_both(
    models: Players,
    shown: dict[str, str],
    criteria: Sequence[Criterion],
    bounds: str,
    lessons: str = "",
) -> tuple[WrittenReward, WrittenJudge]:
    """Let two authors who do not see one another write the reward and the judge."""
    with ThreadPoolExecutor(2) as pool:
        reward = pool.submit(write_reward, models, shown, criteria, bounds, lessons)
        judge = pool.submit(write_judge, models, shown, criteria)
        return reward.result(), judge.result()


def write_reward(
    models: Players,
    shown: dict[str, str],
    criteria: Sequence[Criterion],
    bounds: str,
    lessons: str = "",
    problem: str = "",
) -> WrittenReward:
    """Ask for a reward file.

    `lessons` are those of earlier sessions; `problem` says what was wrong with the last file.
    """
    values = {**shown, "criteria": listed(criteria), "bounds": bounds, "lessons": lessons}
    return _write(models, "reward_author", WrittenReward, values, check_reward, problem)


def write_judge(
    models: Players, shown: dict[str, str], criteria: Sequence[Criterion], problem: str = ""
) -> WrittenJudge:
    """Ask for a judge file; `problem` says what was wrong with the last one."""
    values = {**shown, "criteria": listed(criteria)}
    return _write(models, "judge_author", WrittenJudge, values, check_judge, problem)


def _write(
    models: Players,
    role: str,
    answer: type[File],
    values: dict[str, str],
    check: Callable[[str], None],
    problem: str,
) -> File:
    """Ask for a file until it passes the checks that need not run it."""
    for _ in range(_TRIES):
        written = ask(models, role, answer, {**values, "problem": problem})
        try:
            check(written.source)
        except TelicError as error:
            problem = problem_text([f"It was refused: {error}"], written.source)
            continue
        return written
    raise RewardError(
        f"The {role} wrote no usable file in {_TRIES} tries. {problem[:500]}", hint=ASK_ANEW
    )


def check_reward(source: str) -> None:
    """Refuse a file that is not Python, or uses what foreign code may not."""
    _parses(source)
    check_source(source, "reward_fn.py")


def check_judge(source: str) -> None:
    """Refuse a file that is not Python, uses what foreign code may not, or is no judge."""
    _parses(source)
    compile_source(source, "judge_fn.py", extra_modules=OFFERED)
    if "def judge(" not in source:
        raise RefusedCode("judge_fn.py defines no function judge(episode).")


def _parses(source: str) -> None:
    try:
        compile(source, "file", "exec")
    except SyntaxError as error:
        raise RefusedCode(f"Line {error.lineno}: this is not valid Python: {error.msg}.") from None


def review(
    models: Players,
    shown: dict[str, str],
    criteria: Sequence[Criterion],
    reward: str,
    judge: str,
    trial: Trial,
    threshold: float | None = None,
) -> Review:
    """Return what is wrong with a reward and a judge; what the examples showed counts as found.

    `threshold` is the score that passes; what lies just beside it is said so.
    """
    values = {
        **shown,
        "criteria": listed(criteria),
        "reward": reward,
        "judge": judge,
        "examples": table(trial, threshold),
    }
    reviewed = ask(models, "reviewer", Review, values)
    return reviewed.model_copy(
        update={
            "reward_problems": (*trial.reward_problems, *reviewed.reward_problems),
            "judge_problems": (*trial.judge_problems, *reviewed.judge_problems),
        }
    )


def revise(
    models: Players,
    shown: dict[str, str],
    story: str,
    show: Callable[[Look], str],
    numbers: Collection[int],
    flaw: Callable[[Revision], Flaw | None] = lambda revision: None,
) -> Revision:
    """Return a revision whose code may run, made after at most six looks.

    Args:
        models: who is asked.
        shown: the intent and the robot, see `scene`.
        story: what was tried so far.
        show: answers a look.
        numbers: the iterations that a revision may be based on.
        flaw: says what is wrong with a revision that only trying it shows; None: nothing.
    """
    seen: list[str] = []
    looks = tries = 0
    while True:
        left = _LOOKS - looks
        values = {
            **shown,
            "story": story,
            "looks_left": str(left),
            "seen": "\n\n".join(seen) or "Nothing yet.",
        }
        turn = ask(models, "reviser", Turn, values)
        if turn.revision is not None:
            problem = _problem(turn.revision, numbers) or flaw(turn.revision)
            tries += 1
            if problem is None or (tries == _TRIES and not problem.is_fatal):
                return turn.revision
            if tries == _TRIES:
                raise RewardError(
                    f"The reviser wrote nothing usable in {_TRIES} tries. {problem.text}",
                    hint=ASK_ANEW,
                )
            seen.append(f"### Your revision was sent back\n\n{problem.text}")
            continue
        assert turn.look is not None
        if left <= 0:
            seen.append("### No looks are left\n\nDecide now: answer with a revision.")
            tries += 1
            if tries == _TRIES:
                raise RewardError("The reviser never decided on a revision.", hint=ASK_ANEW)
            continue
        looks += 1
        seen.append(f"### You looked at {_look_words(turn.look)}\n\n{_shown(show, turn.look)}")


class Flaw(NamedTuple):
    """What is wrong with a revision."""

    text: str
    is_fatal: bool = True
    """False: a doubt, which goes back to the reviser as long as tries are left"""


def _problem(revision: Revision, numbers: Collection[int]) -> Flaw | None:
    """Return what makes a revision unusable, or None."""
    if revision.based_on not in numbers:
        there = ", ".join(map(str, sorted(numbers)))
        return Flaw(f"There is no iteration {revision.based_on}; there are: {there}.")
    if revision.source is None:
        return None
    try:
        check_reward(revision.source)
    except TelicError as error:
        return Flaw(f"The file was refused: {error}\n\n```python\n{revision.source}\n```")
    return None


def _shown(show: Callable[[Look], str], look: Look) -> str:
    try:
        return show(look)
    except TelicError as error:
        return f"This cannot be shown: {error}"


def analyse(models: Players, shown: dict[str, str], story: str) -> Analysis:
    """Return the analysis that goes into the report."""
    values = {"intent": shown["intent"], "environment": shown["environment"], "story": story}
    return ask(models, "analyst", Analysis, values)


def problem_text(problems: Sequence[str], source: str) -> str:
    """Return the part of a prompt that sends a file back to its author."""
    points = "\n".join(f"- {problem}" for problem in problems)
    return f"## Your last file was sent back\n\n{points}\n\n```python\n{source}\n```"


def listed(criteria: Sequence[Criterion]) -> str:
    """Return criteria as a list for a prompt."""
    return "\n".join(f"- {criterion_words(criterion)}" for criterion in criteria)


def criterion_words(criterion: Criterion) -> str:
    """Return a criterion with what it measures and how much of it is right, for a prompt."""
    ends = [
        f"{word} {value:g} {'' if criterion.unit == '1' else criterion.unit}".rstrip()
        for word, value in (("nothing at", criterion.zero), ("full credit at", criterion.goal))
        if value is not None
    ]
    kind = "guard" if criterion.is_guard else f"{criterion.kind}, weight {criterion.weight:g}"
    how = f"; {criterion.direction.replace('_', ' ')}, {', '.join(ends)}" if ends else ""
    return f"{criterion.title} ({kind}): {criterion.quantity}{how}"


def table(trial: Trial, threshold: float | None = None) -> str:
    """Return how the examples did as a table for a prompt; `threshold` is the score that passes."""
    if not trial.examples:
        return "They could not be run: " + "; ".join(
            (*trial.reward_problems, *trial.judge_problems)
        )
    rows = [
        f"| {example.name}{' (good)' if example.is_good else ''} | {_number(example.score)}"
        f"{_beside(example, threshold)} | {_number(example.pay)} | "
        + ", ".join(f"{name} {few_digits(value)}" for name, value in example.terms.items())
        + f" | {example.reason or ''} |"
        for example in trial.examples
    ]
    head = (
        "| episode | judge | reward in sum | by term | what earned little |\n|---|---|---|---|---|"
    )
    passes = [] if threshold is None else [f"A score of {threshold:g} passes.", ""]
    return "\n".join([*passes, head, *rows])


def _beside(example: ExampleResult, threshold: float | None) -> str:
    """Say in words what a score just beside the threshold means."""
    if threshold is None or example.score is None:
        return ""
    by = example.score - threshold
    if example.is_good:
        if by < 0:
            return f", **which would not pass: {-by:.3f} too little**"
        return f", passes by a hair ({by:.3f})" if by < _A_HAIR else ""
    if by >= 0:
        return ", **which passes**"
    return f", **fails by a hair only ({-by:.3f})**" if -by < _A_HAIR else ""


def _number(value: float | None) -> str:
    return "unknown" if value is None else few_digits(value)


def _look_words(look: Look) -> str:
    parts = [look.at, *(str(part) for part in (look.iteration, look.other, look.quantity) if part)]
    return " ".join(parts)
