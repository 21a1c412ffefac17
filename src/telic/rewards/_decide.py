"""Decide how a reward can be run, by running it on recorded transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telic.errors import RewardError
from telic.rewards._mistakes import named, place
from telic.rewards._runners import BatchedRunner, LoopedRunner, VmapRunner
from telic.rewards._source import Definition, Instance
from telic.rewards._state import CannotCapture, capture, changed_names, restore
from telic.rewards.contract import RewardFinding
from telic.rewards.recording import (
    Difference,
    ReplayResult,
    TransitionRecording,
    difference,
    microseconds,
    replay,
    side_by_side,
)

Mode = Literal["batched", "vmap", "looped", "environment"]

_ROUNDING = 1e-4
"""of float32 sums taken in another order"""
_EQUAL = 1e-5
_OWNED = {"reward.memory", "reward.weights"}
"""attributes that the trainer resets and saves"""


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """How to run a reward, and what was measured while deciding."""

    mode: Mode
    term_names: tuple[str, ...]
    is_stateful: bool = False
    is_resumable: bool = True
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

    Batched when one call for all environments equals separate calls for each. Otherwise the reward
    is taken to be written for one environment at a time: it runs under `torch.vmap` when that gives
    the same numbers, else in a loop over environments.
    """
    attempt = _Attempt(definition, weights, recording)
    is_meant_batched = definition.source.is_batched
    try:
        return attempt.batched()
    except RewardError as error:
        if is_meant_batched and isinstance(error, BrokenRule):
            raise
        failure = error
    try:
        return attempt.one_at_a_time()
    except RewardError:
        if is_meant_batched:
            raise failure from None
        raise


