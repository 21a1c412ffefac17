"""Ask a model for everything a session needs: criteria, then reward and judge side by side.

The two authors see the criteria and the robot, never one another's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from telic.agents.asking import ask
from telic.agents.records import Elicited, WrittenJudge, WrittenReward
from telic.core.config import Record
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec
from telic.errors import RefusedCode, RewardError, TelicError
from telic.judges.code import OFFERED
from telic.judges.criteria import Criterion
from telic.judges.examples import HABITS
from telic.llm import Models
from telic.quantities.reference import describe_quantities
from telic.sandbox.source import check_source, compile_source

Written = TypeVar("Written", bound=Record)

ASK_ANEW = (
    "Take a stronger model, or start anew with --fresh: the same command would only read the same "
    "answers again, because they are paid for."
)
_TRIES = 3


def scene(intent: str, spec: EnvSpec) -> dict[str, str]:
    """Return what every prompt may show: the intent, the robot, what can be measured on it."""
    return {
        "intent": intent,
        "environment": describe_text(spec),
        "quantities": "\n".join(
            f"- `{each.name}` [{each.unit}], {each.kind}, `{each.usage}`: {each.formula}"
            for each in describe_quantities(spec)
        ),
    }


def elicit(models: Models, shown: dict[str, str]) -> Elicited:
    """Make an intent measurable."""
    habits = "\n".join(f"- {name}" for name in HABITS)
    return ask(models, "elicitor", Elicited, {**shown, "habits": habits})


def write_both(
    models: Models,
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
    models: Models,
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
    models: Models, shown: dict[str, str], criteria: Sequence[Criterion], problem: str = ""
) -> WrittenJudge:
    """Ask for a judge file; `problem` says what was wrong with the last one."""
    values = {**shown, "criteria": listed(criteria)}
    return _write(models, "judge_author", WrittenJudge, values, check_judge, problem)


def problem_text(problems: Sequence[str], source: str) -> str:
    """Return the part of a prompt that sends a file back to its author."""
    points = "\n".join(f"- {each}" for each in problems)
    return f"## Your last file was sent back\n\n{points}\n\n```python\n{source}\n```"


def listed(criteria: Sequence[Criterion]) -> str:
    """Return criteria as a list for a prompt."""
    return "\n".join(f"- {_words(each)}" for each in criteria)


def _words(each: Criterion) -> str:
    ends = [
        f"{word} {value:g} {each.unit}".rstrip()
        for word, value in (("nothing at", each.zero), ("full credit at", each.goal))
        if value is not None
    ]
    kind = "guard" if each.is_guard else f"{each.kind}, weight {each.weight:g}"
    how = f"; {each.direction.replace('_', ' ')}, {', '.join(ends)}" if ends else ""
    return f"{each.title} ({kind}): {each.quantity}{how}"


def _write(
    models: Models,
    role: str,
    answer: type[Written],
    values: dict[str, str],
    check: Callable[[str], None],
    problem: str,
) -> Written:
    """Ask for a file until it passes the checks that need not run it."""
    for _ in range(_TRIES):
        written = ask(models, role, answer, {**values, "problem": problem})
        source: str = written.source  # type: ignore[attr-defined]
        try:
            check(source)
        except TelicError as error:
            problem = problem_text([f"It was refused: {error}"], source)
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
