"""Try a reward and a judge on examples whose worth is known, before anything is trained.

A judge is wrong when it takes a bad habit for the real thing, or does not recognise a good example.
A reward invites gaming when it pays a bad habit more than a good example that the judge prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from telic.core.config import Record
from telic.envs.access import env_access
from telic.errors import ResourceError, TelicError, WorkerDied
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.examples import Examples, bad_habits, good_examples
from telic.judges.verdict import Verdict
from telic.rewards.load import load_reward
from telic.rewards.recording import TransitionRecording

_RECOGNISED = 0.6
"""a good example led by hand must score this much: it is not perfect either"""
_CLEARLY = 0.25
"""the judge must prefer the good example by this much for the reward to be blamed"""
_TRIAL_S = 120.0
_DECIDED_ON = 32
"""steps on which it is found out how to run a reward"""


class ExampleResult(Record):
    """One example as the judge and the reward see it."""

    name: str
    is_good: bool
    score: float | None
    reason: str | None = None
    """why there is no score, or which leaves earned little"""
    pay: float | None = None
    """sum of the reward over its episode"""
    terms: dict[str, float] = Field(default={})
    """the same by term"""


class Trial(Record):
    """What a reward and a judge made of the examples."""

    schema_version: int = 1
    examples: tuple[ExampleResult, ...]
    judge_problems: tuple[str, ...] = ()
    reward_problems: tuple[str, ...] = ()


def try_out(
    env: str,
    env_args: dict[str, Any],
    reward: str,
    judge: str,
    motions: Sequence[Motion],
    fine: Sequence[str],
    threshold: float,
    folder: Path,
) -> Trial:
    """Try both files in a confined worker.

    Args:
        env: environment id.
        env_args: its arguments.
        reward: text of the reward file.
        judge: text of the judge file.
        motions: how a puppet would do what is asked; empty: only bad habits are tried.
        fine: bad habits that would be right here ("does nothing" is, if it shall stand still).
        threshold: score that passes, so that no bad habit may have it.
        folder: where the worker may write.

    Raises:
        TelicError: the reward or the judge fails; says where and how to mend it.
    """
    from telic.sandbox.host import run_worker

    folder.mkdir(parents=True, exist_ok=True)
    payload = {
        "env": env,
        "env_args": env_args,
        "reward": reward,
        "judge": judge,
        "motions": [motion.model_dump() for motion in motions],
    }
    access = env_access(env, env_args)
    result = run_worker(
        "telic.judges.trial",
        payload,
        writable=[folder.absolute()],
        readable=access.readable,
        python_path=access.python_path,
    )
    examples = tuple(ExampleResult.model_validate(row) for row in result["examples"])
    return Trial(
        examples=examples,
        judge_problems=_judge_problems(examples, fine, threshold),
        reward_problems=_reward_problems(examples, fine),
    )


def try_here(
    env: str, env_args: dict[str, Any], reward: str, judge: str, motions: Sequence[Motion]
) -> tuple[ExampleResult, ...]:
    """Try both files in this process; for the worker, and for code of our own."""
    groups = [(bad_habits(env, env_args), False)]
    if motions:
        groups.append((good_examples(env, env_args, {"good example": tuple(motions)}), True))
    code = JudgeCode(judge)
    return tuple(
        tried for examples, is_good in groups for tried in _tried(examples, is_good, reward, code)
    )


def _tried(examples: Examples, is_good: bool, reward: str, judge: JudgeCode) -> list[ExampleResult]:
    pays = _pays(examples, reward)
    results: list[ExampleResult] = []
    for row, name in enumerate(examples.names):
        verdict = judge(examples.trajectory(name), examples.spec)
        terms = {term: float(value[row]) for term, value in pays.items()}
        results.append(
            ExampleResult(
                name=name,
                is_good=is_good,
                score=verdict.score,
                reason=verdict.reason or _lacking(verdict),
                pay=terms.pop(""),
                terms=terms,
            )
        )
    return results


def _pays(examples: Examples, source: str) -> dict[str, torch.Tensor]:
    """Return the sum of the reward ("") and of each term over every example, (K,) each."""
    reward = load_reward(source, label="reward_fn.py")
    reward.decide(TransitionRecording(examples.recording.transitions[:_DECIDED_ON]))
    reward.start(len(examples.names), "cpu")
    lengths = torch.tensor(examples.lengths)
    sums: dict[str, torch.Tensor] = {"": torch.zeros(len(lengths))}
    for t, moment in enumerate(examples.recording.transitions):
        live = (t < lengths).float()
        step = reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        reward.reset(moment.ended)
        for name, value in (("", step.total), *step.terms.items()):
            sums[name] = sums.get(name, 0.0) + value * live
    return sums


def _lacking(verdict: Verdict) -> str | None:
    parts = [
        f"{leaf.title}: {'not measured' if leaf.value is None else f'{leaf.value:.3g}'} earns "
        f"{leaf.counted:.0%}"
        for leaf in verdict.leaves
        if leaf.counted < 1.0
    ]
    return "; ".join(parts) or None


# ------------------------------------------------------------------------------------- findings


def _judge_problems(
    examples: Sequence[ExampleResult], fine: Sequence[str], threshold: float
) -> tuple[str, ...]:
    problems: list[str] = []
    for example in examples:
        if example.score is None:
            problems.append(f'The judge cannot judge "{example.name}": {example.reason}')
        elif example.is_good and example.score < _RECOGNISED:
            problems.append(
                f"The judge gives a {example.name}, led by hand through what was asked, only "
                f"{example.score:.2f}. {example.reason}"
            )
        elif not example.is_good and example.name not in fine and example.score >= threshold:
            problems.append(
                f'The judge gives a robot that only "{example.name}" {example.score:.2f}; '
                f"{threshold:g} passes."
            )
    return tuple(problems)


def _reward_problems(examples: Sequence[ExampleResult], fine: Sequence[str]) -> tuple[str, ...]:
    good = next((example for example in examples if example.is_good), None)
    if good is None or good.score is None or good.pay is None:
        return ()
    problems: list[str] = []
    for example in examples:
        if example.is_good or example.name in fine or example.score is None or example.pay is None:
            continue
        if good.score - example.score >= _CLEARLY and example.pay >= good.pay:
            problems.append(
                f'The reward pays a robot that only "{example.name}" {example.pay:.4g}, more than '
                f"the {good.pay:.4g} of the good example (the judge gives them {example.score:.2f} "
                f"and {good.score:.2f}). By term: {_terms(example)} against {_terms(good)}."
            )
    return tuple(problems)


def _terms(example: ExampleResult) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in example.terms.items())


def failure(error: TelicError) -> Trial:
    """Return the trial of a reward or judge that could not even be run."""
    problem = (str(error),)
    if isinstance(error, WorkerDied | ResourceError):  # nobody knows which of the two did it
        return Trial(examples=(), judge_problems=problem, reward_problems=problem)
    if "judge_fn.py" in str(error):
        return Trial(examples=(), judge_problems=problem)
    return Trial(examples=(), reward_problems=problem)


# ---------------------------------------------- the confined side: entry of the sandbox worker


def prepare(payload: dict[str, Any], channel: Any) -> None:
    """Nothing to open: examples are simulated confined."""


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Make the examples, reward and judge them."""
    channel.heartbeat(_TRIAL_S, "trying reward and judge on examples")
    motions = [Motion.model_validate(row) for row in payload["motions"]]
    tried = try_here(
        payload["env"], payload["env_args"], payload["reward"], payload["judge"], motions
    )
    return {"examples": [result.model_dump(mode="json") for result in tried]}
