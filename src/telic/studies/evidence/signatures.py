"""Signs of trouble in learning curves: each function knows one, and is silent without it."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from telic.storage.journal import JournalEntry
from telic.studies.documents.base import DocumentPart
from telic.studies.evidence.statistics import Series, gain, mean, slope

FEWEST_POINTS = 10

Severity = Literal["info", "warn", "fatal"]


class Signature(DocumentPart):
    """A sign of trouble that was found."""

    id: str
    severity: Severity
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None
    evidence: str


@dataclass(frozen=True, slots=True)
class Learning:
    """What is known about a run's learning; names of series are the canonical ones."""

    series: Mapping[str, Series]
    planned_steps: float | None = None
    """None: signs that depend on progress stay silent"""
    primary: str = "success"
    direction: Literal["max", "min"] = "max"
    target: float | None = None
    discrete_actions: int | None = None
    """number of actions; None for continuous ones"""
    target_kl: float = 0.02
    gamma: float = 0.99
    learning_rate_floor: float | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """canonical name to logged name, where they differ"""

    def get(self, name: str) -> Series | None:
        """Return the finite points of a series with enough of them."""
        found = self.series.get(self.keys.get(name, name))
        kept = found.finite() if found else None
        return kept if kept and len(kept.values) >= FEWEST_POINTS else None

    def metric(self) -> Series | None:
        """Return the primary metric, turned so that larger is better."""
        found = self.get(self.primary)
        return found and found.turned(self.direction)

    def below_target(self) -> bool:
        """Tell whether the metric is short of its target; without a target it always is."""
        found = self.metric()
        if self.target is None or found is None:
            return True
        goal = self.target if self.direction == "max" else -self.target
        return (mean(found.last(0.2).values) or found.values[-1]) < goal

    def early(self, series: Series, share: float) -> Series | None:
        """Return the points before a share of the planned steps."""
        if self.planned_steps is None:
            return None
        found = series.between(-math.inf, share * self.planned_steps)
        return found if len(found.values) >= FEWEST_POINTS else None

    def is_past(self, series: Series, share: float) -> bool:
        """Tell whether training has passed a share of the planned steps."""
        return self.planned_steps is not None and series.steps[-1] > share * self.planned_steps


_EXPLODES = 100
_MAY_NOT_BE_NAN = re.compile(r"loss|return|reward|grad", re.IGNORECASE)
_NOT_EARLY = re.compile(r"time|trunc|horizon|success", re.IGNORECASE)
_NO_GAIN = 0.2
"""pooled standard deviations within which a metric counts as flat"""


class Sign(NamedTuple):
    """What a look sees; the look's own name is the signature."""

    severity: Severity
    evidence: str
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None


Subject = TypeVar("Subject")
Look = Callable[[Subject], Iterator[Sign]]


def signatures(looks: Iterable[Look[Subject]], subject: Subject) -> list[Signature]:
    """Return every sign of trouble that some looks see."""
    return [
        Signature(id=look.__name__, **sign._asdict()) for look in looks for sign in look(subject)
    ]


def learning_signatures(run: Learning) -> list[Signature]:
    """Return every sign of trouble in the curves."""
    return signatures(_LOOKS, run)


class Alert(NamedTuple):
    """A sign of trouble that was entered."""

    run: str
    signature: str
    severity: str
    is_open: bool


def entered_alerts(events: Iterable[JournalEntry]) -> list[Alert]:
    """Return all trouble that was entered, as it stands now."""
    alerts: dict[tuple[str, str], Alert] = {}
    for event in events:
        if event.kind != "monitor.alert":
            continue
        run, severity = str(event.subject), event.data["severity"]
        for cleared in event.data.get("cleared", ()):
            if (run, cleared) in alerts:
                alerts[run, cleared] = alerts[run, cleared]._replace(is_open=False)
        if severity != "info":
            name = str(event.data["signature"])
            alerts[run, name] = Alert(run, name, severity, True)
    return list(alerts.values())


def open_alerts(events: Iterable[JournalEntry], run: str) -> dict[str, str]:
    """Return the trouble of a run that was entered and not cleared since: its severity by name."""
    alerts = [alert for alert in entered_alerts(events) if alert.run == run and alert.is_open]
    return {alert.signature: alert.severity for alert in alerts}


