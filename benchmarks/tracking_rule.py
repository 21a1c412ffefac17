"""Common parts of both sides of `tracking.py`: the clip, the success rule and the results file.

This module does not require telic or mjlab, because each side runs without the other.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch

BEGAN = time.perf_counter()
RESULTS = Path(os.environ.get("TELIC_BENCH_OUT", Path(__file__).parent / "results"))
LIBRARY, CLIP = RESULTS / "tracking-motions", RESULTS / "tracking-clip.npz"
ENOUGH = 0.99
HEIGHT_M, TURN_RAD, PLACE_M = 0.25, 1.0, 0.5
ENDS = [f"{side}_{part}_link" for part in ("ankle_roll", "wrist_yaw") for side in ("left", "right")]


class Teller:
    """Print results and append them to the file."""

    def __init__(self, asked: argparse.Namespace) -> None:
        who = "mjlab" if asked.part.startswith("peer") else "telic"
        self.about = {"who": who, "part": asked.part.removeprefix("peer-")}
        cuda = asked.device.startswith("cuda") and torch.cuda.is_available()
        self.about["device"] = torch.cuda.get_device_name() if cuda else "cpu"
        self.about["disturbed"] = asked.disturbed
        self.cuda = cuda

    def say(self, **row: Any) -> None:
        """Add a result."""
        if self.cuda:
            row["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
        line = json.dumps({**self.about, **row, "wall_s": time.perf_counter() - BEGAN})
        print(line, flush=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / "tracking.jsonl").open("a") as out:
            out.write(line + "\n")


class Judge:
    """Determine which episodes failed according to the rule in `tracking.py`."""

    def __init__(self, frames: torch.Tensor, ends: list[int], device: Any) -> None:
        """`frames` (N,) is the number of steps in each episode."""
        self.left, self.ends = frames.to(device), ends
        self.failed = torch.zeros_like(self.left, dtype=torch.bool)
        self.reasons: dict[str, torch.Tensor] = {}
        self.off_m = torch.zeros(len(frames), device=device)
        self.played = torch.zeros_like(self.off_m)

    def see(self, robot: torch.Tensor, target: torch.Tensor, turned: torch.Tensor) -> None:
        """Process a step, with bodies (N, B, 3), of which the pelvis is the first."""
        live = (self.left > 0) & ~self.failed
        high = (robot - target)[..., 2].abs()
        apart = (robot - target).norm(dim=-1).mean(-1)
        # The error of the motion itself: bodies as seen from the pelvis.
        local = (robot - robot[:, :1] - target + target[:, :1]).norm(dim=-1).mean(-1)
        wrong = {
            "pelvis height": high[:, 0] > HEIGHT_M,
            "ankle or wrist height": high[:, self.ends].amax(1) > HEIGHT_M,
            "turned": turned > TURN_RAD,
            "elsewhere": apart > PLACE_M,
        }
        bad = torch.stack(list(wrong.values())).any(0)
        for reason, who in wrong.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + (live & who).sum()
        self.off_m += torch.where(live & ~bad, local, 0.0)
        self.played += (live & ~bad).float()
        self.failed |= live & bad
        self.left -= 1

    def row(self) -> dict[str, Any]:
        """Return the success rate, the mean body error before failures, and the failure reasons."""
        off = (self.off_m.sum() / self.played.sum().clamp_min(1.0)).item()
        return {
            "success": 1.0 - self.failed.float().mean().item(),
            "mpjpe_l_mm": 1_000.0 * off,
            "failed": {reason: int(count) for reason, count in self.reasons.items()},
            "failed_after_steps": self.played[self.failed].median().item()
            if self.failed.any()
            else None,
        }


def spread_starts(frames: int, count: int) -> torch.Tensor:
    """Return the frames at which fresh episodes start."""
    return torch.linspace(0, frames // 2, count).long()
