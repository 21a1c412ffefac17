"""Decide how a reward can be run, by trying it on recorded transitions."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telic.errors import RewardError
from telic.rewards.contract import RewardFinding
from telic.rewards.definition import Definition, ObjectDefinition
from telic.rewards.loop import LoopedRunner
from telic.rewards.mistakes import named, place
from telic.rewards.recording import (
    Difference,
    ReplayResult,
    TransitionRecording,
    difference,
    microseconds,
    replay,
    side_by_side,
)
from telic.rewards.runners import BatchedRunner
from telic.rewards.state import CannotCapture, capture, restore, same
from telic.rewards.vectorise.runner import VectorisedRunner

Mode = Literal["batched", "vectorised", "looped", "environment"]

_ROUNDING = 1e-4
"""of float32 sums taken in another order"""
_EQUAL = 1e-5
_FASTER = "to make it many times cheaper."


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """How to run a reward, and what was seen while finding out."""

    mode: Mode
    term_names: tuple[str, ...]
    is_stateful: bool = False
    is_resumable: bool = True
    whole_info: bool = False
    parts_are_all: bool = False
    """of the environment's own reward: whether its parts in info sum to it"""
    findings: tuple[RewardFinding, ...] = ()
    microseconds: dict[str, float] = field(default_factory=dict[str, float])
    """per environment step with 64 environments, by mode"""
    outcome: ReplayResult | None = None


class BrokenRule(RewardError):
    """A batched reward breaks a rule of batches; running it another way would hide that."""


def decide(
    definition: Definition, weights: Mapping[str, float], recording: TransitionRecording
) -> RunnerChoice:
    """Return how to run a reward; raises RewardError when it cannot be run.

    Batched when one call for all environments equals separate calls for each. Else the reward is
    taken to be written for one environment at a time: vectorised when that gives the same numbers,
    or looped.
    """
    source = definition.source
    trial = _Trial(definition, weights, recording)
    is_meant_batched = bool(source and source.scan.batched)
    failure: RewardError | None = None
    if is_meant_batched or not (source and source.kept):
        try:
            return trial.batched()
        except BrokenRule as error:
            if is_meant_batched:
                raise
            failure = error
        except RewardError as error:
            failure = error
    try:
        return trial.one_at_a_time()
    except RewardError:
        if is_meant_batched and failure is not None:
            raise failure from None
        raise


