"""Logging of metrics to TensorBoard event files. Requires the extra `tensorboard`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from telic.errors import MissingExtra

_GROUPS = {
    "return": ("episodic_return", "eval_return"),
    "loss": ("policy_loss", "value_loss", "entropy", "loss"),
    "ppo": ("approx_kl", "clip_fraction", "explained_variance", "learning_rate", "policy_std"),
    "health": ("grad_norm", "kl_"),
    "episodes": ("episode",),
    "throughput": ("sps", "steps_per_second", "elapsed", "rollout_time", "train_time"),
}


def require_tensorboard() -> None:
    """Raise MissingExtra if the package is not installed."""
    if find_spec("tensorboard") is None:
        raise MissingExtra("tensorboard", "tensorboard", "Writing TensorBoard files")


def tag_of(name: str) -> str:
    """Return the TensorBoard tag "group/name" of a metric."""
    if name.startswith("reward_term_"):
        return f"reward_terms/{name.removeprefix('reward_term_')}"
    for group, starts in _GROUPS.items():
        if name.startswith(starts):
            return f"{group}/{name}"
    return f"general/{name}"


class TensorBoardLog:
    """Event file of one member. A resumed run writes a new file that repeats the earlier rows."""

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        require_tensorboard()
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        from torch.utils.tensorboard import SummaryWriter  # imports the package

        self._writer = SummaryWriter(str(folder))
        for row in rows:
            self.append(row)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row of metrics, skipping missing and non-finite values."""
        for name, value in row.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and math.isfinite(value):
                self._writer.add_scalar(tag_of(name), value, row["global_step"])
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
