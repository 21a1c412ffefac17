"""What training on a GPU needs before it starts: room in its memory, kernels, open devices.

As a program, `python -m telic.training.gpu HalfCheetah-v5`, it leaves the kernels in Warp's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.errors import ResourceError
from telic.storage.locks import taking_turns
from telic.training.job import PpoSettings, TrainJob

if TYPE_CHECKING:
    from telic.envs.vector import VecEnv

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


def compile_all(envs: Iterable[VecEnv]) -> None:
    """Compile all that environments on a GPU may need; who comes second finds it in the cache."""
    import warp

    warp.init()
    with taking_turns(Path(str(warp.config.kernel_cache_dir)) / "telic.lock"):
        for env in envs:
            env.compile()


@contextmanager
def compiling_ahead(env: str, env_args: dict[str, Any], device: str) -> Generator[None]:
    """Compile in another process while this one does something else; on a CPU do nothing.

    Nobody waits for it here: training that begins before it is done waits in `compile_all`.
    """
    if device == "cpu":
        yield
        return
    command = [sys.executable, "-m", __name__, env, json.dumps(env_args), device]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(env: str, env_args: str = "{}", device: str = "cuda") -> None:
    """Compile for an environment as it is for training; how many there are makes no difference."""
    from telic.envs import make

    compile_all([make(env, num_envs=16, device=device, **json.loads(env_args))])


if __name__ == "__main__":
    main(*sys.argv[1:])
