"""Try a reward on recorded transitions before anything is trained with it."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.core.events import Event
from telic.envs.vector import VecEnv
from telic.errors import RewardError
from telic.rewards._decide import Mode, RunnerChoice
from telic.rewards._mistakes import blame, named, place, unknown_info
from telic.rewards._runners import BatchedRunner, EnvironmentRunner, LoopedRunner
from telic.rewards.contract import RewardFinding, RewardSpec
from telic.rewards.recording import ReplayResult, TransitionRecording, collect
from telic.rewards.reward import Reward

_DOMINANT = 0.9
_GAP = 1e-4


class Statistics(Record):
    """How a number is spread over the probe's transitions."""

    mean: float
    std: float
    min: float
    max: float


class TermStatistics(Statistics):
    """One term of a reward."""

    name: str
    share: float | None = Field(
        description="of the sum of all terms' mean absolute values; None: every term is 0"
    )


class ProbeReport(Event):
    """What a reward does before any training; raised errors aside, it may be trained with."""

    NAME = "probe.done"

    reward: str = ""
    name: str
    mode: Mode = Field(description="how the code is run")
    transitions: int = Field(description="environment steps it was tried on")
    total: Statistics
    terms: tuple[TermStatistics, ...]
    microseconds_per_step: float | None = Field(
        description="per environment step with 64 environments; None: nothing is computed"
    )
    microseconds_looped: float | None = Field(
        description="the same, called once per environment; None: the reward is batched"
    )
    memory_size: int = Field(description="numbers of memory per environment")
    is_stateful: bool = Field(description="keeps state of its own for each environment")
    is_resumable: bool = Field(description="a resumed run repeats the numbers of one that ran on")
    spec: RewardSpec
    findings: tuple[RewardFinding, ...] = ()


def probe(
    reward: Reward,
    env: VecEnv | TransitionRecording,
    transitions: int = 256,
    seed: int = 0,
) -> ProbeReport:
    """Decide how a reward is run, check it, and measure it.

    Args:
        reward: is decided by this, so `reward.copy()` gives further ones for training.
        env: an environment of its own with few copies, which is reset and moved on; or
            transitions recorded before, to try several rewards on the same ones.
        transitions: how many environment steps to record.
        seed: of the recording.

    Raises:
        RewardError: the reward fails, gives numbers that are not finite or wrongly shaped, mixes
            environments, or depends on chance or hidden state. Says where and how to mend it.
    """
    recording = env if isinstance(env, TransitionRecording) else collect(env, transitions, seed)
    decision = reward.decide(recording)
    outcome = decision.outcome or _environment_outcome(decision, recording)
    _check_finite(reward, decision, outcome, recording)
    findings = [
        *(reward.definition.notes if reward.definition else ()),
        *decision.findings,
        *_about_info(reward, recording),
        *_about_terms(reward, outcome),
    ]
    cost = decision.microseconds
    return ProbeReport(
        name=reward.name,
        mode=decision.mode,
        transitions=outcome.total.numel(),
        total=Statistics(**_spread(outcome.total)),
        terms=_statistics(outcome, decision.term_names),
        microseconds_per_step=cost.get(decision.mode),
        microseconds_looped=cost.get("looped"),
        memory_size=reward.memory_size,
        is_stateful=decision.is_stateful,
        is_resumable=decision.is_resumable,
        spec=reward.spec,
        findings=tuple(findings),
    )


def _environment_outcome(decision: RunnerChoice, recording: TransitionRecording) -> ReplayResult:
    moments = recording.transitions
    runner = EnvironmentRunner(decision.term_names, parts_are_all=True)
    steps = [runner.split(moment.env_reward, moment.info) for moment in moments]
    return ReplayResult(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms[name] for step in steps]) for name in decision.term_names},
        dict.fromkeys(decision.term_names, len(steps)),
    )


# ---- what is refused


def _check_finite(
    reward: Reward, decision: RunnerChoice, outcome: ReplayResult, recording: TransitionRecording
) -> None:
    """Raise where a term or the total is not finite, with the line that makes it so."""
    for term, values in (*outcome.terms.items(), ("", outcome.total)):
        bad = ~values.isfinite()
        if not bad.any():
            continue
        step = int(bad.any(1).nonzero()[0])
        kind = "NaN" if values.isnan().any() else "infinite"
        message = f"{int(bad.sum())} of {bad.numel()} values are {kind} (first at step {step})."
        if reward.definition is None:
            raise RewardError(f"The environment's own reward{named(term)}: {message}", term=term)
        source = reward.definition.source
        definition, weights = reward.definition, reward.new_weights
        runner = (
            BatchedRunner(definition, weights, None)
            if decision.mode == "batched"
            else LoopedRunner(
                definition, weights, None, is_stateful=decision.is_stateful, raises=True
            )
        )
        found = blame(runner, source, recording, step)
        line = found.line or source.term_line(term)
        raise RewardError(
            f"{place(source, line)}{named(term)}: {message}",
            hint=found.advice
            or "Look for a division, a root or a logarithm, and bound its argument.",
            line=line,
            term=term or None,
        )