def fatal_alerts(events: Iterable[JournalEntry], runs: Iterable[str]) -> tuple[str, ...]:
    """Return the fatal signatures of runs that no later look has cleared."""
    wanted = set(runs)
    return tuple(
        f"{alert.signature} in {alert.run}"
        for alert in entered_alerts(events)
        if alert.is_open and alert.severity == "fatal" and alert.run in wanted
    )


def nan_inf(run: Learning) -> Iterator[Sign]:
    """A loss, a return or a gradient norm is not a number."""
    names = {run.keys.get(run.primary, run.primary), *filter(_MAY_NOT_BE_NAN.search, run.series)}
    for name in sorted(names & run.series.keys()):
        steps, values, _ = run.series[name]
        bad = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if bad is not None:
            said = f"{name} is {values[bad]} at step {steps[bad]:g}"
            yield Sign("fatal", said, since_step=steps[bad])


def entropy_collapse(run: Learning) -> Iterator[Sign]:
    """The policy stops exploring early.

    Continuous actions are judged by the log of the standard deviation: a differential entropy may
    cross zero, so ratios of it say nothing.
    """
    is_discrete = bool(run.discrete_actions and run.discrete_actions > 1)
    found = run.get("entropy" if is_discrete else "log_std")
    early = run.early(found, 0.3) if found else None
    if early is None:
        return
    since = early.steps[-1]
    if is_discrete:
        share = early.values[-1] / math.log(run.discrete_actions or 2)
        if share < 0.05:
            said = "share of the largest possible entropy, before 30 % of training"
            severity = "fatal" if _is_return_flat(run) else "warn"
            yield Sign(severity, said, share, 0.05, since)
        return
    fall = early.values[0] - early.values[-1]
    if fall > 3.0:
        said = "nats per dimension that the mean log-std fell before 30 % of training"
        yield Sign("warn", said, fall, 3.0, since)


def exploration_blowup(run: Learning) -> Iterator[Sign]:
    """The noise of the policy grows instead of shrinking."""
    spread = run.get("log_std")
    if spread and (rise := spread.values[-1] - spread.values[0]) > 1.5:
        said = "nats per dimension that the mean log-std rose"
        yield Sign("warn", said, rise, 1.5, spread.steps[-1])


def kl_blowup(run: Learning) -> Iterator[Sign]:
    """Updates move the policy too far."""
    found = run.get("kl")
    if not found:
        return
    last, limit = found.values[-10:], 5 * run.target_kl
    above, largest = sum(value > limit for value in last), max(last)
    if above >= 3 or largest > 1.0:
        said = f"{above} of the last 10 updates above 5 times the target of {run.target_kl}"
        severity = "fatal" if largest > 1.0 else "warn"
        yield Sign(severity, said, largest, limit, found.steps[-len(last)])


def clip_saturation(run: Learning) -> Iterator[Sign]:
    """More than half of the samples are clipped, ten updates long."""
    found = run.get("clip_fraction")
    if found and min(found.values[-10:]) > 0.5:
        said = "clip fraction of the last 10 updates"
        yield Sign("warn", said, mean(found.values[-10:]), 0.5, found.steps[-10])


def lr_floor(run: Learning) -> Iterator[Sign]:
    """An adaptive learning rate rests at its minimum."""
    found = run.get("learning_rate")
    if not found or min(found.values) == max(found.values):
        return
    floor = run.learning_rate_floor if run.learning_rate_floor is not None else min(found.values)
    last = found.values[-100:]
    share = sum(value <= floor * (1 + 1e-9) for value in last) / len(last)
    if share > 0.5:
        said = f"share of the last {len(last)} updates at the floor of {floor:g}"
        yield Sign("info", said, share, 0.5, found.steps[-len(last)])


