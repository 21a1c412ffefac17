"""Validate a judge and a reward on episodes whose worth is known, before anything is trained.

A judge is wrong when it passes a failure mode, or does not recognize a scripted demonstration. A
reward can be hacked when it pays a failure mode more than a demonstration that the judge prefers.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.core.events import Event
from telic.core.seeds import derive
from telic.core.tensors import use_one_thread
from telic.core.text import few_digits
from telic.envs.mujoco import MujocoEnv
from telic.errors import ResourceError, TelicError, WorkerDied
from telic.judges._confined import run_confined
from telic.judges.code import JudgeCode
from telic.judges.criteria import (
    Criterion,
    CriterionScore,
    Motion,
    ShownMotion,
    is_consistent,
    total,
)
from telic.judges.demonstrations import Examples, demonstrate, open_env
from telic.judges.episode import MeasuredTogether
from telic.judges.failure_modes import OTHER_WAY, failure_modes, look_alikes, no_different
from telic.rewards.recording import TransitionRecording
from telic.rewards.reward import Reward, load_reward
from telic.storage.trajectories import Trajectory

RECOGNISED = 0.6
"""score that a demonstration must reach: it is not perfect either"""
_CLEARLY = 0.25
"""the judge must prefer the demonstration by this much for the reward to be blamed"""
_STEADY = 0.1
"""how much a score may change with the last digits of a recording: a threshold may lie there"""
_FEWEST = 2
"""failure modes that must be left to tell a judge from one that passes everything"""
_ALIKE = 1e-3
_HALF = 0.5
_WAYS = {"forward", "forwards", "backward", "backwards", "ahead", "left", "right", "sideways"}
_NEVER_FINE = "ends at once"
"""what no author may call right: an episode that is over shows nothing"""
_TRIAL_S = 120.0
_LAST_DIGITS = 1e-6
_ASKED_AGAIN = 3
"""examples that the judge must judge twice"""
GOOD = "good example"
_DECIDED_ON = 32
"""steps on which it is found out how to run a reward"""


class ExampleResult(Record):
    """Score and pay of one example."""

    name: str
    is_good: bool
    score: float | None
    reason: str | None = None
    """why the score is missing, or which criteria earned little"""
    pay: float | None = None
    """sum of the reward over its episode; None: it is not a finite number"""
    terms: dict[str, float] = Field(default={})
    """the same by term"""
    own_return: float | None = None
    """sum of the environment's own reward over its episode"""
    leaves: tuple[CriterionScore, ...] = ()
    again: float | None = None
    """score of the same episode, asked again after all others"""
    nudged: float | None = None
    """score of the same episode with other last digits"""


class Trial(Event):
    """Validation of a reward and a judge on examples: their certificate, if nothing is wrong."""

    NAME = "session.tried"

    schema_version: int = 1
    examples: tuple[ExampleResult, ...]
    judge_problems: tuple[str, ...] = ()
    reward_problems: tuple[str, ...] = ()
    judge_hash: str | None = None
    """SHA-256 of the judge's text; None: of a validation before there were certificates"""
    reward_hash: str | None = None
    env_args: dict[str, Any] = Field(default={})
    """arguments of the environment that it was tried in"""
    fine: tuple[str, ...] = ()
    """failure modes that are right here, as declared and as measured"""
    good: str | None = None
    """name of the demonstration that the judge recognized; None: there is none"""

    @property
    def was_run(self) -> bool:
        """True if there was anything to judge."""
        return bool(self.examples)

    @property
    def stick(self) -> tuple[CriterionScore, ...]:
        """Scores of the first example that the judge could judge: titles, ranges and weights."""
        return next((example.leaves for example in self.examples if example.leaves), ())


