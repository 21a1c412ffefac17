"""Try a reward and a judge on examples whose worth is known, before anything is trained.

A judge is wrong when it takes a bad habit for the real thing, or does not recognise a good example.
A reward invites gaming when it pays a bad habit more than a good example that the judge prefers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.core.seeds import derive
from telic.core.tensors import use_one_thread
from telic.core.text import few_digits
from telic.envs.access import env_access
from telic.envs.mujoco import MujocoEnv
from telic.errors import ResourceError, TelicError, WorkerDied
from telic.judges.code import JudgeCode
from telic.judges.criteria import (
    Criterion,
    Leaf,
    Motion,
    ShownMotion,
    is_consistent,
    total,
)
from telic.judges.episode import MeasuredTogether
from telic.judges.examples import Examples, good_examples, open_env
from telic.judges.findings import (
    ExampleResult,
    good_example,
    judge_problems,
    reward_problems,
)
from telic.judges.habits import bad_habits, look_alikes, no_different
from telic.judges.verdict import Verdict
from telic.rewards.load import load_reward
from telic.rewards.recording import TransitionRecording
from telic.rewards.reward import Reward
from telic.storage.trajectories import Trajectory

_TRIAL_S = 120.0
_LAST_DIGITS = 1e-6
_ASKED_AGAIN = 3
"""examples that the judge must judge twice"""
GOOD = "good example"
_DECIDED_ON = 32
"""steps on which it is found out how to run a reward"""


class Trial(Record):
    """What a reward and a judge made of the examples: their certificate, if nothing is wrong."""

    schema_version: int = 1
    examples: tuple[ExampleResult, ...]
    judge_problems: tuple[str, ...] = ()
    reward_problems: tuple[str, ...] = ()
    judge_hash: str | None = None
    """SHA-256 of the judge's text; None: of a trial before there were certificates"""
    reward_hash: str | None = None
    env_args: dict[str, Any] = Field(default={})
    """arguments of the environment that it was tried in"""
    fine: tuple[str, ...] = ()
    """bad habits that are right here, by word and by measurement"""
    good: str | None = None
    """name of the good example that the judge recognised; None: there is none"""

    @property
    def was_run(self) -> bool:
        """Whether there was anything to judge."""
        return bool(self.examples)

    @property
    def stick(self) -> tuple[Leaf, ...]:
        """How the judge measures: the leaves of any example that it could judge."""
        return next((example.leaves for example in self.examples if example.leaves), ())


