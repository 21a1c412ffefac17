"""What training on a GPU needs before it starts: room in its memory, kernels, open devices."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from telic.errors import ResourceError
from telic.training.job import TrainJob
from telic.training.settings import PpoSettings

_FLOAT = 4
_KEPT_BATCHES = 4
"""copies of a batch that exist at once: collected, normalised, packed, shuffled"""
_ACTIVATIONS = 8
"""tensors as large as a hidden layer's output that an update holds at once"""
_SPARE = 0.9
"""share of the free memory to plan with; CUDA and other programs use some too"""
_CONTEXT_BYTES = 1 << 30


class Sizes(NamedTuple):
    """Widths that decide how much memory training takes."""

    members: int
    inputs: int
    """what the critic sees"""
    outputs: int
    terms: int


def memory_plan(settings: PpoSettings, sizes: Sizes) -> dict[str, int]:
    """Return the bytes that training takes at most beside the simulations, by what for."""
    rows = settings.batch_size * sizes.members
    row = 2 * sizes.inputs + sizes.outputs + sizes.terms + 8
    minibatch = settings.minibatch_size * sizes.members
    hidden = sum(settings.hidden) * 2
    return {
        "batches": _KEPT_BATCHES * rows * row * _FLOAT,
        "update": minibatch * hidden * _ACTIVATIONS * _FLOAT,
        "values": rows * hidden * 2 * _FLOAT,
        "libraries": _CONTEXT_BYTES,
    }


def require_memory(settings: PpoSettings, sizes: Sizes, free_bytes: int) -> None:
    """Raise ResourceError, with what to lower and to what, if training will not fit."""
    plan = memory_plan(settings, sizes)
    needed, usable = sum(plan.values()), int(_SPARE * free_bytes)
    if needed <= usable:
        return
    largest = max(plan, key=lambda name: plan[name])
    smaller = settings.num_envs
    while smaller > 1 and needed > usable:
        smaller //= 2
        fitting = settings.model_copy(
            update={
                "num_envs": smaller,
                "minibatch_size": max(1, settings.minibatch_size * smaller // settings.num_envs),
            }
        )
        needed = sum(memory_plan(fitting, sizes).values())
    gib = 2**30
    advice = (
        f"Lower num_envs from {settings.num_envs} to {smaller}, or train fewer members at once."
        if needed <= usable
        else "Use smaller networks, or train fewer members at once."
    )
    raise ResourceError(
        f"Training needs about {sum(plan.values()) / gib:.1f} GiB of GPU memory, most of it for "
        f"{largest}; {free_bytes / gib:.1f} GiB are free.",
        hint=advice,
    )


def device_files() -> list[Path]:
    """Return the files of the NVIDIA driver that a confined process may use."""
    return [path for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()]


def is_gpu(job: TrainJob) -> bool:
    """Say whether a job runs on a GPU."""
    return job.device != "cpu"
