"""Signs of trouble in learning curves: each function knows one, and is silent without it."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from telic.studies.evidence.learning import Learning, Signature
from telic.studies.evidence.series import Series, gain, mean, percentile, slope

_EXPLODES = 100
_MAY_NOT_BE_NAN = re.compile(r"loss|return|reward|grad", re.IGNORECASE)
_NOT_EARLY = re.compile(r"time|trunc|horizon|success", re.IGNORECASE)
_NO_GAIN = 0.2
"""pooled standard deviations within which a metric counts as flat"""


def learning_signatures(run: Learning) -> list[Signature]:
    """Return every sign of trouble in the curves."""
    return [found for look in _LOOKS for found in look(run)]


def nan_inf(run: Learning) -> Iterator[Signature]:
    """A loss, a return or a gradient norm is not a number."""
    names = {run.keys.get(run.primary, run.primary), *filter(_MAY_NOT_BE_NAN.search, run.series)}
    for name in sorted(names & run.series.keys()):
        _, values, _ = found = run.series[name]
        bad = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            yield Signature(
                id="nan_inf",
                severity="fatal",
                since_step=found.steps[bad],
                evidence=f"{name} is {values[bad]} at step {found.steps[bad]:g}",
            )


def entropy_collapse(run: Learning) -> Iterator[Signature]:
    """The policy stops exploring early.

    Continuous actions are judged by the log of the standard deviation: a differential entropy may
    cross zero, so ratios of it say nothing.
    """
    if run.discrete_actions and run.discrete_actions > 1:
        entropy = run.get("entropy")
        early = run.early(entropy, 0.3) if entropy else None
        share = early.values[-1] / math.log(run.discrete_actions) if early else None
        if early and share is not None and share < 0.05:
            yield Signature(
                id="entropy_collapse",
                severity="fatal" if _is_return_flat(run) else "warn",
                value=share,
                threshold=0.05,
                since_step=early.steps[-1],
                evidence="share of the largest possible entropy, before 30 % of training",
            )
        return
    spread = run.get("log_std")
    early = run.early(spread, 0.3) if spread else None
    if early and early.values[0] - early.values[-1] > 3.0:
        yield Signature(
            id="entropy_collapse",
            severity="warn",
            value=early.values[0] - early.values[-1],
            threshold=3.0,
            since_step=early.steps[-1],
            evidence="nats per dimension that the mean log-std fell before 30 % of training",
        )


def exploration_blowup(run: Learning) -> Iterator[Signature]:
    """The noise of the policy grows instead of shrinking."""
    spread = run.get("log_std")
    if spread and spread.values[-1] - spread.values[0] > 1.5:
        yield Signature(
            id="exploration_blowup",
            severity="warn",
            value=spread.values[-1] - spread.values[0],
            threshold=1.5,
            since_step=spread.steps[-1],
            evidence="nats per dimension that the mean log-std rose",
        )


def kl_blowup(run: Learning) -> Iterator[Signature]:
    """Updates move the policy too far."""
    found = run.get("kl")
    if not found:
        return
    last, limit = found.values[-10:], 5 * run.target_kl
    above = sum(value > limit for value in last)
    if above >= 3 or max(last) > 1.0:
        yield Signature(
            id="kl_blowup",
            severity="fatal" if max(last) > 1.0 else "warn",
            value=max(last),
            threshold=limit,
            since_step=found.steps[-len(last)],
            evidence=f"{above} of the last 10 updates above 5 times the target of {run.target_kl}",
        )


def clip_saturation(run: Learning) -> Iterator[Signature]:
    """More than half of the samples are clipped, ten updates long."""
    found = run.get("clip_fraction")
    if found and min(found.values[-10:]) > 0.5:
        yield Signature(
            id="clip_saturation",
            severity="warn",
            value=mean(found.values[-10:]),
            threshold=0.5,
            since_step=found.steps[-10],
            evidence="clip fraction of the last 10 updates",
        )


def lr_floor(run: Learning) -> Iterator[Signature]:
    """An adaptive learning rate rests at its minimum."""
    found = run.get("learning_rate")
    if not found or min(found.values) == max(found.values):
        return
    floor = run.learning_rate_floor if run.learning_rate_floor is not None else min(found.values)
    last = found.values[-100:]
    share = sum(value <= floor * (1 + 1e-9) for value in last) / len(last)
    if share > 0.5:
        yield Signature(
            id="lr_floor",
            severity="info",
            value=share,
            threshold=0.5,
            since_step=found.steps[-len(last)],
            evidence=f"share of the last {len(last)} updates at the floor of {floor:g}",
        )


def value_explosion(run: Learning) -> Iterator[Signature]:
    """The critic diverges: its loss grows without end, or values exceed what is possible."""
    loss = run.get("value_loss")
    if loss:
        usual = statistics.median(loss.values[: max(1, len(loss.values) // 10)])
        rising = slope(loss.steps[-10:], loss.values[-10:]) or 0.0
        if usual > 0 and loss.values[-1] > _EXPLODES * usual and rising > 0:
            yield Signature(
                id="value_explosion",
                severity="fatal",
                value=loss.values[-1] / usual,
                threshold=_EXPLODES,
                since_step=loss.steps[-10],
                evidence="value loss, in medians of the first tenth of training, and rising",
            )
    values, rewards = run.get("value"), run.get("reward")
    if values and rewards and run.gamma < 1:
        limit = 10 * max(map(abs, rewards.values)) / (1 - run.gamma)
        if abs(values.values[-1]) > limit > 0:
            yield Signature(
                id="value_explosion",
                severity="fatal",
                value=values.values[-1],
                threshold=limit,
                since_step=values.steps[-1],
                evidence="value above ten times max|r| / (1 - gamma)",
            )


def critic_useless(run: Learning) -> Iterator[Signature]:
    """The critic explains less than a constant would."""
    found = run.get("explained_variance")
    if found and run.planned_steps is not None and len(found.values) >= 20:
        last = found.values[-20:]
        if found.steps[-20] >= 0.2 * run.planned_steps and max(last) < 0:
            yield Signature(
                id="critic_useless",
                severity="warn",
                value=mean(last),
                threshold=0.0,
                since_step=found.steps[-20],
                evidence="explained variance of the last 20 updates",
            )


def reward_plateau(run: Learning) -> Iterator[Signature]:
    """The return stands still while the metric is short of its target."""
    found = run.get("return")
    if not found or not run.is_past(found, 0.4) or not run.below_target():
        return
    window = found.last(0.25)
    height = _height(found)
    rise = abs(slope(window.steps, window.values) or 0.0) * (window.steps[-1] - window.steps[0])
    half = len(window.values) // 2
    if half and rise < 0.02 * height and _same(window.values[:half], window.values[half:]):
        yield Signature(
            id="reward_plateau",
            severity="info",
            value=rise,
            threshold=0.02 * height,
            since_step=window.steps[0],
            evidence="rise of the return over the last quarter",
        )


def reward_regression(run: Learning) -> Iterator[Signature]:
    """The return fell well below its best; the lowest value seen counts as zero."""
    found = run.get("return")
    if not found:
        return
    values, width = found.values, max(1, len(found.values) // 10)
    windows = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    best, last, zero = max(windows), windows[-1], min(values)
    if last - zero < 0.7 * (best - zero):
        yield Signature(
            id="reward_regression",
            severity="warn",
            value=(last - zero) / (best - zero),
            threshold=0.7,
            since_step=found.steps[windows.index(best)],
            evidence="mean return of the last tenth against the best tenth",
        )


def metric_divergence(run: Learning) -> Iterator[Signature]:
    """The return rises and the metric does not: time for a reflection on the reward."""
    found, metric = run.get("return"), run.metric()
    if not found or not metric or run.primary == "return":
        return
    up = gain(found.first(0.2).values, found.last(0.2).values)
    real = gain(metric.first(0.2).values, metric.last(0.2).values)
    if up is not None and real is not None and up > 1 and real <= _NO_GAIN:
        yield Signature(
            id="metric_divergence",
            severity="warn",
            value=up,
            threshold=1.0,
            since_step=found.last(0.2).steps[0],
            evidence=f"return up by {up:.2g} standard deviations, {run.primary} by {real:.2g}",
        )


def early_termination(run: Learning) -> Iterator[Signature]:
    """One way to fail ends nearly all episodes."""
    for name in sorted(run.series):
        if not name.startswith("termination/") or _NOT_EARLY.search(name):
            continue
        found = run.get(name)
        share = mean(found.values[-10:]) if found and run.is_past(found, 0.3) else None
        if found and share is not None and share > 0.9:
            yield Signature(
                id="early_termination",
                severity="warn",
                value=share,
                threshold=0.9,
                since_step=found.steps[-10],
                evidence=f"share of episodes ended by {name}",
            )


def throughput_drop(run: Learning) -> Iterator[Signature]:
    """Training has become much slower than it was."""
    found = run.get("sps")
    if not found:
        return
    usual, last = statistics.median(found.values[:-5]), found.values[-5:]
    if max(last) < 0.3 * usual:
        yield Signature(
            id="throughput_drop",
            severity="warn",
            value=max(last) / usual,
            threshold=0.3,
            since_step=found.steps[-5],
            evidence="steps per second against their median",
        )


def _is_return_flat(run: Learning) -> bool:
    found = run.get("return")
    half = len(found.values) // 2 if found else 0
    return found is not None and _same(found.values[:half], found.values[half:])


def _height(series: Series) -> float:
    low, high = percentile(series.values, 0.05), percentile(series.values, 0.95)
    return (high or 0.0) - (low or 0.0)


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether a rank test sees no difference between two samples."""
    import numpy as np

    from telic.core.stats import mann_whitney

    p = mann_whitney(np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64))
    return p is None or p > 0.2


_LOOKS: tuple[Callable[[Learning], Iterator[Signature]], ...] = (
    nan_inf,
    entropy_collapse,
    exploration_blowup,
    kl_blowup,
    clip_saturation,
    lr_floor,
    value_explosion,
    critic_useless,
    reward_plateau,
    reward_regression,
    metric_divergence,
    early_termination,
    throughput_drop,
)
