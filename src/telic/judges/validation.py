"""Validate a judge and a reward on episodes of known quality before training.

A judge is wrong if it passes a failure mode or does not recognize a scripted demonstration. It is
not trusted if it passes untrained policies, whose episodes are recorded like judged ones, or if a
criterion that only its code measures does not detect mutants. In both cases, training is refused.
A reward is open to reward hacking if it pays a failure mode more than a demonstration that the
judge clearly prefers.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from telic.core.config import Record
from telic.core.events import Event
from telic.core.seeds import derive
from telic.core.tensors import use_one_thread
from telic.core.text import few_digits
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.spec import EnvSpec
from telic.envs.vector import VecEnv
from telic.errors import ResourceError, TelicError, WorkerDied
from telic.judges.code import JudgeCode
from telic.judges.criteria import Composition, Criterion, CriterionScore, is_consistent, total_score
from telic.judges.demonstrations import Examples, demonstrate, open_env
from telic.judges.episode import recorded_together
from telic.judges.failure_modes import (
    HALF_TRAINED,
    MIRRORED,
    OTHER_WAY,
    failure_modes,
    look_alikes,
    no_different,
    untrained_modes,
    untrained_policy,
)
from telic.judges.measured import JudgeFile, is_score_of, read_judge
from telic.judges.mutants import LOSES, MutantCount, counts, mutants_of
from telic.judges.recorder import recorded_episodes
from telic.judges.verdict import CRITERIA, Verdict
from telic.rewards.confined import run_confined
from telic.rewards.recording import TransitionRecording
from telic.rewards.reward import Reward, load_reward
from telic.storage.trajectories import Trajectory

_RECOGNIZED = 0.6
"""minimum score of a demonstration, which does not have to be perfect"""
_CLEARLY = 0.25
"""margin by which the judge must prefer the demonstration before the reward is blamed"""
_MIN_FAILURE_MODES = 2
"""minimum number of failure modes, to tell a judge from one that passes everything"""
_WAYS = re.compile(r"forward|backward|\b(?:back|front)|ahead|left|right|sideways|clockwise")
_TURNS = re.compile(
    r"(?:front|back|forward)\w*[\s-]*(?:flip|roll|turn|rota|somersault|spin)"
    r"|(?:roll|turn|rota|spin|flip)\w*\s+(?:for|back)ward"
)
"""turns about the robot's own axes, which say nothing about where it goes"""
_NEVER_FINE = "ends at once"
"""failure mode that no author may accept, because an ended episode shows nothing"""
_TRIAL_S = 120.0
GOOD = "good example"
INDEPENDENT = "independent demonstration"
"""name of the demonstration based on an independent second reading of the intent"""
ASKED = "does what was asked"
"""reason for accepting an untrained policy that satisfies a second reading of the intent"""
_HIDDEN_ROWS, _PERTURBED = 24, 2
"""numbers of episodes of untrained policies and of perturbed look-alikes"""
_DECIDED_ON = 32
"""number of steps for choosing the execution mode of a reward"""


class ExampleResult(Record):
    """Score and reward of one example."""

    name: str
    is_good: bool
    score: float | None
    reason: str | None = None
    """why the score is missing, or which criteria earned little"""
    pay: float | None = None
    """sum of the reward over the episode, or None if it is not finite"""
    terms: dict[str, float] = Field(default={})
    """sum of each reward term over the episode"""
    own_return: float | None = None
    """sum of the environment's reward over the episode"""
    criteria: tuple[CriterionScore, ...] = Field((), validation_alias=CRITERIA)
    again: float | None = None
    nudged: float | None = None
    """used by earlier versions"""


