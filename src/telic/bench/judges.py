"""How well the composer's judges judge: their scores against episodes whose truth is known.

A score of at least 0.8 claims that an episode does what was asked. A judge agrees with the truth
when it claims exactly what is true; a score it cannot give agrees with nothing.

The truth is known by construction (pairs.toml: intents with puppets that do what is asked, and
look-alikes), or because somebody labelled recorded episodes (labels.toml in a folder of them):

    [[episode]]
    file = "good_run.npz"
    intent = "run forward fast"
    does = true
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from telic.bench.results import Rate, rate
from telic.composer.compose import compose
from telic.core.config import Config, Record
from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, BadFile, ConfigError, MissingFile, NotUnderstood, Refused
from telic.judges.code import JudgeCode
from telic.judges.criteria import Composition, Motion
from telic.judges.examples import Examples, good_examples
from telic.judges.habits import bad_habits
from telic.judges.verdict import Verdict
from telic.storage.files import write_json
from telic.storage.reading import parse_toml, read_text
from telic.storage.trajectories import Trajectory, read_trajectory, require_registered

_PAIRS = Path(__file__).with_name("pairs.toml")
GOOD = "good example"
Kind = Literal["good", "look-alike", "other intent", "bad habit", "labelled"]
LABELS = "labels.toml"
PASS = 0.8
"""score that claims success; the threshold of a session"""


class Pair(Config):
    """An intent on a robot, and what puppets make of it."""

    id: str = Field(description="short name")
    env: str = Field(description="environment id")
    intent: str = Field(description="what the robot should do")
    good: tuple[Motion, ...] = Field(default=(), description="how a puppet does it")
    wrong: dict[str, tuple[Motion, ...]] = Field(default={}, description="look-alikes")
    right: tuple[str, ...] = Field(default=(), description="bad habits that do what is asked")
    undecided: tuple[str, ...] = Field(default=(), description="habits and intents to leave out")


class JudgeSet(Config):
    """All pairs."""

    pair: tuple[Pair, ...] = Field(min_length=1, description="the pairs")


class Label(Config):
    """What somebody says of an episode."""

    file: str = Field(description="trajectory, seen from the folder")
    intent: str = Field(description="what was asked for")
    does: bool = Field(description="whether the episode does it")


class Labels(Config):
    """All labels of a folder."""

    episode: tuple[Label, ...] = Field(min_length=1, description="the labelled episodes")


class Example(NamedTuple):
    """One episode and the truth about it."""

    name: str
    kind: Kind
    is_right: bool
    """whether it does what was asked"""
    trajectory: Trajectory
    spec: EnvSpec


class ScoredExample(Record):
    """One example as the judge saw it."""

    pair: str
    env: str
    intent: str
    name: str
    kind: Kind
    is_right: bool
    score: float | None
    again: float | None
    """score of the same episode by the judge written anew"""
    agrees: bool
    why: str
    """the leaves behind the score"""


class JudgeReport(Record):
    """How far judges can be trusted."""

    schema_version: Literal[1] = 1
    threshold: float = PASS
    agreement: Rate
    recognised: Rate
    """right examples that score as passes"""
    rejected: Rate
    """wrong examples that do not"""
    false_passes: tuple[str, ...]
    """wrong examples that score as passes, "pair: example" """
    habit_passes: tuple[str, ...]
    """those of them that are bad habits"""
    missed: tuple[str, ...]
    """right examples that do not"""
    unknown: tuple[str, ...]
    """examples without a score"""
    not_repeated: tuple[str, ...]
    """examples whose second score differs"""
    refused: dict[str, str]
    """intents for which no judge was written, and why"""
    examples: tuple[ScoredExample, ...]


def bench_judges(
    pairs: Sequence[Pair] | None = None,
    *,
    labelled: Path | None = None,
    output: Path | None = None,
    on_pair: Callable[[str], None] = lambda name: None,
) -> JudgeReport:
    """Score every example of the judge set, and of a folder of labelled episodes.

    Args:
        pairs: those to measure; by default the set that comes with telic.
        labelled: folder with trajectories and labels.toml.
        output: where the report is written as JSON.
        on_pair: hears the name of each pair before it is measured.
    """
    everything = load_pairs()
    scored: list[ScoredExample] = []
    refused: dict[str, str] = {}
    for pair in everything if pairs is None else pairs:
        on_pair(pair.id)
        try:
            scored += _score_pair(pair, tuple(everything))
        except (Refused, NotUnderstood, BadEnvironment) as error:
            refused[pair.id] = str(error)
    if labelled is not None:
        for label in read_labels(labelled):
            on_pair(label.file)
            try:
                scored.append(_score_label(label, labelled))
            except (Refused, NotUnderstood, BadEnvironment) as error:
                refused[label.file] = str(error)
    report = _report(scored, refused)
    if output is not None:
        write_json(output, report)
    return report


def _score_pair(pair: Pair, everything: tuple[Pair, ...]) -> Iterator[ScoredExample]:
    first, again = _judges(pair.intent, _spec(pair.env))
    for example in examples(pair, everything, first.env_args):
        yield _score(pair.id, pair.env, first, again, example)


def _score_label(label: Label, folder: Path) -> ScoredExample:
    trajectory = read_trajectory(folder / label.file)
    facts = trajectory.facts
    require_registered(facts, folder / label.file)
    env = make(facts.env_id, num_envs=1, **facts.env_kwargs)
    env.close()
    first, again = _judges(label.intent, env.spec)
    example = Example(label.file, "labelled", label.does, trajectory, env.spec)
    return _score(label.intent, facts.env_id, first, again, example)


def _judges(intent: str, spec: EnvSpec) -> tuple[Composition, Composition]:
    """Write the judge twice: the same words must give the same scores."""
    return compose(intent, spec), compose(intent, spec)


def _spec(env_id: str) -> EnvSpec:
    env = make(env_id, num_envs=1)
    env.close()
    return env.spec


def _score(
    pair: str, env: str, first: Composition, again: Composition, example: Example
) -> ScoredExample:
    verdicts = [
        JudgeCode(composition.judge)(example.trajectory, example.spec)
        for composition in (first, again)
    ]
    score = verdicts[0].score
    return ScoredExample(
        pair=pair,
        env=env,
        intent=first.intent,
        name=example.name,
        kind=example.kind,
        is_right=example.is_right,
        score=score,
        again=verdicts[1].score,
        agrees=score is not None and (score >= PASS) == example.is_right,
        why=_why(verdicts[0]),
    )


def _why(verdict: Verdict) -> str:
    if verdict.score is None:
        return verdict.reason or "no score"
    parts = [
        f"{leaf.title}{' (guard)' if leaf.is_guard else ''}: "
        f"{'–' if leaf.value is None else f'{leaf.value:.3g}'} earns {100 * leaf.counted:.0f} %"
        for leaf in verdict.leaves
    ]
    return "; ".join(parts)


def _report(scored: Sequence[ScoredExample], refused: dict[str, str]) -> JudgeReport:
    def named(chosen: Callable[[ScoredExample], bool]) -> tuple[str, ...]:
        return tuple(f"{example.pair}: {example.name}" for example in scored if chosen(example))

    def is_false_pass(example: ScoredExample) -> bool:
        return not example.is_right and example.score is not None and example.score >= PASS

    return JudgeReport(
        agreement=_agreement(scored),
        recognised=_agreement([example for example in scored if example.is_right]),
        rejected=_agreement([example for example in scored if not example.is_right]),
        false_passes=named(is_false_pass),
        habit_passes=named(lambda example: example.kind == "bad habit" and is_false_pass(example)),
        missed=named(
            lambda example: example.is_right and not example.agrees and example.score is not None
        ),
        unknown=named(lambda example: example.score is None),
        not_repeated=named(lambda example: example.score != example.again),
        refused=refused,
        examples=tuple(scored),
    )


def _agreement(scored: Sequence[ScoredExample]) -> Rate:
    return rate(sum(example.agrees for example in scored), len(scored))


def load_pairs(path: Path = _PAIRS) -> tuple[Pair, ...]:
    """Return the pairs of a TOML file; by default those that come with telic."""
    try:
        return JudgeSet.parse(parse_toml(read_text(path), str(path))).pair
    except (BadFile, ConfigError) as error:
        raise ConfigError(f"{path} is not a judge set: {error}") from None


def examples(pair: Pair, others: tuple[Pair, ...], env_args: dict[str, Any]) -> Iterator[Example]:
    """Yield every example of a pair: good, look-alikes, other intents' good ones, bad habits.

    Args:
        pair: the pair.
        others: all pairs; those on the same robot lend their good examples as wrong ones.
        env_args: how the judge's author wants the environment.
    """
    yield from _puppets(pair, others, env_args)
    habits = _habits(pair.env, tuple(sorted(env_args.items())))
    for name in habits.names:
        if name not in pair.undecided:
            yield Example(
                name, "bad habit", name in pair.right, habits.trajectory(name), habits.spec
            )


def _puppets(pair: Pair, others: tuple[Pair, ...], env_args: dict[str, Any]) -> Iterator[Example]:
    motions: dict[str, tuple[Motion, ...]] = {GOOD: pair.good} if pair.good else {}
    kinds: dict[str, Kind] = {GOOD: "good"}
    for name, motion in pair.wrong.items():
        motions[name], kinds[name] = motion, "look-alike"
    for other in others:
        fits = other.env == pair.env and other.id not in (pair.id, *pair.undecided)
        if fits and other.good and other.good != pair.good:
            motions[other.id], kinds[other.id] = other.good, "other intent"
    for name, motion in motions.items():
        examples = _puppet(pair.env, tuple(sorted(env_args.items())), motion)
        yield Example(name, kinds[name], name == GOOD, examples.trajectory(GOOD), examples.spec)


@cache
def _puppet(
    env: str, env_args: tuple[tuple[str, Any], ...], motions: tuple[Motion, ...]
) -> Examples:
    return good_examples(env, dict(env_args), {GOOD: motions})


@cache
def _habits(env: str, env_args: tuple[tuple[str, Any], ...]) -> Examples:
    return bad_habits(env, dict(env_args))


def read_labels(folder: Path) -> tuple[Label, ...]:
    """Return the labels of a folder; raises ConfigError when one is wrong or a file is missing."""
    path = folder / LABELS
    try:
        labels = Labels.parse(parse_toml(read_text(path), str(path))).episode
    except MissingFile:
        raise ConfigError(
            f"{folder} has no {LABELS}.",
            hint='Write one: [[episode]] with file = "a.npz", intent = "run forward", does = true.',
        ) from None
    except (BadFile, ConfigError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    missing = [label.file for label in labels if not (folder / label.file).exists()]
    if missing:
        raise ConfigError(f"{path} names files that do not exist: {', '.join(missing)}.")
    return labels
