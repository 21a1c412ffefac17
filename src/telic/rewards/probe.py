"""Try a reward on recorded transitions before anything is trained with it."""

from __future__ import annotations

import torch
from torch import Tensor

from telic.envs.vector import VecEnv
from telic.errors import RewardError
from telic.rewards.blame import find_blame
from telic.rewards.decide import Decision
from telic.rewards.environment import EnvironmentRunner
from telic.rewards.findings import Finding
from telic.rewards.manners import check_manners
from telic.rewards.mistakes import place, unknown_info
from telic.rewards.recording import Recording, collect
from telic.rewards.remarks import named
from telic.rewards.replay import Outcome
from telic.rewards.report import ProbeReport, Statistics, TermStatistics
from telic.rewards.reward import Reward

_DOMINANT = 0.9
_GAP = 1e-4


def probe(
    reward: Reward,
    env: VecEnv | Recording,
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
    recording = env if isinstance(env, Recording) else collect(env, transitions, seed)
    decision = reward.decide(recording)
    outcome = decision.outcome or _environment_outcome(decision, recording)
    _check_finite(reward, decision, outcome, recording)
    findings = [
        *(reward.definition.notes if reward.definition else ()),
        *decision.findings,
        *check_manners(reward, decision, recording),
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


def _environment_outcome(decision: Decision, recording: Recording) -> Outcome:
    moments = recording.transitions
    runner = EnvironmentRunner(decision.term_names, parts_are_all=True)
    steps = [runner.split(moment.env_reward, moment.info) for moment in moments]
    return Outcome(
        torch.stack([step.total for step in steps]),
        {name: torch.stack([step.terms[name] for step in steps]) for name in decision.term_names},
        dict.fromkeys(decision.term_names, len(steps)),
    )


# ---- what is refused


def _check_finite(
    reward: Reward, decision: Decision, outcome: Outcome, recording: Recording
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
        blame = find_blame(
            reward.definition,
            reward.new_weights,
            recording,
            step,
            is_batched=decision.mode == "batched",
            is_stateful=decision.is_stateful,
        )
        line = blame.line or (source.scan.term_line(term) if source else None)
        raise RewardError(
            f"{place(source, line)}{named(term)}: {message}",
            hint=blame.advice
            or "Look for a division, a root or a logarithm, and bound its argument.",
            line=line,
            term=term or None,
        )


# ---- what is only said


def _about_info(reward: Reward, recording: Recording) -> list[Finding]:
    source = reward.definition.source if reward.definition else None
    known = recording.transitions[0].info
    if source is None:
        return []
    offered = [*known, "mj_data", "mj_model"]
    found: list[Finding] = []
    for asked in source.scan.optional_info:
        if asked.what not in known and asked.what not in offered:
            what, hint = unknown_info(asked.what, offered)
            message = f"{place(source, asked.line)}: {what}, so the default is always used. {hint}"
            found.append(Finding(name="unknown_info", message=message))
    return found


def _about_terms(reward: Reward, outcome: Outcome) -> list[Finding]:
    findings: list[Finding] = []
    declared = {term.name for term in reward.spec.terms} if reward.definition else set()
    returned = outcome.terms.keys()
    source = reward.definition.source if reward.definition else None
    if declared and returned - declared:
        names = ", ".join(sorted(returned - declared))
        message = f"Not described: {names}. Add them to the terms of {reward.name}."
        findings.append(Finding(name="undeclared_terms", message=message))
    if declared - returned:
        names = ", ".join(sorted(declared - returned))
        message = f"Described but never returned: {names}. Return 0 while a term is inactive."
        findings.append(Finding(name="missing_terms", message=message))
    if reward.definition is not None:
        findings += _gap(outcome)
    shares = _shares(outcome)
    for name, values in outcome.terms.items():
        where = f"{place(source, source.scan.term_line(name) if source else None)}{named(name)}"
        count = outcome.returned.get(name, 0)
        if count < len(values):
            message = (
                f"{where} was returned in {count} of {len(values)} steps and counts as 0 else."
            )
            message += " Return it always."
            findings.append(Finding(name="irregular_term", message=message))
        if not values.any():
            message = f"{where} was 0 on all {values.numel()} transitions of the probe."
            findings.append(Finding(name="dead_term", message=message))
        share = shares.get(name)
        if share is not None and share > _DOMINANT and len(outcome.terms) > 1:
            message = f"{where} makes {share:.0%} of the reward's size: the others hardly count."
            findings.append(
                Finding(name="dominating_term", message=message, values={"share": share})
            )
    return findings


def _gap(outcome: Outcome) -> list[Finding]:
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
    return [Finding(name="terms_gap", message=message, values={"gap": largest})]


# ---- numbers


def _spread(values: Tensor) -> dict[str, float]:
    values = values.double()
    return {
        "mean": values.mean().item(),
        "std": values.std(correction=0).item(),
        "min": values.min().item(),
        "max": values.max().item(),
    }


def _shares(outcome: Outcome) -> dict[str, float | None]:
    sizes = {name: values.double().abs().mean().item() for name, values in outcome.terms.items()}
    whole = sum(sizes.values())
    return {name: size / whole if whole > 0.0 else None for name, size in sizes.items()}


def _statistics(outcome: Outcome, names: tuple[str, ...]) -> tuple[TermStatistics, ...]:
    shares = _shares(outcome)
    nothing = torch.zeros_like(outcome.total)
    return tuple(
        TermStatistics(
            name=name, share=shares.get(name), **_spread(outcome.terms.get(name, nothing))
        )
        for name in names
    )
