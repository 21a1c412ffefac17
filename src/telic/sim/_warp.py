"""Compile Warp kernels in parallel processes, and correct a contact frame of MuJoCo Warp.

Warp compiles modules one after another, each at the first launch of one of its kernels, which takes
a minute for a new robot. The modules that a call needs are found by a dry run without launches.
Processes that share a folder divide the modules among them, and later processes find them in the
cache. Threads do not help: eight took 26 s instead of 30 s.
"""

# No `from __future__ import annotations`: Warp evaluates the annotations.
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import warp as wp
from mujoco_warp._src import collision_primitive, collision_primitive_core


def load_modules(call: Callable[[], object], shared: Path | None = None) -> int:
    """Compile and load the modules whose kernels a call launches. A dry run finds the modules.

    Processes with the same folder divide the work. Returns the number of modules compiled here.
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
    """Create a marker file and return whether it is new."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextmanager
def _nothing_launched() -> Generator[list[tuple[Any, Any, int | None]]]:
    """Replace module loading so that launches only record their modules and do not run."""
    warp: Any = wp
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


# ---- contact frames of planes and capsules
# MuJoCo aligns the first friction direction with the capsule at any inclination. Warp 4.0.0 does so
# only below 60 degrees and uses a fixed direction otherwise. Pyramidal friction depends on it: Ant,
# whose legs are steep, got different forces from equal states (velocity errors of up to 1 per step;
# with the patch only rounding errors).

_pair = collision_primitive_core.mat23f
_plane_sphere = collision_primitive_core.plane_sphere


@wp.func
def plane_capsule(  # noqa: ANN202 - Warp infers what it returns
    plane_normal: wp.vec3,
    plane_pos: wp.vec3,
    capsule_pos: wp.vec3,
    capsule_axis: wp.vec3,
    capsule_radius: float,
    capsule_half_length: float,
):
    """Return the distances and positions of the contacts at both ends, and their common frame."""
    along = capsule_axis - plane_normal * wp.dot(plane_normal, capsule_axis)
    size = wp.length(along)
    if size > 1.0e-9:  # noqa: SIM108 - Warp compiles statements
        along = along / size
    else:
        along = wp.vec3(1.0, 0.0, 0.0)
    across = wp.cross(plane_normal, along)
    # pyrefly: ignore[bad-argument-type]
    frame = wp.matrix_from_rows(plane_normal, along, across)
    end = capsule_axis * capsule_half_length
    dist1, pos1 = _plane_sphere(plane_normal, plane_pos, capsule_pos + end, capsule_radius)
    dist2, pos2 = _plane_sphere(plane_normal, plane_pos, capsule_pos - end, capsule_radius)
    positions = _pair(pos1[0], pos1[1], pos1[2], pos2[0], pos2[1], pos2[2])
    return wp.vec2(dist1, dist2), positions, frame


def correct() -> None:
    """Apply the correction. Existing kernels are not affected."""
    collision_primitive.plane_capsule = plane_capsule