def text_hash(text: str) -> str:
    """Return the SHA-256 of a judge's or a reward's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def try_out(
    env: str,
    env_args: dict[str, Any],
    reward: str,
    judge: str,
    motions: Sequence[Motion],
    fine: Sequence[str],
    threshold: float,
    folder: Path,
    criteria: Sequence[Criterion] = (),
    shown: Sequence[ShownMotion] = (),
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
        criteria: what was agreed on, which the judge must measure.
        shown: a reference motion and its look-alikes, led in place of `motions`.

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
        "shown": [motion.model_dump() for motion in shown],
        "fine": list(fine),
    }
    access = env_access(env, env_args)
    result = run_worker(
        "telic.judges.trial",
        payload,
        writable=[folder.absolute()],
        readable=access.readable,
        python_path=access.python_path,
    )
    examples = tuple(map(_believed, result["examples"]))
    fine = (*fine, *result.get("fine", ()))
    good = good_example(examples)
    return Trial(
        examples=examples,
        judge_problems=judge_problems(examples, fine, threshold, criteria),
        reward_problems=reward_problems(examples, fine),
        judge_hash=text_hash(judge),
        reward_hash=text_hash(reward),
        env_args=env_args,
        fine=fine,
        good=None if good is None else good.name,
    )


def _believed(row: object) -> ExampleResult:
    """Return what a confined judge measured; the score is computed here, not there."""
    told = ExampleResult.model_validate(row)
    if told.score is None:
        return told
    if not told.leaves or not all(map(is_consistent, told.leaves)):
        reason = "a leaf claims more than its measured value earns"
        return told.model_copy(update={"score": None, "reason": reason})
    return told.model_copy(update={"score": total(told.leaves)})


def try_here(
    env: str,
    env_args: dict[str, Any],
    reward: str,
    judge: str,
    motions: Sequence[Motion],
    fine: Sequence[str] = (),
    goes_on: Callable[[], object] = lambda: None,
    shown: Sequence[ShownMotion] = (),
) -> tuple[tuple[ExampleResult, ...], tuple[str, ...]]:
    """Try both files in this process; for the worker, and for code of our own.

    Returns what became of every example, and the bad habits that are no different from fine ones.
    `goes_on` is told between its parts.
    """
    groups = _groups(env, env_args, motions, shown)
    goes_on()
    paying, judging = load_reward(reward, label="reward_fn.py"), JudgeCode(judge)
    first = groups[0].recording.transitions[:_DECIDED_ON]
    paying.decide(TransitionRecording(first))
    results: list[ExampleResult] = []
    measured = [_together(examples) for examples in groups]
    for examples, together in zip(groups, measured, strict=True):
        results += _tried(examples, together, paying, judging)
        goes_on()
    # Those that matter most: the good one, what comes nearest to it, and the first of all.
    nearest = sorted(results, key=lambda result: (result.is_good, result.score or 0.0))
    names = {result.name for result in (*nearest[-_ASKED_AGAIN:], results[0])}
    asked = {result.name: result for result in results}
    for examples, together in zip(groups, measured, strict=True):
        own = [name for name in examples.names if name in names]
        others = [nudged(examples.trajectory(name)) for name in own]
        among = MeasuredTogether(others, examples.spec)
        for place, (name, other) in enumerate(zip(own, others, strict=True)):
            row, judging_anew = examples.names.index(name), JudgeCode(judge)
            again = judging(examples.trajectory(name), examples.spec, (together, row))
            asked[name] = asked[name].model_copy(
                update={
                    "again": again.score,
                    "nudged": judging_anew(other, examples.spec, (among, place)).score,
                }
            )
    return tuple(asked.values()), tuple(no_different(groups[0], fine))


def _groups(
    env: str,
    env_args: dict[str, Any],
    motions: Sequence[Motion],
    shown: Sequence[ShownMotion] = (),
) -> list[Examples]:
    """Return the bad habits, and what is led by hand where that can be."""
    look = open_env(env, env_args, 1)
    look.close()
    groups = [bad_habits(env, env_args)]
    if shown and isinstance(look, MujocoEnv):
        names = [GOOD if motion.is_good else motion.name for motion in shown]
        led = {name: (each.motion,) for name, each in zip(names, shown, strict=True)}
        joints = {name: each.joints for name, each in zip(names, shown, strict=True)}
        groups.append(good_examples(env, env_args, led, joints))
    elif motions and isinstance(look, MujocoEnv):
        led = {**look_alikes(look, motions), GOOD: tuple(motions)}
        groups.append(good_examples(env, env_args, led))
    return groups


def _together(examples: Examples) -> MeasuredTogether:
    """Return the examples as episodes that are measured in one go."""
    return MeasuredTogether([examples.trajectory(name) for name in examples.names], examples.spec)


def _tried(
    examples: Examples, together: MeasuredTogether, reward: Reward, judge: JudgeCode
) -> list[ExampleResult]:
    pays = _pays(examples, reward)
    results: list[ExampleResult] = []
    for row, name in enumerate(examples.names):
        trajectory = examples.trajectory(name)
        verdict = judge(trajectory, examples.spec, (together, row))
        terms = {term: float(value[row]) for term, value in pays.items()}
        pay = terms.pop("")
        results.append(
            ExampleResult(
                name=name,
                is_good=name == GOOD,
                score=verdict.score,
                reason=verdict.reason or _lacking(verdict),
                pay=pay if math.isfinite(pay) else None,
                terms={term: value for term, value in terms.items() if math.isfinite(value)},
                own_return=float(trajectory.columns["env_reward"].sum()),
                leaves=verdict.leaves,
            )
        )
    return results


def nudged(trajectory: Trajectory) -> Trajectory:
    """Return the same episode with other last digits, and without a name to know it by."""
    random = np.random.default_rng(derive("nudged", len(trajectory)))
    columns = {
        name: (column * (1.0 + _LAST_DIGITS * random.uniform(-1, 1, column.shape))).astype(
            column.dtype
        )
        if column.dtype.kind == "f"
        else column
        for name, column in trajectory.columns.items()
    }
    return Trajectory(columns, trajectory.facts.model_copy(update={"label": ""}))


def _pays(examples: Examples, reward: Reward) -> dict[str, torch.Tensor]:
    """Return the sum of the reward ("") and of each term over every example, (K,) each."""
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
    return "; ".join(_leaf_words(leaf) for leaf in verdict.leaves if leaf.counted < 1.0) or None


def _leaf_words(leaf: Leaf) -> str:
    unit = "" if leaf.unit == "1" else leaf.unit
    value = "not measured" if leaf.value is None else f"{few_digits(leaf.value)} {unit}".strip()
    waits = ", which does not count: what must come before it is lacking" if leaf.waits else ""
    return f"{leaf.title}: {value} earns {leaf.credit:.0%}{waits}"


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
    use_one_thread()

    def goes_on() -> None:
        channel.heartbeat(_TRIAL_S, "trying reward and judge on examples")

    goes_on()
    motions = [Motion.model_validate(row) for row in payload["motions"]]
    tried, fine = try_here(
        payload["env"],
        payload["env_args"],
        payload["reward"],
        payload["judge"],
        motions,
        payload["fine"],
        goes_on,
        [ShownMotion.model_validate(row) for row in payload["shown"]],
    )
    return {"examples": [result.model_dump(mode="json") for result in tried], "fine": list(fine)}
