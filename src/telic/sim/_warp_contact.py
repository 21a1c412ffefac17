"""A correction of MuJoCo Warp 4.0.0: how contact frames of capsules on planes are turned.

MuJoCo lays the first friction direction along the capsule, however steep it stands. Warp 4.0.0 does
so only for capsules that stand less than 60 degrees steep and else takes a fixed direction.
Pyramidal friction depends on it: Ant, whose legs stand steep, got other forces from equal states
(velocities off by up to 1 per step; with the correction by rounding only).
"""

# Without the future import: Warp reads the annotations.
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
    """Return distances and positions of the contacts at both ends, and their common frame."""
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
    """Put the correction in force; kernels that exist already are not affected."""
    collision_primitive.plane_capsule = plane_capsule
