"""The environment variables a confined process may have. Keys and tokens are not among them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ALLOWED = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LD_LIBRARY_PATH",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTHONPATH",
        "TMPDIR",
        "TZ",
        "USER",
        "WARP_CACHE_PATH",
    }
)


def clean_environment(
    folder: Path, *, python_path: tuple[Path, ...] = (), base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment to start a worker with.

    Args:
        folder: where temporary files may go.
        python_path: folders to import from, besides the interpreter's own.
        base: the environment to take allowed variables from, by default that of this process.
    """
    base = os.environ if base is None else base
    kept = {name: value for name, value in base.items() if name in ALLOWED}
    return {
        **kept,
        # numpy's linear algebra starts threads at import, before the process is confined.
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(map(str, python_path)),
        "TMPDIR": str(folder),
        # Libraries that ask who is running read the list of users unless this says it.
        "USER": "telic",
    }


def scrub_environment() -> list[str]:
    """Remove every variable that is not allowed from this process; return the removed names.

    What the process was started with stays readable in /proc/self/environ, so a worker must be
    started with `clean_environment` as well.
    """
    removed = sorted(set(os.environ) - ALLOWED)
    for name in removed:
        del os.environ[name]  # also in the C library's environment
    return removed