# ---- what is only said


def _about_info(reward: Reward, recording: TransitionRecording) -> list[RewardFinding]:
    source = reward.definition.source if reward.definition else None
    info = recording.transitions[0].info
    if source is None:
        return []
    offered = [*info, "mj_data", "mj_model"]
    findings: list[RewardFinding] = []
    for asked in source.optional_info():
        if asked.what not in info and asked.what not in offered:
            what, hint = unknown_info(asked.what, offered)
            message = f"{place(source, asked.line)}: {what}, so the default is always used. {hint}"
            findings.append(RewardFinding(name="unknown_info", message=message))
    return findings


def _about_terms(reward: Reward, outcome: ReplayResult) -> list[RewardFinding]:
    findings: list[RewardFinding] = []
    described = reward.spec.terms if reward.definition else ()
    declared = {term.name for term in described}
    returned = outcome.terms.keys()
    source = reward.definition.source if reward.definition else None
    if declared and returned - declared:
        names = ", ".join(sorted(returned - declared))
        message = f"Not described: {names}. Add them to the terms of {reward.name}."
        findings.append(RewardFinding(name="undeclared_terms", message=message))
    if declared - returned:
        names = ", ".join(sorted(declared - returned))
        message = f"Described but never returned: {names}. Return 0 while a term is inactive."
        findings.append(RewardFinding(name="missing_terms", message=message))
    if reward.definition is not None:
        findings += _gap(outcome)
    shares = _shares(outcome)
    for name, values in outcome.terms.items():
        where = f"{place(source, source.term_line(name) if source else None)}{named(name)}"
        count = outcome.returned.get(name, 0)
        if count < len(values):
            message = (
                f"{where} was returned in {count} of {len(values)} steps and counts as 0 else."
            )
            message += " Return it always."
            findings.append(RewardFinding(name="irregular_term", message=message))
        if not values.any():
            message = f"{where} was 0 on all {values.numel()} transitions of the probe."
            findings.append(RewardFinding(name="dead_term", message=message))
        share = shares.get(name)
        if share is not None and share > _DOMINANT and len(outcome.terms) > 1:
            message = f"{where} makes {share:.0%} of the reward's size: the others hardly count."
            findings.append(
                RewardFinding(name="dominating_term", message=message, values={"share": share})
            )
    return findings


def _gap(outcome: ReplayResult) -> list[RewardFinding]:
    """Report a total that is not the sum of its terms."""
    if not outcome.terms:
        return []
    total = outcome.total.double()
    summed = torch.stack([each.double() for each in outcome.terms.values()]).sum(0)
    gap = (summed - total).abs()
    largest = gap.max().item()
    if largest <= _GAP * max(1.0, total.abs().max().item()):
        return []
    step, row = divmod(int(gap.argmax()), gap.shape[1])
    message = (
        f"The terms do not sum to the total: at step {step} in environment {row} they give "
        f"{summed[step, row]:.4g}, the total is {total[step, row]:.4g}. Return every summand, and "
        "only summands."
    )
    return [RewardFinding(name="terms_gap", message=message, values={"gap": largest})]


# ---- numbers


def _spread(values: Tensor) -> dict[str, float]:
    values = values.double()
    return {
        "mean": values.mean().item(),
        "std": values.std(correction=0).item(),
        "min": values.min().item(),
        "max": values.max().item(),
    }


def _shares(outcome: ReplayResult) -> dict[str, float | None]:
    sizes = {name: values.double().abs().mean().item() for name, values in outcome.terms.items()}
    whole = sum(sizes.values())
    return {name: size / whole if whole > 0.0 else None for name, size in sizes.items()}


def _statistics(outcome: ReplayResult, names: tuple[str, ...]) -> tuple[TermStatistics, ...]:
    shares = _shares(outcome)
    nothing = torch.zeros_like(outcome.total)
    return tuple(
        TermStatistics(
            name=name, share=shares.get(name), **_spread(outcome.terms.get(name, nothing))
        )
        for name in names
    )
