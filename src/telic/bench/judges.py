"""How well the composer's judges judge: their scores against episodes whose truth is known.

A score of at least 0.8 claims that an episode does what was asked. A judge agrees with the truth
when it claims exactly what is true; a score it cannot give agrees with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from telic.bench.labelled import Label, read_labels
from telic.bench.pairs import Example, Kind, Pair, examples, load_pairs
from telic.bench.tally import Rate, rate
from telic.composer.compose import Composition, compose
from telic.core.config import Record
from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, Refused
from telic.judges.code import JudgeCode
from telic.judges.verdict import Verdict
from telic.storage.files import write_json
from telic.storage.trajectories import read_trajectory

PASS = 0.8
"""score that claims success; the threshold of a session"""


class Scored(Record):
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
    examples: tuple[Scored, ...]


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
    scored: list[Scored] = []
    refused: dict[str, str] = {}
    for pair in everything if pairs is None else pairs:
        on_pair(pair.id)
        try:
            scored += _score_pair(pair, tuple(everything))
        except (Refused, BadEnvironment) as error:
            refused[pair.id] = str(error)
    if labelled is not None:
        for label in read_labels(labelled):
            on_pair(label.file)
            try:
                scored.append(_score_label(label, labelled))
            except (Refused, BadEnvironment) as error:
                refused[label.file] = str(error)
    report = _report(scored, refused)
    if output is not None:
        write_json(output, report)
    return report


def _score_pair(pair: Pair, everything: tuple[Pair, ...]) -> Iterator[Scored]:
    first, again = _judges(pair.intent, _spec(pair.env))
    for example in examples(pair, everything, first.env_args):
        yield _score(pair.id, pair.env, first, again, example)


def _score_label(label: Label, folder: Path) -> Scored:
    trajectory = read_trajectory(folder / label.file)
    facts = trajectory.facts
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


def _score(pair: str, env: str, first: Composition, again: Composition, example: Example) -> Scored:
    verdicts = [JudgeCode(each.judge)(example.trajectory, example.spec) for each in (first, again)]
    score = verdicts[0].score
    return Scored(
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
        f"{each.title}{' (guard)' if each.is_guard else ''}: "
        f"{'–' if each.value is None else f'{each.value:.3g}'} earns {100 * each.counted:.0f} %"
        for each in verdict.leaves
    ]
    return "; ".join(parts)


def _report(scored: Sequence[Scored], refused: dict[str, str]) -> JudgeReport:
    def named(chosen: Callable[[Scored], bool]) -> tuple[str, ...]:
        return tuple(f"{each.pair}: {each.name}" for each in scored if chosen(each))

    def is_false_pass(each: Scored) -> bool:
        return not each.is_right and each.score is not None and each.score >= PASS

    return JudgeReport(
        agreement=_agreement(scored),
        recognised=_agreement([each for each in scored if each.is_right]),
        rejected=_agreement([each for each in scored if not each.is_right]),
        false_passes=named(is_false_pass),
        habit_passes=named(lambda each: each.kind == "bad habit" and is_false_pass(each)),
        missed=named(lambda each: each.is_right and not each.agrees and each.score is not None),
        unknown=named(lambda each: each.score is None),
        not_repeated=named(lambda each: each.score != each.again),
        refused=refused,
        examples=tuple(scored),
    )


def _agreement(scored: Sequence[Scored]) -> Rate:
    return rate(sum(each.agrees for each in scored), len(scored))
