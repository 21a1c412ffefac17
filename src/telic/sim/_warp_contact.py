"""Patch of MuJoCo Warp 4.0.0: orientation of plane-capsule contact frames.

MuJoCo aligns the first friction direction with the capsule at any inclination. Warp 4.0.0 does so
only below 60 degrees and uses a fixed direction otherwise. Pyramidal friction depends on it: Ant,
whose legs are steep, got different forces from equal states (velocity errors of up to 1 per step;
with the patch only rounding errors).
"""

# No `from __future__ import annotations`: Warp evaluates the annotations.
import warp as wp
from mujoco_warp._src import collision_primitive, collision_primitive_core

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
    """Return the distances and positions of both end contacts, and their common frame."""
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
    """Apply the patch; existing kernels are not affected."""
    collision_primitive.plane_capsule = plane_capsule