class _Trial:
    """One reward with its weights, tried in different ways on the same transitions."""

    def __init__(
        self, definition: Definition, weights: Mapping[str, float], recording: TransitionRecording
    ) -> None:
        self.definition = definition
        self.weights = weights
        self.recording = recording
        self.source = definition.source
        # The same computation repeats to the last bit, except on a GPU.
        self.repeated = 0.0 if recording.device.type == "cpu" else 1e-6

    # ---- all environments at once

    def batched(self) -> RunnerChoice:
        """Run it as a batched reward; raises BrokenRule when it is none."""
        recording = self.recording
        runner = self._batched_runner()
        outcome = replay(runner, recording)
        self._refuse_chance(outcome, replay(self._batched_runner(), recording))
        alone = [
            replay(self._batched_runner(), recording.rows(row, row + 1))
            for row in range(recording.num_envs)
        ]
        mixed = difference(side_by_side(alone), outcome, _ROUNDING)
        if mixed:
            raise _mixes(self.definition, mixed, recording.num_envs)
        changed = difference(outcome, replay(runner, recording), self.repeated)
        if changed:
            raise _keeps(self.definition, changed)
        names = tuple(outcome.terms)
        cost = microseconds(BatchedRunner(self.definition, self.weights, names), recording)
        return RunnerChoice(
            "batched",
            names,
            findings=_kept_attribute(self.definition),
            microseconds={"batched": cost},
            outcome=outcome,
        )

    def _batched_runner(self) -> BatchedRunner:
        return BatchedRunner(self.definition, self.weights, None)

    def _refuse_chance(self, outcome: ReplayResult, again: ReplayResult) -> None:
        by_chance = difference(outcome, again, self.repeated)
        if by_chance:
            raise _is_random(self.definition, by_chance)

    # ---- one environment at a time

    def one_at_a_time(self) -> RunnerChoice:
        """Run it once per environment, or vectorised where that gives the same."""
        definition, recording = self.definition, self.recording
        _refuse_shared_globals(definition)
        is_stateful, outcome = self._loop()
        self._refuse_chance(outcome, replay(self._looped_runner(is_stateful), recording))
        static = self.source.scan.terms if self.source else {}
        names = tuple(dict.fromkeys((*outcome.terms, *static)))
        whole_info = not self._reads_enough(is_stateful, outcome)
        looped = LoopedRunner(
            definition, self.weights, names, is_stateful=is_stateful, whole_info=whole_info
        )
        cost = {"looped": microseconds(looped, recording)}
        reason = None if is_stateful else self._why_not_vectorised(names, outcome)
        if not is_stateful and reason is None:
            runner = VectorisedRunner(definition, self.weights, names)
            cost["vectorised"] = microseconds(runner, recording)
            finding = _vectorised(definition, cost, recording)
            return RunnerChoice(
                "vectorised", names, findings=(finding,), microseconds=cost, outcome=outcome
            )
        findings = [_looped(definition, cost["looped"], reason)]
        lost = self._why_not_resumable() if is_stateful else None
        if lost is not None:
            findings.append(_not_resumable(definition, lost))
        return RunnerChoice(
            "looped",
            names,
            is_stateful=is_stateful,
            is_resumable=lost is None,
            whole_info=whole_info,
            findings=tuple(findings),
            microseconds=cost,
            outcome=outcome,
        )

    def _looped_runner(self, is_stateful: bool, *, whole_info: bool = True) -> LoopedRunner:
        return LoopedRunner(
            self.definition, self.weights, None, is_stateful=is_stateful, whole_info=whole_info
        )

    def _loop(self) -> tuple[bool, ReplayResult]:
        """Return whether the reward keeps state, and what it gives."""
        if not (self.source and self.source.kept):
            runner = self._looped_runner(False)
            outcome = replay(runner, self.recording)
            try:
                untouched = capture(self.definition.create(self.weights))
                if same(untouched, capture(runner.instances[0])):
                    return False, outcome
            except CannotCapture:
                pass  # whatever it holds may change, so every environment gets its own
        return True, replay(self._looped_runner(True), self.recording)

    def _reads_enough(self, is_stateful: bool, expected: ReplayResult) -> bool:
        """Say whether the info names found in the source are all that the reward reads."""
        try:
            outcome = replay(self._looped_runner(is_stateful, whole_info=False), self.recording)
        except RewardError:
            return False
        return difference(expected, outcome, self.repeated) is None

    def _why_not_vectorised(self, names: tuple[str, ...], expected: ReplayResult) -> str | None:
        """Return why a reward cannot be vectorised; None: it can, with the same numbers."""
        try:
            runner = VectorisedRunner(self.definition, self.weights, names)
            outcome = replay(runner, self.recording)
        except RewardError as error:
            return str(error)
        seen = difference(expected, outcome, _EQUAL)
        if seen is None:
            return None
        line = self.source.scan.term_line(seen.term) if self.source else None
        return (
            f"{place(self.source, line)}{named(seen.term)}: computed for all at once it gives "
            f"{seen.second:.6g} instead of {seen.first:.6g}"
        )

    def _why_not_resumable(self) -> str | None:
        """Return why the state cannot be saved and put back; None: it can."""
        runner = self._looped_runner(True)
        runner.start(self.recording.num_envs, self.recording.device)
        for moment in self.recording.transitions[:3]:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        try:
            state = capture(runner.instances[0])
            twin = self.definition.create(self.weights)
            restore(twin, state)
            if same(capture(twin), state):
                return None
            return "it is made of objects that appear only while it runs"
        except CannotCapture as error:
            return str(error)


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


# ---- what is said of a reward that breaks a rule


def _mixes(definition: Definition, seen: Difference, num_envs: int) -> BrokenRule:
    """Say that environments of a batch are not kept apart."""
    source = definition.source
    reduction = source.scan.reductions[0] if source and source.scan.reductions else None
    line = reduction.line if reduction else source.scan.term_line(seen.term) if source else None
    hint = "Reduce over the last dimension only, e.g. x.mean(-1)."
    if reduction:
        inside = reduction.what.removesuffix(")")
        comma = "" if inside.endswith("(") else ", "
        hint = f"Write {inside}{comma}-1) instead of {reduction.what}."
    return BrokenRule(
        f"{place(source, line)}{named(seen.term)}: the value for one environment depends on the "
        f"others ({seen.first:.4g} alone, {seen.second:.4g} among {num_envs}): something is summed "
        "or averaged over all environments.",
        hint=hint,
        line=line,
        term=seen.term or None,
    )