class JudgeValidation(Event):
    """Validation of a reward and a judge on examples. It fails if problems are found."""

    NAME = "session.tried"

    schema_version: int = 1
    examples: tuple[ExampleResult, ...]
    judge_problems: tuple[str, ...] = ()
    reward_problems: tuple[str, ...] = ()
    judge_hash: str | None = None
    """SHA-256 of the judge's text, or None in early versions without certificates"""
    reward_hash: str | None = None
    env_args: dict[str, Any] = Field(default={})
    """arguments of the environment in which validation was run"""
    fine: tuple[str, ...] = ()
    """acceptable failure modes, as declared and as measured"""
    good: str | None = None
    """name of the demonstration that the judge recognized, if any"""
    hidden: tuple[ExampleResult, ...] = ()
    """results for untrained policies, recorded like judged episodes"""
    noticed: tuple[MutantCount, ...] = ()
    """numbers of mutants of the demonstration that each criterion detected"""
    untrusted: tuple[str, ...] = ()
    """problems of the judge that prevent training"""

    @property
    def was_run(self) -> bool:
        """True if at least one example was judged."""
        return bool(self.examples)

    @property
    def criteria(self) -> tuple[CriterionScore, ...]:
        """Titles, ranges and weights of the criteria of the first example that could be judged."""
        return next((example.criteria for example in self.examples if example.criteria), ())


def text_hash(text: str) -> str:
    """Return the SHA-256 of the text of a judge or a reward."""
    return hashlib.sha256(text.encode()).hexdigest()


def _recognized(examples: Sequence[ExampleResult]) -> ExampleResult | None:
    """Return a demonstration that the judge recognizes, preferably an independent one."""
    good = [each for each in examples if each.is_good and (each.score or 0.0) >= _RECOGNIZED]
    return max(good, key=lambda each: each.name == INDEPENDENT, default=None)


def bad_examples(examples: Sequence[ExampleResult], fine: Sequence[str]) -> Iterator[ExampleResult]:
    """Yield the failure modes that do not satisfy the intent."""
    for example in examples:
        is_fine = example.name in fine and example.name != _NEVER_FINE
        if not example.is_good and not is_fine:
            yield example


# ---- judges


def undirected(words: str) -> tuple[str, ...]:
    """Return the failure modes that are acceptable because the intent specifies no direction."""
    if not words or _WAYS.search(_TURNS.sub("", words.lower())):
        return ()
    return (OTHER_WAY,) if _WAYS.search(words.lower()) else (OTHER_WAY, MIRRORED)


def judge_problems(
    examples: Sequence[ExampleResult], fine: Sequence[str], threshold: float
) -> tuple[str, ...]:
    """Return the problems found in a judge."""
    problems: list[str] = []
    for example in examples:
        if example.score is None:
            problems.append(f'The judge cannot judge "{example.name}": {example.reason}')
        elif example.name == GOOD and example.score < _RECOGNIZED:
            problems.append(
                f"The judge scores the {example.name} (a scripted demonstration) at only "
                f"{example.score:.2f}. {example.reason}"
            )
    bad = list(bad_examples(examples, fine))
    passing = [
        f'"{example.name}" {example.score:.2f}'
        for example in bad
        if example.score is not None and example.score >= threshold
    ]
    if passing:
        problems.append(f"The judge passes failure modes at {threshold:g}: {', '.join(passing)}.")
    if examples and len(bad) < _MIN_FAILURE_MODES:
        problems.append(
            f"All failure modes except {len(bad)} are declared acceptable, so it is unclear "
            "whether the judge rejects anything."
        )
    lists = [example.criteria for example in examples if example.criteria]
    if any(not same_criteria(lists[0], other) for other in lists[1:]):
        problems.append(
            "The judge measures inconsistently: titles, zero, goal and weight of its scores "
            "must be the same for all episodes."
        )
    return tuple(problems)


def trust_problems(
    judge: JudgeFile,
    examples: Sequence[ExampleResult],
    hidden: Sequence[ExampleResult],
    noticed: Sequence[MutantCount],
    fine: Sequence[str],
    threshold: float,
) -> Iterator[str]:
    """Yield reasons not to trust a judge, such as passed untrained policies or missed mutants."""
    for mode, mean in passing_modes(judge.criteria, hidden, fine, threshold):
        yield (
            f'The judge gives the hidden negative example "{mode}" a score of '
            f"{mean:.2f} in recorded episodes, where {threshold:g} is a pass."
        )
    everything = [each.criteria for each in (*examples, *hidden) if each.criteria]
    counts = {each.criterion: each for each in noticed}
    has_good = any(each.is_good and each.score is not None for each in examples)
    for criterion in judge.criteria or ():
        if criterion.measure:
            continue
        own = [row for rows in everything for row in rows if is_score_of(row, criterion.title)]
        credits = [made.credit for made in own]
        title = f'The criterion "{criterion.title}", which only code measures,'
        count = next((counts[made.title] for made in own if made.title in counts), None)
        if not own or max(credits) - min(credits) < LOSES:
            yield f"{title} has the same credit in all validation episodes."
        elif has_good and (count is None or count.total == 0):
            yield f"{title} gives the demonstration no credit."
        elif count is not None and not count.caught:
            yield f"{title} loses no credit in any of {count.total} mutants of the demonstration."


