"""Measure the accuracy of the composer's judges on episodes with known labels.

    python benchmarks/judges.py [--only cheetah-backflip,ant-circle] [--output results.json]

A score of at least 0.8 predicts that an episode satisfies the intent. A judge agrees with the label
of an episode if its prediction is correct. An unknown score agrees with no label.

Labels are known by construction, because judge_pairs.toml contains intents with look-alikes and
scripted demonstrations that satisfy the intents.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from telic.bench.results import PassRate
from telic.composer.compose import compose
from telic.core.config import Config, Record
from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, BadFile, ConfigError, NotUnderstood, Refused
from telic.judges.code import JudgeCode
from telic.judges.criteria import Composition, Motion
from telic.judges.demonstrations import Examples, demonstrate
from telic.judges.failure_modes import failure_modes
from telic.judges.validation import GOOD
from telic.storage.files import write_json
from telic.storage.reading import parse_toml, read_text
from telic.storage.trajectories import Trajectory

_PAIRS = Path(__file__).with_name("judge_pairs.toml")
Kind = Literal["good", "look-alike", "other intent", "failure mode"]
PASS = 0.8
"""score that counts as a pass, equal to the default threshold of sessions"""


class JudgePair(Config):
    """Intent for a robot, with scripted demonstrations of the intended behavior."""

    id: str = Field(description="short name")
    env: str = Field(description="environment id")
    intent: str = Field(description="intent")
    good: tuple[Motion, ...] = Field(default=(), description="demonstrations that satisfy it")
    wrong: dict[str, tuple[Motion, ...]] = Field(default={}, description="look-alikes")
    right: tuple[str, ...] = Field(default=(), description="failure modes that satisfy the intent")
    undecided: tuple[str, ...] = Field(default=(), description="unclear cases to exclude")


class JudgeSet(Config):
    """Set of pairs."""

    pair: tuple[JudgePair, ...] = Field(min_length=1, description="pairs")


class Example(NamedTuple):
    """Labeled episode."""

    name: str
    kind: Kind
    is_right: bool
    """whether it satisfies the intent"""
    trajectory: Trajectory
    spec: EnvSpec


class ScoredExample(Record):
    """Score that the judge gave to one example."""

    pair: str
    env: str
    intent: str
    name: str
    kind: Kind
    is_right: bool
    score: float | None
    agrees: bool
    why: str
    """scores of the criteria"""

    @property
    def is_false_pass(self) -> bool:
        """Return whether a negative example has a score that counts as a pass."""
        return not self.is_right and self.score is not None and self.score >= PASS


class JudgeReport(Record):
    """Report on the agreement between judges and labels."""

    schema_version: Literal[1] = 1
    threshold: float = PASS
    agreement: PassRate
    recognized: PassRate
    """positive examples that pass"""
    rejected: PassRate
    """negative examples that do not pass"""
    false_passes: tuple[str, ...]
    """negative examples that pass, as "pair: example" """
    failure_mode_passes: tuple[str, ...]
    """false passes on failure modes"""
    missed: tuple[str, ...]
    """positive examples that do not pass"""
    unknown: tuple[str, ...]
    """examples without a score"""
    refused: dict[str, str]
    """intents without a judge, with the reasons"""
    examples: tuple[ScoredExample, ...]


def bench_judges(
    pairs: Sequence[JudgePair] | None = None,
    *,
    output: Path | None = None,
    on_pair: Callable[[str], None] = lambda name: None,
) -> JudgeReport:
    """Score every example of the judge set, and write the report as JSON to `output`."""
    everything = load_pairs()
    scored: list[ScoredExample] = []
    refused: dict[str, str] = {}
    for pair in everything if pairs is None else pairs:
        on_pair(pair.id)
        try:
            env = make(pair.env, num_envs=1)
            env.close()
            written = compose(pair.intent, env.spec)
            tried = examples(pair, everything, written.env_args)
            scored += [_score(pair.id, pair.env, written, example) for example in tried]
        except (Refused, NotUnderstood, BadEnvironment) as error:
            refused[pair.id] = str(error)

    def named(chosen: Callable[[ScoredExample], bool]) -> tuple[str, ...]:
        return tuple(f"{each.pair}: {each.name}" for each in scored if chosen(each))

    def agreement(chosen: Callable[[ScoredExample], bool]) -> PassRate:
        own = [each.agrees for each in scored if chosen(each)]
        return PassRate.of(sum(own), len(own))

    report = JudgeReport(
        agreement=agreement(lambda each: True),
        recognized=agreement(lambda each: each.is_right),
        rejected=agreement(lambda each: not each.is_right),
        false_passes=named(lambda each: each.is_false_pass),
        failure_mode_passes=named(lambda each: each.kind == "failure mode" and each.is_false_pass),
        missed=named(lambda each: each.is_right and not each.agrees and each.score is not None),
        unknown=named(lambda each: each.score is None),
        refused=refused,
        examples=tuple(scored),
    )
    if output is not None:
        write_json(output, report)
    return report


def _score(pair: str, env: str, written: Composition, example: Example) -> ScoredExample:
    verdict = JudgeCode(written.judge)(example.trajectory, example.spec)
    why = verdict.reason or "no score"
    if verdict.score is not None:
        why = "; ".join(
            f"{each.title}{' (constraint)' if each.is_guard else ''}: "
            f"{'–' if each.value is None else f'{each.value:.3g}'} earns {100 * each.counted:.0f} %"
            for each in verdict.criteria
        )
    return ScoredExample(
        pair=pair,
        env=env,
        intent=written.intent,
        name=example.name,
        kind=example.kind,
        is_right=example.is_right,
        score=verdict.score,
        agrees=verdict.score is not None and (verdict.score >= PASS) == example.is_right,
        why=why,
    )


def load_pairs(path: Path = _PAIRS) -> tuple[JudgePair, ...]:
    """Load the pairs in a TOML file, by default those included in telic."""
    try:
        return JudgeSet.parse(parse_toml(read_text(path), str(path))).pair
    except (BadFile, ConfigError) as error:
        raise ConfigError(f"{path} is not a judge set: {error}") from None


def examples(
    pair: JudgePair, others: tuple[JudgePair, ...], env_args: dict[str, Any]
) -> Iterator[Example]:
    """Yield the examples for a pair: positives, look-alikes, other positives and failure modes.

    Positive examples of `others` for the same robot serve as negative examples.
    """
    motions: dict[str, tuple[Kind, tuple[Motion, ...]]] = {}
    if pair.good:
        motions[GOOD] = "good", pair.good
    for name, motion in pair.wrong.items():
        motions[name] = "look-alike", motion
    for other in others:
        fits = other.env == pair.env and other.id not in (pair.id, *pair.undecided)
        if fits and other.good and other.good != pair.good:
            motions[other.id] = "other intent", other.good
    arguments = tuple(sorted(env_args.items()))
    for name, (kind, motion) in motions.items():
        made = _demonstration(pair.env, arguments, motion)
        yield Example(name, kind, name == GOOD, made.trajectory(GOOD), made.spec)
    modes = _failure_modes(pair.env, arguments)
    for name in modes.names:
        if name not in pair.undecided:
            right = name in pair.right
            yield Example(name, "failure mode", right, modes.trajectory(name), modes.spec)


@cache
def _demonstration(
    env: str, env_args: tuple[tuple[str, Any], ...], motions: tuple[Motion, ...]
) -> Examples:
    return demonstrate(env, dict(env_args), {GOOD: motions})


@cache
def _failure_modes(env: str, env_args: tuple[tuple[str, Any], ...]) -> Examples:
    return failure_modes(env, dict(env_args))


def main() -> None:
    """Score the pairs, print the rates and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="ids of pairs, separated by commas")
    parser.add_argument("--output", type=Path, default=Path("judges.json"))
    options = parser.parse_args()
    known = {pair.id: pair for pair in load_pairs()}
    chosen = options.only.split(",") if options.only else list(known)
    if unknown := set(chosen) - set(known):
        parser.error(f"unknown pairs: {', '.join(sorted(unknown))}")
    report = bench_judges([known[name] for name in chosen], output=options.output, on_pair=print)
    for name in ("agreement", "recognized", "rejected"):
        print(name, getattr(report, name).model_dump_json())


if __name__ == "__main__":
    main()
