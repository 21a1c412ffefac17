"""Suites: files of intents to measure with, and choosing cases from them."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, field_validator

from telic.core.config import Config
from telic.errors import ConfigError, UnknownName

SUITES = Path(__file__).parent / "suites"

Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: tuple[str, ...] = get_args(Difficulty)


class Case(Config):
    """One intent on one robot."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="short name, also of its folder")
    env: str = Field(description="environment id or path of an MJCF file")
    intent: str = Field(min_length=1, description="what the robot should do, as people say it")
    category: str = Field(min_length=1, description="kind of behaviour: locomotion, pose, ...")
    difficulty: Difficulty = Field(description="easy, medium or hard")
    checks: dict[str, str] = Field(
        default={},
        description="conditions on an episode, by what they say; hidden from whoever writes rewards"
        " and judges, a pass must hold them",
    )


class Suite(Config):
    """Intents to measure with."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="short name")
    about: str = Field(default="", description="what it measures, in a sentence")
    case: tuple[Case, ...] = Field(min_length=1, description="the cases")

    @field_validator("case")
    @classmethod
    def _distinct(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        seen: set[str] = set()
        for case in cases:
            if case.id in seen:
                raise ValueError(f'Two cases have the id "{case.id}".')
            seen.add(case.id)
        return cases

    def select(
        self,
        *,
        only: Sequence[str] = (),
        env: str | None = None,
        difficulty: Sequence[str] = (),
        sample: int | None = None,
        seed: int = 0,
    ) -> tuple[Case, ...]:
        """Return the cases that are asked for, in the suite's order.

        Raises UnknownName for a case or difficulty that does not exist, ConfigError when nothing
        is left.
        """
        for kind, names, names_there in (
            ("case", only, [each.id for each in self.case]),
            ("difficulty", difficulty, list(DIFFICULTIES)),
        ):
            for name in names:
                if name not in names_there:
                    raise UnknownName(kind, name, names_there)
        cases = [
            each
            for each in self.case
            if (not only or each.id in only)
            and (env is None or each.env == env)
            and (not difficulty or each.difficulty in difficulty)
        ]
        if not cases:
            raise ConfigError(
                f"No case of the suite {self.name} fits.", hint="Choose less narrowly."
            )
        return tuple(cases if sample is None else _sampled(cases, sample, seed))


def load_suite(name: str) -> Suite:
    """Return a suite that comes with telic, by its name, or the one in a TOML file."""
    path = Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"
    if not path.exists():
        known = sorted(each.stem for each in SUITES.glob("*.toml"))
        if path.parent != SUITES:
            raise ConfigError(
                f"There is no suite file {path}.", hint=f"Suites by name: {', '.join(known)}."
            )
        raise UnknownName("suite", name, known)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return Suite.parse(values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path} is not a suite: {error}") from None


def _sampled(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Return some of the cases with the difficulties in the same proportions; the same every time.

    The shares are rounded by largest remainder, so that they add up.
    """
    if count < 1:
        raise ConfigError(f"A sample of {count} cases is empty.", hint="Try --sample 9.")
    if count >= len(cases):
        return cases
    strata = {name: [each for each in cases if each.difficulty == name] for name in DIFFICULTIES}
    exact = {name: count * len(each) / len(cases) for name, each in strata.items()}
    share = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: share[name] - exact[name])
    for name in by_remainder[: count - sum(share.values())]:
        share[name] += 1
    chosen: set[str] = set()
    for name, stratum in strata.items():
        ids = [each.id for each in stratum]
        chosen |= set(random.Random(f"{seed} {name}").sample(ids, share[name]))
    return [each for each in cases if each.id in chosen]
