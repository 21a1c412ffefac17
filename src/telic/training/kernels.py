"""Compile what a GPU needs for an environment: once for everybody, and ahead of need.

As a program, `python -m telic.training.kernels HalfCheetah-v5`, it leaves them in Warp's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telic.envs.vector import VecEnv
from telic.storage.locks import taking_turns


def compile_all(envs: Iterable[VecEnv]) -> None:
    """Compile all that environments on a GPU may need; who comes second finds it in the cache."""
    import warp

    warp.init()
    with taking_turns(Path(str(warp.config.kernel_cache_dir)) / "telic.lock"):
        for env in envs:
            env.compile()


@contextmanager
def compiling_ahead(env: str, env_args: dict[str, Any], device: str) -> Iterator[None]:
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
