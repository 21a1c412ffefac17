"""Decide how a reward can be run, by trying it on recorded transitions."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telic.errors import RewardError
from telic.rewards import remarks
from telic.rewards.batched import BatchedRunner
from telic.rewards.definition import Definition, ObjectDefinition
from telic.rewards.findings import Finding
from telic.rewards.lifting import LiftedRunner
from telic.rewards.loop import LoopedRunner
from telic.rewards.mistakes import place
from telic.rewards.recording import Recording
from telic.rewards.replay import Outcome, difference, microseconds, replay, side_by_side
from telic.rewards.state import CannotCapture, capture, restore, same

Mode = Literal["batched", "lifted", "looped", "environment"]

_ROUNDING = 1e-4
"""of float32 sums taken in another order"""
_EQUAL = 1e-5


@dataclass(frozen=True, slots=True)
class Decision:
    """How to run a reward, and what was seen while finding out."""

    mode: Mode
    term_names: tuple[str, ...]
    is_stateful: bool = False
    is_resumable: bool = True
    whole_info: bool = False
    parts_are_all: bool = False
    """of the environment's own reward: whether its parts in info sum to it"""
    findings: tuple[Finding, ...] = ()
    microseconds: dict[str, float] = field(default_factory=dict)
    """per environment step with 64 environments, by mode"""
    outcome: Outcome | None = None


def decide(definition: Definition, weights: Mapping[str, float], recording: Recording) -> Decision:
    """Return how to run a reward; raises RewardError when it cannot be run.

    Batched when one call for all environments equals separate calls for each. Else the reward is
    taken to be written for one environment at a time: lifted when that gives the same numbers, or
    looped.
    """
    source = definition.source
    is_meant_batched = bool(source and source.scan.batched)
    failure: RewardError | None = None
    if is_meant_batched or not (source and source.kept):
        try:
            return _batched(definition, weights, recording)
        except remarks.BrokenRule as error:
            if is_meant_batched:
                raise
            failure = error
        except RewardError as error:
            failure = error
    try:
        return _one_at_a_time(definition, weights, recording)
    except RewardError:
        if is_meant_batched and failure is not None:
            raise failure from None
        raise


# ---- all environments at once


def _batched(
    definition: Definition, weights: Mapping[str, float], recording: Recording
) -> Decision:
    runner = BatchedRunner(definition, weights, None)
    outcome = replay(runner, recording)
    fresh = replay(BatchedRunner(definition, weights, None), recording)
    by_chance = difference(outcome, fresh, _repeated(recording))
    if by_chance:
        raise remarks.is_random(definition, by_chance)
    alone = [
        replay(BatchedRunner(definition, weights, None), recording.rows(row, row + 1))
        for row in range(recording.num_envs)
    ]
    mixed = difference(side_by_side(alone), outcome, _ROUNDING)
    if mixed:
        raise remarks.mixes(definition, mixed, recording.num_envs)
    changed = difference(outcome, replay(runner, recording), _repeated(recording))
    if changed:
        raise remarks.keeps(definition, changed)
    names = tuple(outcome.terms)
    cost = microseconds(BatchedRunner(definition, weights, names), recording)
    findings = tuple(remarks.kept_attribute(definition))
    return Decision(
        "batched", names, findings=findings, microseconds={"batched": cost}, outcome=outcome
    )


# ---- one environment at a time


def _one_at_a_time(
    definition: Definition, weights: Mapping[str, float], recording: Recording
) -> Decision:
    _refuse_shared_globals(definition)
    is_stateful, outcome = _try_loop(definition, weights, recording)
    source = definition.source
    by_chance = difference(
        outcome,
        replay(_loop(definition, weights, is_stateful, whole_info=True), recording),
        _repeated(recording),
    )
    if by_chance:
        raise remarks.is_random(definition, by_chance)
    static = source.scan.terms if source else {}
    names = tuple(dict.fromkeys((*outcome.terms, *static)))
    whole_info = not _reads_enough(definition, weights, is_stateful, recording, outcome)
    looped = LoopedRunner(
        definition, weights, names, is_stateful=is_stateful, whole_info=whole_info
    )
    cost = {"looped": microseconds(looped, recording)}
    reason = None if is_stateful else _try_lift(definition, weights, names, recording, outcome)
    if not is_stateful and reason is None:
        cost["lifted"] = microseconds(LiftedRunner(definition, weights, names), recording)
        finding = remarks.lifted(definition, cost, recording)
        return Decision("lifted", names, findings=(finding,), microseconds=cost, outcome=outcome)
    findings = [remarks.looped(definition, cost["looped"], reason)]
    is_resumable = True
    if is_stateful:
        lost = _not_resumable(definition, weights, recording)
        is_resumable = lost is None
        findings += [lost] if lost else []
    return Decision(
        "looped",
        names,
        is_stateful=is_stateful,
        is_resumable=is_resumable,
        whole_info=whole_info,
        findings=tuple(findings),
        microseconds=cost,
        outcome=outcome,
    )