def passing_modes(
    criteria: Sequence[Criterion],
    hidden: Sequence[ExampleResult],
    fine: Sequence[str],
    threshold: float,
) -> Iterator[tuple[str, float]]:
    """Yield the untrained policies that pass, with the mean score of each."""
    is_measured = bool(criteria) and all(each.measure for each in criteria)
    for mode in dict.fromkeys(each.name for each in hidden):
        own = [each for each in hidden if each.name == mode]
        mean = sum(each.score or 0.0 for each in own) / len(own)
        if mode == HALF_TRAINED and is_measured:
            continue  # the host measured that it satisfies the intent, which is easy
        if mean >= threshold and any(each.reason not in (*fine, ASKED) for each in own):
            yield mode, mean


def same_criteria(first: Sequence[CriterionScore], second: Sequence[CriterionScore]) -> bool:
    """Return whether two episodes have the same criteria, regardless of the measured values."""
    fields = ("title", "zero", "goal", "weight", "is_guard")
    return [[getattr(each, name) for name in fields] for each in first] == [
        [getattr(each, name) for name in fields] for each in second
    ]


# ---- rewards


def reward_problems(examples: Sequence[ExampleResult], fine: Sequence[str]) -> tuple[str, ...]:
    """Return the failure modes that receive more reward than the demonstration."""
    strange = [example.name for example in examples if example.pay is None]
    if strange:
        return (f'The reward of "{strange[0]}" is not a finite number.',)
    good = _recognized(examples)
    if good is None or good.score is None or good.pay is None:
        return ()

    paid = [
        (bad.pay, bad)
        for bad in bad_examples(examples, fine)
        if bad.score is not None and bad.pay is not None
        if good.score - bad.score >= _CLEARLY and bad.pay >= good.pay
    ]
    if not paid:
        return ()
    most = max(paid, key=lambda each: each[0])[1]
    names = ", ".join(f'"{bad.name}" {pay:.4g} (judge {bad.score:.2f})' for pay, bad in paid)
    terms = "; ".join(
        f"{name} {few_digits(value)} against {few_digits(good.terms.get(name, 0.0))}"
        for name, value in most.terms.items()
    )
    return (
        f"These failure modes earn more reward than the {good.pay:.4g} of the good example "
        f'(judge {good.score:.2f}): {names}. By term, "{most.name}" against the good one: {terms}.',
    )


# ---- running judge and reward on the examples


def try_out(
    env: str,
    written: Composition,
    threshold: float,
    folder: Path,
    second: Composition | None = None,
    *,
    is_probed: bool = True,
) -> JudgeValidation:
    """Validate reward and judge in a sandboxed worker. Raises TelicError if either fails.

    `second` is another interpretation of the intent. With `is_probed`, the validation includes
    untrained policies and mutants.
    """
    dumped = [None if each is None else each.model_dump(mode="json") for each in (written, second)]
    result = run_confined(
        "telic.judges.validation:validate_confined",
        {"env": env, "written": dumped[0], "second": dumped[1], "is_probed": is_probed},
        folder,
        [(env, written.env_args)],
    )
    tried = JudgeValidation.model_validate(result)
    examples, hidden = (tuple(map(_checked, own)) for own in (tried.examples, tried.hidden))
    declared = written.fine if second is None else second.fine
    readings = (written,) if second is None else (second,)
    words = " ".join(
        (
            written.intent,
            *(f"{each.title} {each.quantity}" for x in readings for each in x.criteria),
        )
    )
    fine = (*declared, *tried.fine, *undirected(words))
    judge = read_judge(written.judge)
    found = trust_problems(judge, examples, hidden, tried.noticed, fine, threshold)
    untrusted = tuple(found) if is_probed else ()
    good = _recognized(examples)
    changes: dict[str, Any] = {
        "examples": examples,
        "judge_problems": (*judge_problems(examples, fine, threshold), *untrusted),
        "reward_problems": reward_problems(examples, fine),
        "judge_hash": text_hash(written.judge),
        "reward_hash": text_hash(written.reward),
        "env_args": written.env_args,
        "fine": fine,
        "good": None if good is None else good.name,
        "hidden": hidden,
        "untrusted": untrusted,
    }
    return tried.model_copy(update=changes)


