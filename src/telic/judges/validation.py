"""Validate a judge and a reward on episodes whose worth is known, before anything is trained.

A judge is wrong when it passes a failure mode, or does not recognise a scripted demonstration. A
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
from telic.judges.demonstrations import Examples, demonstrate, open_env
from telic.judges.episode import MeasuredTogether
from telic.judges.failure_modes import OTHER_WAY, failure_modes, look_alikes, no_different
from telic.judges.verdict import Verdict
from telic.rewards.recording import TransitionRecording
from telic.rewards.reward import Reward, load_reward
from telic.storage.trajectories import Trajectory

RECOGNISED = 0.6
"""a good example led by hand must score this much: it is not perfect either"""
_CLEARLY = 0.25
"""the judge must prefer the good example by this much for the reward to be blamed"""
_STEADY = 0.1
"""how much a score may change with the last digits of a recording: a threshold may lie there"""
_FEWEST = 2
"""bad habits that must be left to tell a judge from one that passes everything"""
_ALIKE = 1e-3
_HALF = 0.5
_WAYS = {"forward", "forwards", "backward", "backwards", "ahead", "left", "right", "sideways"}
NEVER_FINE = ("ends at once",)
"""what no author may call right: an episode that is over shows nothing"""
_TRIAL_S = 120.0
_LAST_DIGITS = 1e-6
_ASKED_AGAIN = 3
"""examples that the judge must judge twice"""
GOOD = "good example"
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
    """sum of the reward over its episode; None: it is not a finite number"""
    terms: dict[str, float] = Field(default={})
    """the same by term"""
    own_return: float | None = None
    """sum of the environment's own reward over its episode"""
    leaves: tuple[Leaf, ...] = ()
    again: float | None = None
    """score of the same episode, asked again after all others"""
    nudged: float | None = None
    """score of the same episode with other last digits"""


def good_example(examples: Sequence[ExampleResult]) -> ExampleResult | None:
    """Return the example led by hand, if the judge recognises it."""
    led = next((example for example in examples if example.is_good), None)
    return led if led and led.score is not None and led.score >= RECOGNISED else None


def bad_examples(examples: Sequence[ExampleResult], fine: Sequence[str]) -> Iterator[ExampleResult]:
    """Yield the bad habits that are not just what was asked for."""
    for example in examples:
        is_fine = example.name in fine and example.name not in NEVER_FINE
        if not example.is_good and not is_fine:
            yield example


# --------------------------------------------------------------------------------------- judges


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
                f"The judge gives a {example.name}, led by hand through what was asked, only "
                f"{example.score:.2f}. {example.reason}"
            )
    if not _names_a_way(criteria):
        fine = (*fine, OTHER_WAY)
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
            f"All bad habits but {len(bad)} are called right here, so nothing shows that the judge "
            "rejects anything."
        )
    problems += _unsteady(examples)
    sticks = [example.leaves for example in examples if example.leaves]
    if sticks:
        if any(not same_stick(sticks[0], other) for other in sticks[1:]):
            problems.append(
                "The judge measures with another stick from episode to episode: titles, zero, goal "
                "and weight of its leaves must be the same for every episode."
            )
        problems += unlike_criteria(sticks[0], criteria)
        problems += _no_shares(sticks, criteria)
    return tuple(problems)


def _names_a_way(criteria: Sequence[Criterion]) -> bool:
    """Return whether it was agreed which way to go: else the other way is as good."""
    said = " ".join(f"{criterion.title} {criterion.quantity}" for criterion in criteria).lower()
    return not _WAYS.isdisjoint(re.findall("[a-z]+", said))


