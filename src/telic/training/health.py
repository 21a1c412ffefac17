"""Named findings about a training run: what looks wrong, with the numbers that say so."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, median
from typing import Any

from pydantic import Field

from telic.core.events import Event

_WINDOW = 20
_COLLAPSED_STD = 0.02
_DOMINANT = 0.9
_KL_FACTOR = 5.0
_VALUE_FACTOR = 10.0
_PLATEAU_SHARE = 0.02


class Finding(Event):
    """One thing a person should know about a member's training."""

    NAME = "train.finding"

    member: str = ""
    name: str
    message: str
    values: dict[str, float | None] = Field(default={})
    step: int = 0


def _finding(name: str, step: int, message: str, **values: float | None) -> Finding:
    return Finding(name=name, message=message, values=values, step=step)


class Health:
    """Watches one member's rows and reports each kind of trouble once."""

    def __init__(self, term_names: list[str], target_kl: float) -> None:
        self.term_names = term_names
        self.target_kl = target_kl
        self.findings: list[Finding] = []
        self._rows: deque[dict[str, Any]] = deque(maxlen=_WINDOW)
        self._returns: list[float] = []
        self._lowest_value_loss = math.inf

    def watch(self, row: dict[str, Any], progress: float) -> list[Finding]:
        """Take in one iteration's row; return what is newly wrong."""
        self._rows.append(row)
        if row["episodic_return"] is not None:
            self._returns.append(row["episodic_return"])
        reported = {finding.name for finding in self.findings}
        new = [
            finding
            for finding in (
                self._entropy(row),
                self._kl(),
                self._value_loss(row),
                self._plateau(row, progress),
                *self._terms(row),
            )
            if finding is not None and finding.name not in reported
        ]
        self.findings += new
        return new

    def not_finite(self, step: int, what: str, saved: str) -> Finding:
        """Record that a member stopped because of NaN or infinity."""
        message = f"{what} became NaN or infinite; this member stopped. See {saved}."
        finding = _finding("not_finite", step, message)
        self.findings.append(finding)
        return finding

    def inexact(self, step: int, kind: str, count: int) -> Finding | None:
        """Record that the simulation ran out of room for contacts; None if known already."""
        name = f"simulation_overflow:{kind.lower()}"
        if any(finding.name == name for finding in self.findings):
            return None
        finding = _finding(
            name,
            step,
            f"The GPU had too little room for contacts ({kind}) in {count} simulated "
            "steps, which left some out. Rare ones hardly matter; else use --device cpu.",
            count=float(count),
        )
        self.findings.append(finding)
        return finding

    def _entropy(self, row: dict[str, Any]) -> Finding | None:
        std = row["policy_std"]
        if std is None or std >= _COLLAPSED_STD:
            return None
        return _finding(
            "entropy_collapse",
            row["global_step"],
            f"Exploration has all but stopped: mean action deviation {std:.3g} of the half "
            "range. Raise entropy_coef or lower learning_rate.",
            policy_std=std,
        )

    def _kl(self) -> Finding | None:
        latest = [row["approx_kl"] for row in list(self._rows)[-3:]]
        if len(latest) < 3 or min(latest) <= _KL_FACTOR * self.target_kl:
            return None
        return _finding(
            "kl_blow_up",
            self._rows[-1]["global_step"],
            f"Updates move the policy too far: KL {fmean(latest):.3g} for three updates, "
            f"target {self.target_kl:.3g}. Lower learning_rate or epochs.",
            approx_kl=fmean(latest),
            target_kl=self.target_kl,
        )

    def _value_loss(self, row: dict[str, Any]) -> Finding | None:
        if len(self._rows) < _WINDOW:
            return None
        recent = median(past["value_loss"] for past in self._rows)
        lowest = self._lowest_value_loss = min(self._lowest_value_loss, recent)
        if recent <= _VALUE_FACTOR * lowest or row["explained_variance"] > 0.5:
            return None
        return _finding(
            "value_loss_diverges",
            row["global_step"],
            f"The value loss rose from {lowest:.3g} to {recent:.3g} while it explains "
            f"{row['explained_variance']:.0%} of the returns. Lower learning_rate.",
            lowest=lowest,
            recent=recent,
        )

    def _terms(self, row: dict[str, Any]) -> list[Finding | None]:
        if len(self._rows) < _WINDOW or len(self.term_names) < 2:
            return []
        sizes = {
            name: fmean(abs(row[f"reward_term_{name}"] or 0.0) for row in self._rows)
            for name in self.term_names
        }
        total = sum(sizes.values())
        step = row["global_step"]
        findings: list[Finding | None] = []
        for name, size in sizes.items():
            if size == 0.0:
                text = (
                    f'The term "{name}" was exactly zero for {_WINDOW} updates: it teaches '
                    "nothing. Fine for a cost that is never due; else check its condition or its "
                    "scale."
                )
                findings.append(_finding(f"dead_term:{name}", step, text, share=0.0))
            elif size > _DOMINANT * total:
                text = (
                    f'The term "{name}" is {size / total:.0%} of the reward; the others hardly '
                    "matter. Lower its weight or raise theirs."
                )
                findings.append(_finding(f"dominant_term:{name}", step, text, share=size / total))
        return findings

    def _plateau(self, row: dict[str, Any], progress: float) -> Finding | None:
        """Compare the last third of the returns with the third before, on the scale of all."""
        if progress < 0.6 or len(self._returns) < 3 * _WINDOW:
            return None
        third = len(self._returns) // 3
        before, after = fmean(self._returns[-2 * third : -third]), fmean(self._returns[-third:])
        spread = max(self._returns) - min(self._returns)
        if spread == 0.0 or abs(after - before) > _PLATEAU_SHARE * spread:
            return None
        return _finding(
            "plateau",
            row["global_step"],
            f"The return has stopped changing: {before:.4g} to {after:.4g} over the last "
            "third of training. More steps will not help much.",
            before=before,
            after=after,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what later findings depend on."""
        return {
            "findings": [finding.model_dump() for finding in self.findings],
            "rows": list(self._rows),
            "returns": list(self._returns),
            "lowest": self._lowest_value_loss,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back."""
        self.findings = [Finding.model_validate(saved) for saved in state["findings"]]
        self._rows = deque(state["rows"], maxlen=_WINDOW)
        self._returns = list(state["returns"])
        self._lowest_value_loss = state["lowest"]