def text_hash(text: str) -> str:
    """Return the SHA-256 of a judge's or a reward's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _recognized(examples: Sequence[ExampleResult]) -> ExampleResult | None:
    """Return the demonstration, if the judge recognizes it."""
    good = next((example for example in examples if example.is_good), None)
    return good if good and good.score is not None and good.score >= RECOGNISED else None


def bad_examples(examples: Sequence[ExampleResult], fine: Sequence[str]) -> Iterator[ExampleResult]:
    """Yield the failure modes that are not just what was asked for."""
    for example in examples:
        is_fine = example.name in fine and example.name != _NEVER_FINE
        if not example.is_good and not is_fine:
            yield example


# ---- judges


def judge_problems(
    examples: Sequence[ExampleResult],
    fine: Sequence[str],
    threshold: float,
    criteria: Sequence[Criterion] = (),
) -> tuple[str, ...]:
    """Return what is wrong with a judge."""
    problems: list[str] = []
    for example in examples:
        if example.score is None:
            problems.append(f'The judge cannot judge "{example.name}": {example.reason}')
        elif example.is_good and example.score < RECOGNISED:
            problems.append(
                f"The judge gives a {example.name}, a scripted demonstration of what was asked, "
                f"only {example.score:.2f}. {example.reason}"
            )
    said = " ".join(f"{criterion.title} {criterion.quantity}" for criterion in criteria).lower()
    if _WAYS.isdisjoint(re.findall("[a-z]+", said)):
        fine = (*fine, OTHER_WAY)  # no direction was agreed on: the other way is as good
    bad = list(bad_examples(examples, fine))
    passing = [
        f'"{example.name}" {example.score:.2f}'
        for example in bad
        if example.score is not None and example.score >= threshold
    ]
    if passing:
        problems.append(
            f"The judge gives a robot that only {', '.join(passing)}; {threshold:g} passes."
        )
    if examples and len(bad) < _FEWEST:
        problems.append(
            f"All failure modes but {len(bad)} are called right here, so nothing shows that the "
            "judge rejects anything."
        )
    problems += _unsteady(examples)
    sticks = [example.leaves for example in examples if example.leaves]
    if sticks and any(not same_stick(sticks[0], other) for other in sticks[1:]):
        problems.append(
            "The judge measures differently from episode to episode: titles, zero, goal and weight "
            "of its scores must be the same for every episode."
        )
    problems += unlike_criteria(sticks[0], criteria) if sticks else ()
    for criterion in criteria if sticks else ():
        if criterion.quantity.lower().startswith("share"):
            made = (_score_of(scores, criterion) for scores in sticks)
            values = [each.value for each in made if each is not None and each.value is not None]
            wrong = next((value for value in values if not -_ALIKE <= value <= 1.0 + _ALIKE), None)
            if wrong is not None:
                problems.append(
                    f'"{criterion.title}" is a share, from 0 to 1; the judge measures '
                    f"{few_digits(wrong)} of an example."
                )
    return tuple(problems)


def _unsteady(examples: Sequence[ExampleResult]) -> Iterator[str]:
    """Yield the first example whose score changes when it is asked again, or hardly changed."""
    for field, limit, when in (
        ("again", 0.0, "when it is asked again: it must depend on the episode alone."),
        ("nudged", _STEADY, "when only the last digits of the recording change: it must measure."),
    ):
        for example in examples:
            other = getattr(example, field)
            if None not in (example.score, other) and abs(other - (example.score or 0.0)) > limit:
                given = f'The judge gives "{example.name}" {example.score:.2f}, and {other:.2f} '
                yield given + when
                return


def same_stick(first: Sequence[CriterionScore], second: Sequence[CriterionScore]) -> bool:
    """Return whether two episodes were measured alike: only measured values may differ."""
    fields = ("title", "zero", "goal", "weight", "is_guard")
    return [[getattr(each, name) for name in fields] for each in first] == [
        [getattr(each, name) for name in fields] for each in second
    ]


def _score_of(scores: Sequence[CriterionScore], criterion: Criterion) -> CriterionScore | None:
    """Return the score of a criterion; that of a value to be close to has a longer title."""
    title = criterion.title.strip().lower()
    return next((each for each in scores if each.title.strip().lower().startswith(title)), None)


def unlike_criteria(
    scores: Sequence[CriterionScore], criteria: Sequence[Criterion]
) -> Iterator[str]:
    """Yield where a judge measures less, or more kindly, than the criteria that were agreed on."""
    agreed = sum(criterion.weight for criterion in criteria) or 1.0
    given = sum(each.weight for each in scores) or 1.0
    for criterion in criteria:
        title, made = criterion.title, _score_of(scores, criterion)
        if made is None:
            yield f'The judge has no score for the criterion "{title}".'
        elif criterion.is_guard and not made.is_guard:
            yield f'"{title}" is a constraint, and the judge does not multiply by it.'
        elif kinder := _kinder(made, criterion):
            yield kinder
        elif made.weight / given < _HALF * criterion.weight / agreed:
            yield (
                f'"{title}" has {made.weight / given:.0%} of the judge\'s weight; '
                f"agreed are {criterion.weight / agreed:.0%}."
            )


def _kinder(made: CriterionScore, criterion: Criterion) -> str | None:
    """Return how a score earns everything, or something, sooner than was agreed; else None."""
    zero, goal = criterion.zero, criterion.goal
    if zero is None or goal is None or zero == goal or not math.isfinite(zero + goal):
        return None
    slack, span = _ALIKE * abs(goal - zero), abs(goal - zero)
    if criterion.direction == "about":  # its score is about the distance to the goal
        reach = max(made.goal, made.zero)
        if min(made.goal, made.zero) < 0.0 or reach <= span + slack:
            return None
        return (
            f'The judge gives something for "{criterion.title}" up to {reach:g} away from '
            f"{goal:g}; agreed is nothing at {zero:g}, which is {span:g} away."
        )
    sign = 1.0 if goal > zero else -1.0
    is_same_way = (made.goal > made.zero) == (goal > zero)
    if is_same_way and max(sign * (goal - made.goal), sign * (zero - made.zero)) <= slack:
        return None
    return (
        f'The judge gives everything for "{criterion.title}" from {made.goal:g} on and '
        f"nothing up to {made.zero:g}; agreed are {goal:g} and {zero:g}."
    )


# ---- rewards


def reward_problems(examples: Sequence[ExampleResult], fine: Sequence[str]) -> tuple[str, ...]:
    """Return which failure modes a reward pays more than the demonstration."""
    strange = [example.name for example in examples if example.pay is None]
    if strange:
        return (f'The reward pays "{strange[0]}" what is not a finite number.',)
    good = _recognized(examples)
    if good is None or good.score is None or good.pay is None:
        return ()

    def terms(example: ExampleResult) -> str:
        return ", ".join(f"{name} {few_digits(value)}" for name, value in example.terms.items())

    return tuple(
        f'The reward pays a robot that only "{bad.name}" {bad.pay:.4g}, more than the '
        f"{good.pay:.4g} of the good example (the judge gives them {bad.score:.2f} and "
        f"{good.score:.2f}). By term: {terms(bad)} against {terms(good)}."
        for bad in bad_examples(examples, fine)
        if bad.score is not None and bad.pay is not None
        if good.score - bad.score >= _CLEARLY and bad.pay >= good.pay
    )


# ---- running both on the examples


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
        motions: a scripted demonstration of what is asked; empty: only failure modes are tried.
        fine: failure modes that are right here ("does nothing" is, if it should stand still).
        threshold: score that passes, so that no failure mode may have it.
        folder: where the worker may write.
        criteria: what was agreed on, which the judge must measure.
        shown: a reference motion and its look-alikes, demonstrated in place of `motions`.

    Raises:
        TelicError: the reward or the judge fails; names the place and the fix.
    """
    result = run_confined(
        "telic.judges.validation",
        {
            "env": env,
            "env_args": env_args,
            "reward": reward,
            "judge": judge,
            "motions": [motion.model_dump() for motion in motions],
            "shown": [motion.model_dump() for motion in shown],
            "fine": list(fine),
        },
        folder,
        [(env, env_args)],
    )
    examples: list[ExampleResult] = []
    for row in result["examples"]:  # of a confined judge: the score is computed here, not there
        given = ExampleResult.model_validate(row)
        if given.score is not None:
            is_sound = given.leaves and all(map(is_consistent, given.leaves))
            reason = "a score claims more credit than its measured value earns"
            changes = {"score": None, "reason": reason}
            changes = {"score": total(given.leaves)} if is_sound else changes
            given = given.model_copy(update=changes)
        examples.append(given)
    fine = (*fine, *result.get("fine", ()))
    good = _recognized(examples)
    return Trial(
        examples=tuple(examples),
        judge_problems=judge_problems(examples, fine, threshold, criteria),
        reward_problems=reward_problems(examples, fine),
        judge_hash=text_hash(judge),
        reward_hash=text_hash(reward),
        env_args=env_args,
        fine=fine,
        good=None if good is None else good.name,
    )


