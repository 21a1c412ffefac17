"""Simulate where it was asked for: on the processors or on a GPU."""

from __future__ import annotations

import mujoco
import torch

from telic.errors import ConfigError
from telic.sim.cpu import CpuSimulation
from telic.sim.simulation import Simulation


def simulate(
    model: mujoco.MjModel, num_sims: int, *, device: str = "cpu", num_threads: int | None = None
) -> Simulation:
    """Return N simulations of a model on a device: "cpu", "cuda" or "cuda:1"."""
    if device == "cpu":
        return CpuSimulation(model, num_sims, num_threads=num_threads)
    require_gpu(device)
    from telic.sim.gpu import GpuSimulation

    return GpuSimulation(model, num_sims, device=device)


def require_gpu(device: str) -> None:
    """Raise ConfigError, with the reason, if a device is not a GPU that can be used."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise ConfigError(f'device="{device}" is not known.', hint='Use "cpu" or "cuda".')
    reason = why_no_gpu()
    if reason is None and int(number or 0) >= torch.cuda.device_count():
        reason = f"this machine has {torch.cuda.device_count()} of them"
    if reason is not None:
        raise ConfigError(
            f'device="{device}" cannot be used: {reason}.',
            hint='Use device="cpu"; telic doctor says more.',
        )


def why_no_gpu() -> str | None:
    """Say why no GPU can be used; None if one can."""
    if torch.version.cuda is None:
        return "torch was installed without support for GPUs"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU with a working driver was found"
    return None