def _repeated(recording: Recording) -> float:
    """Return how closely the same computation repeats: to the last bit, except on a GPU."""
    return 0.0 if recording.device.type == "cpu" else 1e-6


def _loop(
    definition: Definition, weights: Mapping[str, float], is_stateful: bool, *, whole_info: bool
) -> LoopedRunner:
    return LoopedRunner(definition, weights, None, is_stateful=is_stateful, whole_info=whole_info)


def _try_loop(
    definition: Definition, weights: Mapping[str, float], recording: Recording
) -> tuple[bool, Outcome]:
    """Return whether the reward keeps state, and what it gives."""
    if definition.source and definition.source.kept:
        return True, replay(_loop(definition, weights, True, whole_info=True), recording)
    runner = _loop(definition, weights, False, whole_info=True)
    outcome = replay(runner, recording)
    try:
        untouched = capture(definition.create(weights))
        if same(untouched, capture(runner.instances[0])):
            return False, outcome
    except CannotCapture:
        pass  # whatever it holds may change, so every environment gets its own
    return True, replay(_loop(definition, weights, True, whole_info=True), recording)


def _reads_enough(
    definition: Definition,
    weights: Mapping[str, float],
    is_stateful: bool,
    recording: Recording,
    expected: Outcome,
) -> bool:
    """Say whether the info names found in the source are all that the reward reads."""
    try:
        outcome = replay(_loop(definition, weights, is_stateful, whole_info=False), recording)
    except RewardError:
        return False
    return difference(expected, outcome, _repeated(recording)) is None


def _try_lift(
    definition: Definition,
    weights: Mapping[str, float],
    names: tuple[str, ...],
    recording: Recording,
    expected: Outcome,
) -> str | None:
    """Return why a reward cannot be lifted; None: it can, with the same numbers."""
    try:
        outcome = replay(LiftedRunner(definition, weights, names), recording)
    except RewardError as error:
        return str(error)
    seen = difference(expected, outcome, _EQUAL)
    if seen is None:
        return None
    line = definition.source.scan.term_line(seen.term) if definition.source else None
    return (
        f"{place(definition.source, line)}{remarks.named(seen.term)}: computed for all at once it "
        f"gives {seen.second:.6g} instead of {seen.first:.6g}"
    )


def _refuse_shared_globals(definition: Definition) -> None:
    """Refuse an object that writes global names: its environments could not be kept apart."""
    source = definition.source
    if not isinstance(definition, ObjectDefinition) or source is None:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            raise RewardError(
                f"{place(source, node.lineno)}: {definition.name} writes the global name "
                f"{node.names[0]}, which all environments would share.",
                hint="Give the reward as a file, or keep the value in a closure or an attribute.",
                line=node.lineno,
            )


def _not_resumable(
    definition: Definition, weights: Mapping[str, float], recording: Recording
) -> Finding | None:
    """Return a finding when the state cannot be saved and put back."""
    runner = _loop(definition, weights, True, whole_info=True)
    runner.start(recording.num_envs, recording.device)
    for moment in recording.transitions[:3]:
        runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
    try:
        kept = capture(runner.instances[0])
        twin = definition.create(weights)
        restore(twin, kept)
        if same(capture(twin), kept):
            return None
        reason = "it is made of objects that appear only while it runs"
    except CannotCapture as error:
        reason = str(error)
    return remarks.not_resumable(definition, reason)