def _no_shares(sticks: Sequence[Sequence[Leaf]], criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield where what was agreed to be a share is measured as something else, such as steps."""
    for criterion in criteria:
        if not criterion.quantity.lower().startswith("share"):
            continue
        leaves = (leaf_of(leaves, criterion) for leaves in sticks)
        values = [leaf.value for leaf in leaves if leaf is not None and leaf.value is not None]
        wrong = next((value for value in values if not -_ALIKE <= value <= 1.0 + _ALIKE), None)
        if wrong is not None:
            yield (
                f'"{criterion.title}" is a share, from 0 to 1; the judge measures '
                f"{few_digits(wrong)} of an example."
            )


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


def same_stick(first: Sequence[Leaf], second: Sequence[Leaf]) -> bool:
    """Return whether two episodes were measured alike: only what was measured may differ."""
    fields = ("title", "zero", "goal", "weight", "is_guard")
    return [[getattr(leaf, name) for name in fields] for leaf in first] == [
        [getattr(leaf, name) for name in fields] for leaf in second
    ]


def unlike_criteria(leaves: Sequence[Leaf], criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield where a judge measures less, or more kindly, than the criteria that were agreed on."""
    agreed = sum(criterion.weight for criterion in criteria) or 1.0
    given = sum(leaf.weight for leaf in leaves) or 1.0
    for criterion in criteria:
        leaf = leaf_of(leaves, criterion)
        if leaf is None:
            yield f'The judge has no leaf for the criterion "{criterion.title}".'
        elif criterion.is_guard and not leaf.is_guard:
            yield f'"{criterion.title}" is a guard, and the judge does not multiply by it.'
        elif is_kinder(leaf, criterion):
            yield _kinder_words(leaf, criterion)
        elif leaf.weight / given < _HALF * criterion.weight / agreed:
            yield (
                f'"{criterion.title}" has {leaf.weight / given:.0%} of the judge\'s weight; '
                f"agreed are {criterion.weight / agreed:.0%}."
            )


def _kinder_words(leaf: Leaf, criterion: Criterion) -> str:
    zero, goal = criterion.zero or 0.0, criterion.goal or 0.0
    if criterion.direction == "about":
        return (
            f'The judge gives something for "{criterion.title}" up to '
            f"{max(leaf.goal, leaf.zero):g} away from {goal:g}; agreed is nothing at {zero:g}, "
            f"which is {abs(goal - zero):g} away."
        )
    return (
        f'The judge gives everything for "{criterion.title}" from {leaf.goal:g} on and '
        f"nothing up to {leaf.zero:g}; agreed are {goal:g} and {zero:g}."
    )


def leaf_of(leaves: Sequence[Leaf], criterion: Criterion) -> Leaf | None:
    """Return the leaf of a criterion; that of a value to be close to says more in its title."""
    title = criterion.title.strip().lower()
    return next((leaf for leaf in leaves if leaf.title.strip().lower().startswith(title)), None)


def is_kinder(leaf: Leaf, criterion: Criterion) -> bool:
    """Return whether a leaf earns everything sooner, or something sooner, than was agreed."""
    zero, goal = criterion.zero, criterion.goal
    if zero is None or goal is None or zero == goal or not math.isfinite(zero + goal):
        return False
    slack = _ALIKE * abs(goal - zero)
    if criterion.direction == "about":  # its leaf is about the distance to the goal
        full, none = leaf.goal, leaf.zero
        return min(full, none) >= 0.0 and max(full, none) > abs(goal - zero) + slack
    if (leaf.goal > leaf.zero) != (goal > zero):
        return True
    sign = 1.0 if goal > zero else -1.0
    return sign * (goal - leaf.goal) > slack or sign * (zero - leaf.zero) > slack


# -------------------------------------------------------------------------------------- rewards


def reward_problems(examples: Sequence[ExampleResult], fine: Sequence[str]) -> tuple[str, ...]:
    """Return which bad habits a reward pays more than what was asked for."""
    strange = [example.name for example in examples if example.pay is None]
    if strange:
        return (f'The reward pays "{strange[0]}" what is not a finite number.',)
    good = good_example(examples)
    if good is None or good.score is None or good.pay is None:
        return ()
    problems: list[str] = []
    for example in bad_examples(examples, fine):
        if example.score is None or example.pay is None:
            continue
        if good.score - example.score >= _CLEARLY and example.pay >= good.pay:
            problems.append(
                f'The reward pays a robot that only "{example.name}" {example.pay:.4g}, more than '
                f"the {good.pay:.4g} of the good example (the judge gives them {example.score:.2f} "
                f"and {good.score:.2f}). By term: {_terms_text(example)} against "
                f"{_terms_text(good)}."
            )
    return tuple(problems)


def _terms_text(example: ExampleResult) -> str:
    return ", ".join(f"{name} {few_digits(value)}" for name, value in example.terms.items())


# ---- running both on the examples


class Trial(Event):
    """What a reward and a judge made of the examples: their certificate, if nothing is wrong."""

    NAME = "session.tried"

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
        motions: a scripted demonstration of what is asked; empty: only failure modes are tried.
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
    access = env_access(env, env_args)
    result = run_worker(
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
    groups = [failure_modes(env, env_args)]
    if shown and isinstance(look, MujocoEnv):
        names = [GOOD if motion.is_good else motion.name for motion in shown]
        led = {name: (each.motion,) for name, each in zip(names, shown, strict=True)}
        joints = {name: each.joints for name, each in zip(names, shown, strict=True)}
        groups.append(demonstrate(env, env_args, led, joints))
    elif motions and isinstance(look, MujocoEnv):
        led = {**look_alikes(look, motions), GOOD: tuple(motions)}
        groups.append(demonstrate(env, env_args, led))
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
