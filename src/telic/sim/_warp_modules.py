"""Compile Warp kernels of a simulation in parallel processes.

Warp compiles modules sequentially, each at the first launch of one of its kernels, which takes a
minute for a new robot. The modules needed by a call are found by a dry run without launches.
Processes that share a folder divide the modules between them; later processes find them in the
cache. (Threads do not help: eight took 26 s instead of 30 s.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_modules(call: Callable[[], object], shared: Path | None = None) -> int:
    """Compile and load the modules whose kernels a call launches, found by a dry run.

    Processes with the same folder divide the work. Return the number compiled by this process.
    """
    with _nothing_launched() as needed:
        call()
    own = 0
    for place, (module, device, block_dim) in enumerate(needed):
        if shared is None or _take(shared / f"module_{place}"):
            module.load(device, block_dim)
            own += 1
    return own


def _take(path: Path) -> bool:
    """Create a marker file; return whether it is new."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextmanager
def _nothing_launched() -> Generator[list[tuple[Any, Any, int | None]]]:
    """Replace module loading so that launches only record their modules without running."""
    import warp as _warp

    warp: Any = _warp
    needed: dict[tuple[int, int | None], tuple[Any, Any, int | None]] = {}
    load, suggest = warp.Module.load, warp.get_suggested_block_size

    def note(module: Any, device: Any, block_dim: int | None = None) -> None:
        needed[id(module), block_dim] = (module, device, block_dim)

    def suggested(*arguments: Any, **named: Any) -> Any:
        # The block size depends on the compiled kernel.
        warp.Module.load = load
        try:
            return suggest(*arguments, **named)
        finally:
            warp.Module.load = note

    def either(_condition: Any, on_true: Any = None, on_false: Any = None, **named: Any) -> None:
        for body in (on_true, on_false):
            if body is not None:
                body(**named)

    def once(_condition: Any, while_body: Any, **named: Any) -> None:
        either(None, while_body, **named)  # without kernels, the loop would not end

    instead = {"get_suggested_block_size": suggested, "capture_if": either, "capture_while": once}
    kept = {name: getattr(warp, name) for name in instead}
    found: list[tuple[Any, Any, int | None]] = []
    warp.Module.load = note
    for name, function in instead.items():
        setattr(warp, name, function)
    try:
        yield found
    finally:
        warp.Module.load = load
        for name, function in kept.items():
            setattr(warp, name, function)
        found.extend(needed.values())