def value_explosion(run: Learning) -> Iterator[Sign]:
    """The critic diverges: its loss grows without end, or values exceed what is possible."""
    loss = run.get("value_loss")
    if loss:
        usual = statistics.median(loss.values[: max(1, len(loss.values) // 10)])
        rising = slope(loss.steps[-10:], loss.values[-10:]) or 0.0
        if usual > 0 and loss.values[-1] > _EXPLODES * usual and rising > 0:
            said = "value loss, in medians of the first tenth of training, and rising"
            yield Sign("fatal", said, loss.values[-1] / usual, _EXPLODES, loss.steps[-10])
    values, rewards = run.get("value"), run.get("reward")
    if values and rewards and run.gamma < 1:
        # |V| <= max|r| / (1 - gamma) for any policy
        limit = 10 * max(map(abs, rewards.values)) / (1 - run.gamma)
        if abs(values.values[-1]) > limit > 0:
            said = "value above ten times max|r| / (1 - gamma)"
            yield Sign("fatal", said, values.values[-1], limit, values.steps[-1])


def critic_useless(run: Learning) -> Iterator[Sign]:
    """The critic explains less than a constant would."""
    found = run.get("explained_variance")
    if found and run.planned_steps is not None and len(found.values) >= 20:
        last, since = found.values[-20:], found.steps[-20]
        if since >= 0.2 * run.planned_steps and max(last) < 0:
            yield Sign("warn", "explained variance of the last 20 updates", mean(last), 0.0, since)


def reward_plateau(run: Learning) -> Iterator[Sign]:
    """The return stands still while the metric is short of its target."""
    import numpy as np

    found = run.get("return")
    if not found or not run.is_past(found, 0.4) or not run.below_target():
        return
    window = found.last(0.25)
    low, high = np.quantile(found.values, [0.05, 0.95])
    limit = 0.02 * float(high - low)
    rise = abs(slope(window.steps, window.values) or 0.0) * (window.steps[-1] - window.steps[0])
    half = len(window.values) // 2
    if half and rise < limit and _same(window.values[:half], window.values[half:]):
        yield Sign("info", "rise of the return over the last quarter", rise, limit, window.steps[0])


def reward_regression(run: Learning) -> Iterator[Sign]:
    """The return fell well below its best; the lowest value seen counts as zero."""
    found = run.get("return")
    if not found:
        return
    values, width = found.values, max(1, len(found.values) // 10)
    windows = [math.fsum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    best, last, zero = max(windows), windows[-1], min(values)
    if last - zero < 0.7 * (best - zero):
        said = "mean return of the last tenth against the best tenth"
        since = found.steps[windows.index(best)]
        yield Sign("warn", said, (last - zero) / (best - zero), 0.7, since)


def metric_divergence(run: Learning) -> Iterator[Sign]:
    """The return rises and the metric does not: time for a reflection on the reward."""
    found, metric = run.get("return"), run.metric()
    if not found or not metric or run.primary == "return":
        return
    up = gain(found.first(0.2).values, found.last(0.2).values)
    real = gain(metric.first(0.2).values, metric.last(0.2).values)
    if up is not None and real is not None and up > 1 and real <= _NO_GAIN:
        said = f"return up by {up:.2g} standard deviations, {run.primary} by {real:.2g}"
        yield Sign("warn", said, up, 1.0, found.last(0.2).steps[0])


def early_termination(run: Learning) -> Iterator[Sign]:
    """One way to fail ends nearly all episodes."""
    for name in sorted(run.series):
        if not name.startswith("termination/") or _NOT_EARLY.search(name):
            continue
        found = run.get(name)
        share = mean(found.values[-10:]) if found and run.is_past(found, 0.3) else None
        if found and share is not None and share > 0.9:
            yield Sign("warn", f"share of episodes ended by {name}", share, 0.9, found.steps[-10])


def throughput_drop(run: Learning) -> Iterator[Sign]:
    """Training has become much slower than it was."""
    found = run.get("sps")
    if not found:
        return
    usual, last = statistics.median(found.values[:-5]), found.values[-5:]
    if max(last) < 0.3 * usual:
        said = "steps per second against their median"
        yield Sign("warn", said, max(last) / usual, 0.3, found.steps[-5])


def _is_return_flat(run: Learning) -> bool:
    found = run.get("return")
    half = len(found.values) // 2 if found else 0
    return found is not None and _same(found.values[:half], found.values[half:])


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether a rank test sees no difference between two samples."""
    import numpy as np

    from telic.core.stats import mann_whitney

    p = mann_whitney(np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64))
    return p is None or p > 0.2


_LOOKS: tuple[Look[Learning], ...] = (
    *(nan_inf, entropy_collapse, exploration_blowup, kl_blowup, clip_saturation, lr_floor),
    *(value_explosion, critic_useless, reward_plateau, reward_regression, metric_divergence),
    *(early_termination, throughput_drop),
)
