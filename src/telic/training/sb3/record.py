"""Record training with Stable-Baselines3 in the rows and events of our own trainer."""

from __future__ import annotations

import time
from typing import Any

from telic.core.events import TrainStart
from telic.training.health import Finding
from telic.training.recorder import _PROGRESS_EVERY_S, Recorder

_COLUMNS = {
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "explained_variance": "train/explained_variance",
    "learning_rate": "train/learning_rate",
}


class Sb3Recorder(Recorder):
    """Writes what Stable-Baselines3 logs under the names our trainer uses."""

    def start(self) -> None:
        """Tell that the member begins."""
        self.emit(
            TrainStart(
                run=self.run.name,
                members=tuple(member.name for member in self.job.members),
                step=0,
                total_steps=self.total_steps,
                device="cpu",
                resumed=False,
            )
        )

    def row(
        self,
        iteration: int,
        logged: dict[str, Any],
        std: float | None,
        ended: int,
        seconds: float,
        learning: float,
    ) -> None:
        """Write the row of one update; `logged` is what Stable-Baselines3's logger holds."""
        self.seconds = seconds
        self.step = iteration * self.job.settings.batch_size
        rate = self._rate(seconds)
        entropy = logged.get("train/entropy_loss")
        row = {
            "global_step": self.step,
            "iteration": iteration,
            **{name: _number(logged.get(key)) for name, key in _COLUMNS.items()},
            "entropy": None if entropy is None else -float(entropy),
            "policy_std": std,
            **self._episodes(0, ended),
            "sps": rate,
            "elapsed_time": seconds,
            "train_time": learning,
        }
        self._scalars[0].append(row)
        for board in self._boards:
            board.add_row(row)
        for finding in self._setup.health[0].watch(row, self.step / self.total_steps):
            self._tell(0, finding)
        if iteration == 1 or time.perf_counter() - self._last_progress > _PROGRESS_EVERY_S:
            self._progress(seconds, rate)

    def ended_badly(self, what: str) -> None:
        """Tell why the member stopped."""
        text = f"{what} became NaN or infinite; this member stopped."
        finding = Finding(name="not_finite", message=text, values={}, step=self.step)
        self._setup.health[0].findings.append(finding)
        self._tell(0, finding)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