def _checked(given: ExampleResult) -> ExampleResult:
    """Return an example with its score computed from the measurements of the confined judge."""
    if given.score is None:
        return given
    if given.criteria and all(map(is_consistent, given.criteria)):
        return given.model_copy(update={"score": total_score(given.criteria)})
    reason = "a score claims more credit than its measured value gives"
    return given.model_copy(update={"score": None, "reason": reason})


def failure(error: TelicError) -> JudgeValidation:
    """Return the validation result of a reward or judge that could not be run."""
    problem = (str(error),)
    is_unclear = isinstance(error, WorkerDied | ResourceError)  # the cause is not known
    is_judge = "judge_fn.py" in str(error)
    return JudgeValidation(
        examples=(),
        judge_problems=problem if is_judge or is_unclear else (),
        reward_problems=problem if is_unclear or not is_judge else (),
    )


def validate_confined(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Score and judge the example episodes in the sandboxed worker."""
    use_one_thread()
    alive = partial(channel.heartbeat, _TRIAL_S, "evaluating reward and judge on examples")
    alive()
    second = payload["second"]
    tried = try_here(
        payload["env"],
        Composition.model_validate(payload["written"]),
        None if second is None else Composition.model_validate(second),
        alive,
        is_probed=payload["is_probed"],
    )
    return tried.model_dump(mode="json")


def try_here(
    env: str,
    written: Composition,
    second: Composition | None = None,
    alive: Callable[[], object] = lambda: None,
    *,
    is_probed: bool = False,
) -> JudgeValidation:
    """Validate both files in this process, for use in workers and with trusted code.

    `alive` is called between steps. The other arguments are those of `try_out`.
    """
    look = open_env(env, written.env_args, 1)
    look.close()
    groups = _groups(env, look, written, second)
    spec = look.spec
    alive()
    # Recorded before untrusted code runs in this process.
    hidden = hidden_episodes(env, written) if is_probed else []
    alive()
    paying = load_reward(written.reward, label="reward_fn.py")

    def judging(*episodes: Trajectory) -> list[Verdict]:
        """Judge each episode with a new judge, as in an evaluation."""
        return [JudgeCode(written.judge).judge(each) for each in recorded_together(episodes, spec)]

    judging(groups[0].trajectory(groups[0].names[0]))  # fails early if the judge is refused
    paying.decide(TransitionRecording(groups[0].recording.transitions[:_DECIDED_ON]))
    results: dict[str, ExampleResult] = {}
    for group in groups:
        verdicts = judging(*(group.trajectory(name) for name in group.names))
        for result in _tried(group, paying, verdicts):
            results[result.name] = result
        alive()
    fine = written.fine if second is None else second.fine
    noticed: tuple[MutantCount, ...] = ()
    if is_probed:
        alive()
        good = [g.trajectory(n) for g in groups for n in g.names if n in (GOOD, INDEPENDENT)]
        bases = good or [episode for _, episode in hidden[:2]]
        mutants = [judging(*mutants_of(each, spec).values()) for each in bases]
        noticed = counts(judging(*bases), mutants)
    return JudgeValidation(
        examples=tuple(results.values()),
        fine=tuple(no_different(groups[0], fine)),
        hidden=tuple(_hidden_results(hidden, spec, written.judge, second, untrained_modes(look))),
        noticed=noticed,
    )


def hidden_episodes(env_id: str, written: Composition) -> list[tuple[str, Trajectory]]:
    """Return negative examples that start in random initial states, by failure mode.

    The examples are untrained and half-trained policies, and perturbed look-alikes of a
    demonstration. The seed depends on the judge's text, so authors cannot predict it.
    """
    seed = derive("hidden", text_hash(written.judge))
    env = make(env_id, num_envs=_HIDDEN_ROWS, seed=seed, **written.env_args)
    modes = list(untrained_modes(env))
    played = recorded_episodes(untrained_policy(env, seed), env, (env_id, written.env_args), seed)
    found = [(modes[row % len(modes)], episode) for row, episode in enumerate(played)]
    wrong = [] if written.shown else sorted(look_alikes(env, written.motions).items())
    if wrong:
        chosen = dict(random.Random(seed).sample(wrong, min(_PERTURBED, len(wrong))))
        made = demonstrate(env_id, written.env_args, chosen, seed=seed)
        found += [(name, made.trajectory(name)) for name in made.names]
    return found


def _hidden_results(
    hidden: Sequence[tuple[str, Trajectory]],
    spec: EnvSpec,
    judge: str,
    second: Composition | None,
    excuses: Mapping[str, str],
) -> Iterator[ExampleResult]:
    """Yield the scores of untrained policies, each with the failure mode that it resembles.

    A policy that a second reading of the intent also passes counts as satisfying the intent.
    """
    episodes = recorded_together([episode for _, episode in hidden], spec)
    for (mode, _), episode in zip(hidden, episodes, strict=True):
        verdict = JudgeCode(judge).judge(episode)
        name = excuses.get(mode, mode)
        if second is not None and verdict.score:
            theirs = JudgeCode(second.judge).judge(episode).score or 0.0
            name = ASKED if theirs >= verdict.score else name
        yield ExampleResult(
            name=mode, is_good=False, score=verdict.score, reason=name, criteria=verdict.criteria
        )


def _groups(
    env: str, look: VecEnv, written: Composition, second: Composition | None
) -> list[Examples]:
    """Return the failure modes, and the demonstrations if there are any."""
    args, motions, shown = written.env_args, written.motions, written.shown
    groups = [failure_modes(env, args)]
    if not isinstance(look, MujocoEnv):
        return groups
    if shown:
        names = [GOOD if motion.is_good else motion.name for motion in shown]
        led = {name: (each.motion,) for name, each in zip(names, shown, strict=True)}
        joints = {name: each.joints for name, each in zip(names, shown, strict=True)}
        groups.append(demonstrate(env, args, led, joints))
        return groups
    led = {**look_alikes(look, motions), GOOD: tuple(motions)} if motions else {}
    if second is not None and second.motions:
        led |= {**look_alikes(look, second.motions), INDEPENDENT: second.motions}
    return [*groups, demonstrate(env, args, led)] if led else groups


def _tried(
    examples: Examples, reward: Reward, verdicts: Sequence[Verdict]
) -> Iterator[ExampleResult]:
    reward.start(len(examples.names), "cpu")
    lengths = torch.tensor(examples.lengths)
    sums: dict[str, torch.Tensor] = {"": torch.zeros(len(lengths))}
    for t, moment in enumerate(examples.recording.transitions):
        live = (t < lengths).float()
        step = reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        reward.reset(moment.ended)
        for name, value in (("", step.total), *step.terms.items()):
            sums[name] = sums.get(name, 0.0) + value * live
    for row, (name, verdict) in enumerate(zip(examples.names, verdicts, strict=True)):
        failed = "; ".join(_words(made) for made in verdict.criteria if made.counted < 1.0)
        terms = {term: float(value[row]) for term, value in sums.items()}
        pay = terms.pop("")
        yield ExampleResult(
            name=name,
            is_good=name in (GOOD, INDEPENDENT),
            score=verdict.score,
            reason=verdict.reason or failed or None,
            pay=pay if math.isfinite(pay) else None,
            terms={term: value for term, value in terms.items() if math.isfinite(value)},
            own_return=float(examples.trajectory(name).columns["env_reward"].sum()),
            criteria=verdict.criteria,
        )


def _words(made: CriterionScore) -> str:
    unit = "" if made.unit == "1" else made.unit
    value = "not measured" if made.value is None else f"{few_digits(made.value)} {unit}".strip()
    waits = ", not counted because an earlier criterion is not met" if made.waits else ""
    return f"{made.title}: {value} earns {made.credit:.0%}{waits}"
