"""Run untrusted judges and rewards in sandboxed worker processes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from telic.envs.access import env_access
from telic.sandbox import host
from telic.storage.trajectories import Environment


def run_confined(
    entry: str,
    payload: dict[str, Any],
    folder: Path,
    environments: Iterable[Environment],
    readable: Iterable[Path] = (),
    **options: Any,
) -> dict[str, Any]:
    """Return the result of a module's `run` in a worker that may write only to `folder`.

    The worker may also read `readable` and the model files of the environments.
    """
    folder.mkdir(parents=True, exist_ok=True)
    access = [env_access(*each) for each in environments]
    return host.run_worker(
        entry,
        payload,
        writable=[folder.absolute()],
        readable=sorted({*readable, *(path for each in access for path in each.readable)}),
        searched=sorted({path for each in access for path in each.python_path}),
        **options,
    )