def _keeps(definition: Definition, seen: Difference) -> BrokenRule:
    """Say that a batched reward keeps state outside its memory."""
    source = definition.source
    kept = source.kept[0] if source and source.kept else None
    line = kept.line if kept else None
    what = kept.what if kept else "something"
    name = what.rpartition(".")[2].partition("[")[0]
    return BrokenRule(
        f"{place(source, line)}{named(seen.term)}: {what} keeps a value from one step to the next "
        "outside memory, where it is neither reset with an episode, nor saved, nor apart for each "
        "environment.",
        hint=f'Declare memory = {{"{name}": 0.0}} in the class and use self.memory["{name}"].',
        line=line,
        term=seen.term or None,
    )


def _is_random(definition: Definition, seen: Difference) -> BrokenRule:
    """Say that the same transition is not always rewarded the same."""
    source = definition.source
    cause = source.scan.random[0] if source and source.scan.random else None
    line = cause.line if cause else source.scan.term_line(seen.term) if source else None
    because = f" ({cause.what})" if cause else ""
    return BrokenRule(
        f"{place(source, line)}{named(seen.term)}: the same transition gave {seen.first:.6g} and "
        f"then {seen.second:.6g}. A reward must not depend on chance, the clock or anything "
        f"global{because}.",
        hint="Compute it from obs, action, next_obs and info alone.",
        line=line,
        term=seen.term or None,
    )


# ---- what is only said


def _kept_attribute(definition: Definition) -> tuple[RewardFinding, ...]:
    """Say that a batched reward writes attributes which made no difference so far."""
    source = definition.source
    if not source or not source.kept:
        return ()
    places = ", ".join(f"{each.what} (line {each.line})" for each in source.kept[:3])
    message = (
        f"{source.label} keeps {places} between steps. It made no difference so far, but it is "
        "neither reset with an episode nor saved: use memory for what must last."
    )
    return (RewardFinding(name="kept_attribute", message=message),)


def _vectorised(
    definition: Definition, cost: dict[str, float], recording: TransitionRecording
) -> RewardFinding:
    """Say what vectorising saves."""
    count = len(recording.transitions) * recording.num_envs
    message = (
        f"{definition.name} is written for one environment at a time. It is computed for all at "
        f"once instead, with equal results on {count} transitions: {cost['vectorised']:.2g} µs per "
        f"environment step instead of {cost['looped']:.2g} µs."
    )
    return RewardFinding(name="vectorised", message=message, values=cost)


def _looped(definition: Definition, cost: float, reason: str | None) -> RewardFinding:
    """Say what looping costs and what prevents vectorising; no reason: the reward keeps state."""
    source = definition.source
    fix = f"Compute with tensors of shape (N,) {_FASTER}"
    if reason is None:
        kept = source.kept if source else []
        where = f" ({place(source, kept[0].line)}: {kept[0].what})" if kept else ""
        reason = f"it keeps a state of its own for every environment{where}"
        fix = f"Declare memory and compute with tensors of shape (N,) {_FASTER}"
    # Cost in microseconds equals percent of one core at 10,000 steps per second.
    message = (
        f"{definition.name} is called once for every environment: {cost:.2g} µs per environment "
        f"step, i.e. {cost:.2g} % of one core at 10,000 steps per second. It cannot be computed "
        f"for all at once: {reason.rstrip('.')}. {fix}"
    )
    return RewardFinding(name="looped", message=message, values={"looped": cost})


def _not_resumable(definition: Definition, reason: str) -> RewardFinding:
    """Say that state cannot be saved."""
    message = (
        f"What {definition.name} keeps between steps cannot be saved: {reason}. A resumed run "
        "starts it anew, so it will not repeat the numbers of an uninterrupted one. Keep numbers, "
        "lists and dictionaries."
    )
    return RewardFinding(name="not_resumable", message=message)
