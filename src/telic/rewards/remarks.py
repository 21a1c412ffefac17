"""What is said of a reward that breaks a rule, or costs more than it could."""

from __future__ import annotations

from telic.errors import RewardError
from telic.rewards.definition import Definition
from telic.rewards.findings import Finding
from telic.rewards.mistakes import place
from telic.rewards.recording import Recording
from telic.rewards.replay import Difference


class BrokenRule(RewardError):
    """A batched reward breaks a rule of batches; running it another way would hide that."""


def mixes(definition: Definition, seen: Difference, num_envs: int) -> RewardError:
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


def keeps(definition: Definition, seen: Difference) -> RewardError:
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


def is_random(definition: Definition, seen: Difference) -> RewardError:
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


def named(term: str) -> str:
    """Return how a message names a term; nothing for the total."""
    return f', term "{term}"' if term else ""


def kept_attribute(definition: Definition) -> list[Finding]:
    """Say that a batched reward writes attributes which made no difference so far."""
    source = definition.source
    if not source or not source.kept:
        return []
    places = ", ".join(f"{each.what} (line {each.line})" for each in source.kept[:3])
    return [
        Finding(
            name="kept_attribute",
            message=f"{source.label} keeps {places} between steps. It made no difference so far, "
            "but it is neither reset with an episode nor saved: use memory for what must last.",
        )
    ]


def lifted(definition: Definition, cost: dict[str, float], recording: Recording) -> Finding:
    """Say what lifting saves."""
    count = len(recording.transitions) * recording.num_envs
    return Finding(
        name="lifted",
        message=f"{definition.name} is written for one environment at a time. It is computed for "
        f"all at once instead, with equal results on {count} transitions: {cost['lifted']:.2g} µs "
        f"per environment step instead of {cost['looped']:.2g} µs.",
        values=cost,
    )


def looped(definition: Definition, cost: float, reason: str | None) -> Finding:
    """Say what looping costs and what prevents lifting; no reason: the reward keeps state."""
    source = definition.source
    if reason is None:
        kept = source.kept if source else []
        where = f" ({place(source, kept[0].line)}: {kept[0].what})" if kept else ""
        reason = f"it keeps a state of its own for every environment{where}"
        fix = "Declare memory and compute with tensors of shape (N,) to make it many times cheaper."
    else:
        fix = "Compute with tensors of shape (N,) to make it many times cheaper."
    # Cost in microseconds equals percent of one core at 10,000 steps per second.
    return Finding(
        name="looped",
        message=f"{definition.name} is called once for every environment: {cost:.2g} µs per "
        f"environment step, i.e. {cost:.2g} % of one core at 10,000 steps per second. It cannot "
        f"be computed for all at once: {reason.rstrip('.')}. {fix}",
        values={"looped": cost},
    )


def not_resumable(definition: Definition, reason: str) -> Finding:
    """Say that state cannot be saved."""
    return Finding(
        name="not_resumable",
        message=f"What {definition.name} keeps between steps cannot be saved: {reason}. A resumed "
        "run starts it anew, so it will not repeat the numbers of an uninterrupted one. Keep "
        "numbers, lists and dictionaries.",
    )