def failure(error: TelicError) -> Trial:
    """Return the validation of a reward or judge that could not even be run."""
    problem = (str(error),)
    is_unclear = isinstance(error, WorkerDied | ResourceError)  # either may have caused it
    is_judge = "judge_fn.py" in str(error)
    return Trial(
        examples=(),
        judge_problems=problem if is_judge or is_unclear else (),
        reward_problems=problem if is_unclear or not is_judge else (),
    )


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Make the examples, reward and judge them; entry of the confined worker."""
    use_one_thread()

    def alive() -> None:
        channel.heartbeat(_TRIAL_S, "trying reward and judge on examples")

    alive()
    tried, fine = try_here(
        payload["env"],
        payload["env_args"],
        payload["reward"],
        payload["judge"],
        [Motion.model_validate(row) for row in payload["motions"]],
        payload["fine"],
        alive,
        [ShownMotion.model_validate(row) for row in payload["shown"]],
    )
    return {"examples": [result.model_dump(mode="json") for result in tried], "fine": list(fine)}


def try_here(
    env: str,
    env_args: dict[str, Any],
    reward: str,
    judge: str,
    motions: Sequence[Motion],
    fine: Sequence[str] = (),
    alive: Callable[[], object] = lambda: None,
    shown: Sequence[ShownMotion] = (),
) -> tuple[tuple[ExampleResult, ...], tuple[str, ...]]:
    """Try both files in this process; for the worker, and for trusted code.

    Returns the result of every example, and the failure modes that do not differ from fine ones.
    `alive` is called between its parts.
    """
    groups = _groups(env, env_args, motions, shown)
    alive()
    paying, judging = load_reward(reward, label="reward_fn.py"), JudgeCode(judge)
    paying.decide(TransitionRecording(groups[0].recording.transitions[:_DECIDED_ON]))
    results: dict[str, ExampleResult] = {}
    measured = [
        MeasuredTogether([group.trajectory(name) for name in group.names], group.spec)
        for group in groups
    ]
    for group, together in zip(groups, measured, strict=True):
        for result in _tried(group, together, paying, judging):
            results[result.name] = result
        alive()
    # Those that matter most: the good one, what comes nearest to it, and the first of all.
    nearest = sorted(results.values(), key=lambda result: (result.is_good, result.score or 0.0))
    again = {result.name for result in (*nearest[-_ASKED_AGAIN:], next(iter(results.values())))}
    for group, together in zip(groups, measured, strict=True):
        own = [name for name in group.names if name in again]
        others = [_nudged(group.trajectory(name)) for name in own]
        among = MeasuredTogether(others, group.spec)
        for place, (name, other) in enumerate(zip(own, others, strict=True)):
            row = group.names.index(name)
            same = judging(group.trajectory(name), group.spec, (together, row))
            near = JudgeCode(judge)(other, group.spec, (among, place))
            update = {"again": same.score, "nudged": near.score}
            results[name] = results[name].model_copy(update=update)
    return tuple(results.values()), tuple(no_different(groups[0], fine))


def _groups(
    env: str,
    env_args: dict[str, Any],
    motions: Sequence[Motion],
    shown: Sequence[ShownMotion] = (),
) -> list[Examples]:
    """Return the failure modes, and the demonstrations where there can be some."""
    groups = [failure_modes(env, env_args)]
    look = open_env(env, env_args, 1)
    look.close()
    if shown and isinstance(look, MujocoEnv):
        names = [GOOD if motion.is_good else motion.name for motion in shown]
        led = {name: (each.motion,) for name, each in zip(names, shown, strict=True)}
        joints = {name: each.joints for name, each in zip(names, shown, strict=True)}
        groups.append(demonstrate(env, env_args, led, joints))
    elif motions and isinstance(look, MujocoEnv):
        led = {**look_alikes(look, motions), GOOD: tuple(motions)}
        groups.append(demonstrate(env, env_args, led))
    return groups


def _tried(
    examples: Examples, together: MeasuredTogether, reward: Reward, judge: JudgeCode
) -> Iterator[ExampleResult]:
    """Yield score and pay of every example."""
    reward.start(len(examples.names), "cpu")
    lengths = torch.tensor(examples.lengths)
    sums: dict[str, torch.Tensor] = {"": torch.zeros(len(lengths))}
    for t, moment in enumerate(examples.recording.transitions):
        live = (t < lengths).float()
        step = reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        reward.reset(moment.ended)
        for name, value in (("", step.total), *step.terms.items()):
            sums[name] = sums.get(name, 0.0) + value * live
    for row, name in enumerate(examples.names):
        trajectory = examples.trajectory(name)
        verdict = judge(trajectory, examples.spec, (together, row))
        failed = "; ".join(_words(made) for made in verdict.leaves if made.counted < 1.0)
        terms = {term: float(value[row]) for term, value in sums.items()}
        pay = terms.pop("")
        yield ExampleResult(
            name=name,
            is_good=name == GOOD,
            score=verdict.score,
            reason=verdict.reason or failed or None,
            pay=pay if math.isfinite(pay) else None,
            terms={term: value for term, value in terms.items() if math.isfinite(value)},
            own_return=float(trajectory.columns["env_reward"].sum()),
            leaves=verdict.leaves,
        )


def _words(made: CriterionScore) -> str:
    unit = "" if made.unit == "1" else made.unit
    value = "not measured" if made.value is None else f"{few_digits(made.value)} {unit}".strip()
    waits = ", which does not count: an earlier criterion is not met" if made.waits else ""
    return f"{made.title}: {value} earns {made.credit:.0%}{waits}"


def _nudged(trajectory: Trajectory) -> Trajectory:
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
