"""Ask a model for everything a session needs: criteria, then reward and judge side by side.

The two authors see the criteria and the robot, never one another's code.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from telic.agents.records import Elicited, WrittenJudge, WrittenReward
from telic.composer.compose import Composition, Criterion
from telic.core.config import Record
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec
from telic.errors import RefusedCode, RewardError, TelicError
from telic.judges.code import OFFERED
from telic.llm import Models, Request, prompt_hash, render
from telic.quantities.reference import describe_quantities
from telic.sandbox.source import check_source, compile_source

Written = TypeVar("Written", bound=Record)

_PROMPTS = Path(__file__).parent / "prompts"
_TRIES = 3
_SYSTEM = (
    "You are an expert in reinforcement learning and robotics. You write short, correct code and "
    "say plainly what you are unsure of."
)


def author(models: Models, intent: str, spec: EnvSpec) -> Composition:
    """Return criteria, reward and judge for an intent; raises when the model cannot be asked."""
    scene = {"intent": intent, "environment": describe_text(spec), "quantities": _quantities(spec)}
    elicited = _ask(models, "elicitor", Elicited, scene)
    scene["criteria"] = _criteria(elicited)
    with ThreadPoolExecutor(2) as pool:
        reward = pool.submit(_write, models, "reward_author", WrittenReward, scene, _check_reward)
        judge = pool.submit(_write, models, "judge_author", WrittenJudge, scene, _check_judge)
        written, judged = reward.result(), judge.result()
    env_args: dict[str, object] = {
        "max_episode_steps": max(10, round(elicited.seconds / (spec.dt_s or 1.0)))
    }
    if "terminate_when_unhealthy" in spec.arguments:
        env_args["terminate_when_unhealthy"] = elicited.ends_when_it_falls
    return Composition(
        intent=intent,
        env=spec.id,
        criteria=tuple(
            Criterion(title=each.title, how=f"{each.quantity}: {each.goal}")
            for each in elicited.criteria
        ),
        reward=written.source,
        judge=judged.source,
        env_args=env_args,
        steps=written.steps,
        doubts=elicited.ambiguous,
        not_understood=(),
    )


def _ask(models: Models, role: str, answer: type[Written], values: dict[str, str]) -> Written:
    template = (_PROMPTS / f"{role}.md").read_text(encoding="utf-8")
    request = Request(
        role=role,
        prompt=render(template, **values),
        system=_SYSTEM,
        answer=answer,
        prompt_hash=prompt_hash(template),
    )
    return models.ask(request).answer


def _write(
    models: Models,
    role: str,
    answer: type[Written],
    scene: dict[str, str],
    check: Callable[[str], None],
) -> Written:
    """Ask for a file until it passes the checks that need not run it."""
    problem = ""
    for _ in range(_TRIES):
        written = _ask(models, role, answer, {**scene, "problem": problem})
        source: str = written.source  # type: ignore[attr-defined]
        try:
            check(source)
        except TelicError as error:
            problem = f"## Your last file was refused\n\n{error}\n\n```python\n{source}\n```"
            continue
        return written
    raise RewardError(f"The {role} wrote no usable file in {_TRIES} tries. {problem[:500]}")


def _check_reward(source: str) -> None:
    _parses(source)
    check_source(source, "reward_fn.py")


def _check_judge(source: str) -> None:
    _parses(source)
    compile_source(source, "judge_fn.py", extra_modules=OFFERED)
    if "def judge(" not in source:
        raise RefusedCode("judge_fn.py defines no function judge(episode).")


def _parses(source: str) -> None:
    try:
        compile(source, "file", "exec")
    except SyntaxError as error:
        raise RefusedCode(f"Line {error.lineno}: this is not valid Python: {error.msg}.") from None


def _criteria(elicited: Elicited) -> str:
    return "\n".join(
        f"- {each.title} ({each.kind}, weight {each.weight:g}): {each.quantity}, {each.goal}"
        for each in elicited.criteria
    )


def _quantities(spec: EnvSpec) -> str:
    return "\n".join(
        f"- `{each.name}` [{each.unit}], {each.kind}, `{each.usage}`: {each.formula}"
        for each in describe_quantities(spec)
    )
