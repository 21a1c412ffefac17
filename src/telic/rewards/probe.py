"""Check a reward on recorded transitions before training."""

from __future__ import annotations

import ast

import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.core.events import Event
from telic.envs.spec import RewardFinding, RewardSpec
from telic.envs.vector import VecEnv
from telic.errors import RewardError
from telic.rewards._run import Mode, ReplayResult, stacked
from telic.rewards.load import RewardCode, unknown_info
from telic.rewards.recording import TransitionRecording, collect
from telic.rewards.reward import Reward

_DOMINANT = 0.9
_GAP = 1e-4


class Statistics(Record):
    """Distribution of a value over the transitions of a probe."""

    mean: float
    std: float
    min: float
    max: float


class TermStatistics(Statistics):
    """Statistics of one reward term."""

    name: str
    share: float | None = Field(
        description="mean absolute value relative to the sum over all terms, or None if all are 0"
    )


class ProbeReport(Event):
    """Results of checking a reward before training."""

    NAME = "probe.done"

    reward: str = ""
    name: str
    mode: Mode = Field(description="execution mode of the code")
    transitions: int = Field(description="number of environment steps used")
    total: Statistics
    terms: tuple[TermStatistics, ...]
    microseconds_per_step: float | None = Field(
        description="cost per environment step, or None for the environment's reward"
    )
    memory_size: int = Field(description="memory size per environment")
    is_stateful: bool = Field(
        description="whether the reward keeps state that checkpoints do not contain"
    )
    spec: RewardSpec
    findings: tuple[RewardFinding, ...] = ()


def probe(
    reward: Reward,
    env: VecEnv | TransitionRecording,
    transitions: int = 256,
    seed: int = 0,
) -> ProbeReport:
    """Check a reward, choose its execution mode and measure its cost and terms.

    `env` is a recording, or a separate environment that is reset and stepped. Raises RewardError
    if the reward fails, is not finite, mixes environments, or depends on chance or hidden state.
    """
    recording = env if isinstance(env, TransitionRecording) else collect(env, transitions, seed)
    decision = reward.decide(recording)
    result = decision.result or stacked(
        [reward.of_environment(each.info, each.env_reward) for each in recording.transitions]
    )
    _require_finite(reward, result)
    findings = [*decision.findings, *_term_findings(reward, result)]
    if reward.code is not None:
        info = recording.transitions[0].info
        findings = [*reward.code.notes, *findings, *_info_findings(reward.code, list(info))]
    shares = _shares(result)
    return ProbeReport(
        name=reward.name,
        mode=decision.mode,
        transitions=result.total.numel(),
        total=Statistics(**_spread(result.total)),
        terms=tuple(
            TermStatistics(name=name, share=shares.get(name), **_spread(result.term(name)))
            for name in decision.term_names
        ),
        microseconds_per_step=decision.microseconds,
        memory_size=reward.memory_size,
        is_stateful=decision.is_stateful,
        spec=reward.spec,
        findings=tuple(findings),
    )


def _require_finite(reward: Reward, result: ReplayResult) -> None:
    code = reward.code
    for term in (*result.terms, ""):
        values = result.term(term)
        bad = ~values.isfinite()
        if not bad.any():
            continue
        kind = "NaN" if values.isnan().any() else "infinite"
        step = int(bad.any(1).nonzero()[0])
        what = f"is {kind} in {int(bad.sum())} of {bad.numel()} values (first at step {step})."
        hint = "Check for a division, root, logarithm or large power, and clamp its argument."
        if code is None:
            raise RewardError(f"The environment's built-in reward {term} {what}", term=term or None)
        raise code.wrong_term(term, what, hint)


def _info_findings(code: RewardCode, known: list[str]) -> list[RewardFinding]:
    """Report missing names that are read with `info.get`, which silently returns the default."""
    findings: list[RewardFinding] = []
    for node in ast.walk(code.tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="info"), attr="get"),
                args=[ast.Constant(value=str() as name), *_],
            ) if name.removeprefix("_") not in known:
                what, hint = unknown_info(name, known)
                where = code.place(node.lineno)
                message = f"{where}: {what}, so the default is always used. {hint}"
                findings.append(RewardFinding(name="unknown_info", message=message))
            case _:
                pass
    return findings


def _term_findings(reward: Reward, result: ReplayResult) -> list[RewardFinding]:
    """Report terms that are undeclared, missing, irregular, zero or dominant, and wrong sums."""
    findings: list[RewardFinding] = []

    def add(name: str, message: str, **values: float) -> None:
        findings.append(RewardFinding(name=name, message=message, values=values))

    declared = {term.name for term in reward.spec.terms}
    returned = result.terms.keys()
    if declared and returned - declared:
        names = ", ".join(sorted(returned - declared))
        add("undeclared_terms", f"Not described: {names}. Add them to the terms of {reward.name}.")
    if declared - returned:
        names = ", ".join(sorted(declared - returned))
        add(
            "missing_terms",
            f"Described but never returned: {names}. Return 0 while a term is inactive.",
        )
    if reward.code is not None and result.terms:
        total = result.total.double()
        summed = torch.stack([each.double() for each in result.terms.values()]).sum(0)
        gap = (summed - total).abs()
        if gap.max().item() > _GAP * max(1.0, total.abs().max().item()):
            step, row = divmod(int(gap.argmax()), gap.shape[1])
            add(
                "terms_gap",
                f"The terms do not sum to the total: at step {step} in environment {row}, their "
                f"sum is {summed[step, row]:.4g} and the total is {total[step, row]:.4g}. Return "
                "all summands, and nothing else.",
                gap=gap.max().item(),
            )
    shares, code = _shares(result), reward.code
    for name, values in result.terms.items():
        where = f'{code.place(code.term_line(name))}, term "{name}"' if code else f'term "{name}"'
        count = result.returned[name]
        if count < len(values):
            add(
                "irregular_term",
                f"{where} was returned in {count} of {len(values)} steps and counts as 0 in the "
                "others. Return it in every step.",
            )
        if not values.any():
            add("dead_term", f"{where} was 0 in all {values.numel()} transitions of the probe.")
        share = shares[name]
        if share is not None and share > _DOMINANT and len(result.terms) > 1:
            add(
                "dominating_term",
                f"{where} is {share:.0%} of the reward's magnitude and dominates the others.",
                share=share,
            )
    return findings


def _spread(values: Tensor) -> dict[str, float]:
    values = values.double()
    return {
        "mean": values.mean().item(),
        "std": values.std(correction=0).item(),
        "min": values.min().item(),
        "max": values.max().item(),
    }


def _shares(result: ReplayResult) -> dict[str, float | None]:
    sizes = {name: values.double().abs().mean().item() for name, values in result.terms.items()}
    whole = sum(sizes.values())
    return {name: size / whole if whole > 0.0 else None for name, size in sizes.items()}
