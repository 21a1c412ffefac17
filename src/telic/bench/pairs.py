"""The judge set: intents with episodes whose truth is known by construction."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from telic.core.config import Config
from telic.envs.spec import EnvSpec
from telic.errors import ConfigError
from telic.judges.criteria import Motion
from telic.judges.examples import Examples, bad_habits, good_examples
from telic.storage.trajectories import Trajectory

_PAIRS = Path(__file__).with_name("pairs.toml")
GOOD = "good example"

Kind = Literal["good", "look-alike", "other intent", "bad habit", "labelled"]


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


class Example(NamedTuple):
    """One episode and the truth about it."""

    name: str
    kind: Kind
    is_right: bool
    """whether it does what was asked"""
    trajectory: Trajectory
    spec: EnvSpec


def load_pairs(path: Path = _PAIRS) -> tuple[Pair, ...]:
    """Return the pairs of a TOML file; by default those that come with telic."""
    try:
        return JudgeSet.parse(tomllib.loads(path.read_text(encoding="utf-8"))).pair
    except (OSError, tomllib.TOMLDecodeError, ConfigError) as error:
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
        made = _puppet(pair.env, tuple(sorted(env_args.items())), motion)
        yield Example(name, kinds[name], name == GOOD, made.trajectory(GOOD), made.spec)


@cache
def _puppet(
    env: str, env_args: tuple[tuple[str, Any], ...], motions: tuple[Motion, ...]
) -> Examples:
    return good_examples(env, dict(env_args), {GOOD: motions})


@cache
def _habits(env: str, env_args: tuple[tuple[str, Any], ...]) -> Examples:
    return bad_habits(env, dict(env_args))