class _Attempt:
    """One reward with its weights, run in different ways on the same transitions."""

    def __init__(
        self, definition: Definition, weights: Mapping[str, float], recording: TransitionRecording
    ) -> None:
        self.definition = definition
        self.weights = weights
        self.recording = recording
        self.source = definition.source
        # The same computation repeats to the last bit, except on a GPU.
        self.repeated = 0.0 if recording.device.type == "cpu" else 1e-6

    def batched(self) -> RunnerChoice:
        """Run it once per step; raises BrokenRule when it mixes environments or keeps state."""
        recording, runner = self.recording, self._batched()
        outcome = replay(runner, recording)
        self._refuse_chance(outcome, replay(self._batched(), recording))
        alone = [
            replay(self._batched(), recording.rows(row, row + 1))
            for row in range(recording.num_envs)
        ]
        mixed = difference(side_by_side(alone), outcome, _ROUNDING)
        if mixed:
            raise self._mixes(mixed)
        kept = self._kept(runner.instance)
        changed = difference(outcome, replay(runner, recording), self.repeated)
        if changed:
            raise self._keeps(changed, kept)
        findings: tuple[RewardFinding, ...] = ()
        if kept:
            names = ", ".join(name.rpartition(".")[2] for name in kept[:3])
            message = (
                f"{self.definition.name} keeps {names} between steps. It made no difference so "
                "far, but it is neither reset with an episode nor saved: use memory for what must "
                "last."
            )
            findings = (RewardFinding(name="kept_attribute", message=message),)
        names = tuple(outcome.terms)
        cost = {"batched": microseconds(self._batched(names), recording)}
        return RunnerChoice("batched", names, findings=findings, microseconds=cost, outcome=outcome)

    def one_at_a_time(self) -> RunnerChoice:
        """Run it once per environment, or under `torch.vmap` where that gives the same."""
        shared = self._looped(is_stateful=False)
        outcome = replay(shared, self.recording)
        kept = self._kept(shared.instances[0])
        is_stateful = bool(kept)
        if is_stateful:
            outcome = replay(self._looped(is_stateful=True), self.recording)
        self._refuse_chance(outcome, replay(self._looped(is_stateful), self.recording))
        names = tuple(dict.fromkeys((*outcome.terms, *self.source.terms)))
        mapped = VmapRunner(self.definition, self.weights, names)
        if not is_stateful and self._is_same(mapped, outcome):
            cost = {"vmap": microseconds(mapped, self.recording)}
            return RunnerChoice("vmap", names, microseconds=cost, outcome=outcome)
        looped = self._looped(is_stateful, names)
        cost = {"looped": microseconds(looped, self.recording)}
        findings = [self._slow(cost["looped"], kept)]
        lost = self._why_not_resumable() if is_stateful else None
        if lost is not None:
            message = (
                f"The state that {self.definition.name} keeps between steps cannot be saved: "
                f"{lost}. A resumed run starts it from scratch, so it will not repeat the numbers "
                "of an uninterrupted one. Keep numbers, lists and dictionaries."
            )
            findings.append(RewardFinding(name="not_resumable", message=message))
        return RunnerChoice(
            "looped",
            names,
            is_stateful=is_stateful,
            is_resumable=lost is None,
            findings=tuple(findings),
            microseconds=cost,
            outcome=outcome,
        )

    def _batched(self, names: tuple[str, ...] | None = None) -> BatchedRunner:
        return BatchedRunner(self.definition, self.weights, names)

    def _looped(self, is_stateful: bool, names: tuple[str, ...] | None = None) -> LoopedRunner:
        return LoopedRunner(self.definition, self.weights, names, is_stateful=is_stateful)

    def _kept(self, used: Instance) -> list[str]:
        """Return the names of what an instance changed of itself, outside its memory."""
        try:
            fresh = capture(self.definition.create(self.weights))
            return [n for n in changed_names(fresh, capture(used)) if n not in _OWNED]
        except CannotCapture as error:
            return [str(error).partition(" is a ")[0]]

    def _is_same(self, runner: VmapRunner, expected: ReplayResult) -> bool:
        """Return whether another way to run it gives the same."""
        try:
            return difference(expected, replay(runner, self.recording), _EQUAL) is None
        except RewardError:
            return False

    def _why_not_resumable(self) -> str | None:
        """Return why the state cannot be saved and put back; None: it can."""
        runner = self._looped(is_stateful=True)
        runner.start(self.recording.num_envs, self.recording.device)
        for moment in self.recording.transitions[:3]:
            runner.run(moment.obs, moment.action, moment.next_obs, moment.info)
        try:
            state = capture(runner.instances[0])
            twin = self.definition.create(self.weights)
            restore(twin, state)
            if not changed_names(state, capture(twin)):
                return None
            return "it is made of objects that appear only while it runs"
        except CannotCapture as error:
            return str(error)

    # ---- errors and findings

    def _broken(self, seen: Difference, line: int | None, what: str, hint: str) -> BrokenRule:
        where = f"{place(self.source, line)}{named(seen.term)}"
        return BrokenRule(f"{where}: {what}", hint=hint, line=line, term=seen.term or None)

    def _refuse_chance(self, outcome: ReplayResult, again: ReplayResult) -> None:
        seen = difference(outcome, again, self.repeated)
        if seen is None:
            return
        cause = self.source.chance()
        line = cause.line if cause else self.source.term_line(seen.term)
        because = f" ({cause.what})" if cause else ""
        what = (
            f"the same transition gave {seen.first:.6g} and then {seen.second:.6g}. A reward must "
            f"not depend on chance, the clock or anything global{because}."
        )
        raise self._broken(
            seen, line, what, "Compute it from obs, action, next_obs and info alone."
        )

    def _mixes(self, seen: Difference) -> BrokenRule:
        reduction = self.source.reduction()
        line = reduction.line if reduction else self.source.term_line(seen.term)
        hint = "Reduce over the last dimension only, e.g. x.mean(-1)."
        if reduction:
            inside = reduction.what.removesuffix(")")
            comma = "" if inside.endswith("(") else ", "
            hint = f"Write {inside}{comma}-1) instead of {reduction.what}."
        what = (
            f"the value for one environment depends on the others ({seen.first:.4g} alone, "
            f"{seen.second:.4g} among {self.recording.num_envs}): something is summed or averaged "
            "over all environments."
        )
        return self._broken(seen, line, what, hint)

    def _keeps(self, seen: Difference, kept: list[str]) -> BrokenRule:
        name = kept[0].rpartition(".")[2] if kept else "value"
        line = self.source.written_line(name) if kept else None
        what = (
            f"{name} keeps a value from one step to the next outside memory, where it is neither "
            "reset with an episode, nor saved, nor apart for each environment."
        )
        hint = f'Declare memory = {{"{name}": 0.0}} in the class and use self.memory["{name}"].'
        return self._broken(seen, line, what, hint)

    def _slow(self, cost: float, kept: list[str]) -> RewardFinding:
        state = ""
        if kept:
            name = kept[0].rpartition(".")[2]
            state = f" It keeps a state of its own for every environment ({name}): declare memory."
        # Cost in microseconds equals percent of one core at 10,000 steps per second.
        message = (
            f"{self.definition.name} is called once for every environment: {cost:.2g} µs per "
            f"environment step, i.e. {cost:.2g} % of one core at 10,000 steps per second.{state} "
            "Compute with tensors of shape (N,) to make it many times cheaper."
        )
        return RewardFinding(name="looped", message=message, values={"looped": cost})
