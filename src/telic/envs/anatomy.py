"""Derive a robot's structure from its MuJoCo model and name its parts and columns.

The structure includes how the root moves, which bodies are feet and on which side, and how each
actuator acts on its joint. The tables at the top of the module list exceptions.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from telic.envs.spec import (
    Axis,
    Coordinate,
    JointKind,
    JointSpec,
    Leg,
    Limb,
    Motor,
    Quaternion,
    Robot,
    Root,
    Vector,
)
from telic.robots.structure import (
    BALL,
    FEET,
    FREE,
    HINGE,
    ILLEGAL,
    SLIDE,
    ancestors,
    annotated_bodies,
    driven_trees,
    geom_bounds,
    geoms_of,
    joints_of,
    moved_joints,
    solid_geoms,
    unused_name,
)

_UPRIGHT: dict[str, Quaternion] = {
    # Starts on its back, head towards -x and face towards +z: the resting pose is not upright.
    "HumanoidStandup": (math.sqrt(0.5), 0.0, -math.sqrt(0.5), 0.0)
}
_FEET_BY_NAME = {"HumanoidStandup": ("right_foot", "left_foot")}
_TARGETS = ("target", "goal")
_POINTERS = ("fingertip", "tips_arm", "end_effector", "hand", "gripper")

_APART_M, _APART = 1e-3, 0.01
"""Lateral offset beyond which a foot is on a side, in m, and relative for tiny robots."""
_KINDS: dict[int, JointKind] = {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "hinge"}
_POSITIONS: dict[JointKind, tuple[str, ...]] = {
    "free": ("_x", "_y", "_z", "_qw", "_qx", "_qy", "_qz"),
    "ball": ("_qw", "_qx", "_qy", "_qz"),
    "slide": ("",),
    "hinge": ("",),
}
_VELOCITIES: dict[JointKind, tuple[str, ...]] = {
    "free": ("_vx", "_vy", "_vz", "_wx", "_wy", "_wz"),
    "ball": ("_wx", "_wy", "_wz"),
    "slide": ("_velocity",),
    "hinge": ("_velocity",),
}

_AXES: tuple[Axis, ...] = ("x", "y", "z")
_ACROSS = 0.7
"""Cosine to the left axis above which a joint swings the leg forward and back."""
_MIN_BENT = 0.5
"""Lower bound on a leg's standing length, relative to its stretched length."""
_ON_JOINT = int(mujoco.mjtTrn.mjTRN_JOINT)
_AFFINE = int(mujoco.mjtBias.mjBIAS_AFFINE)


def robot_of(
    model: mujoco.MjModel, rest_qpos: np.ndarray | None = None, name: str | None = None
) -> Robot:
    """Describe the robot in a model, whose resting pose is `qpos0` by default.

    Exceptions are looked up by `name`, which is an id without its version ("HumanoidStandup").
    """
    data = mujoco.MjData(model)
    if rest_qpos is not None:
        data.qpos[:] = rest_qpos
    mujoco.mj_forward(model, data)
    root, torso = _root(model)
    feet = _feet(model, data, root, torso, name)
    sides, side_names = _sides(model, data, feet)
    poles: list[int] = []  # the free hinges on a cart, from the bottom up
    if root.kind == "rail" and root.hinge is None:
        moved = moved_joints(model)
        hinges = [j for j in range(model.njnt) if model.jnt_type[j] == HINGE and j not in moved]
        poles = [j for j in hinges if model.body_rootid[model.jnt_bodyid[j]] == torso]
    members = [b for b in range(1, model.nbody) if torso is None or model.body_rootid[b] == torso]
    mass = float(model.body_mass[members].sum())
    bodies = {model.body(b).name: b for b in range(model.nbody)}
    target = next((bodies[name] for name in _TARGETS if name in bodies), None)
    pointer = next((bodies[name] for name in _POINTERS if name in bodies), torso)
    w, x, y, z = (1.0, 0.0, 0.0, 0.0) if torso is None else map(float, data.xquat[torso])
    motors = [_motor(model, i) for i in range(model.nu)]
    chains = [] if torso is None else _own_chains(model, torso, feet)
    return Robot(
        root=root,
        torso=torso,
        upright=_UPRIGHT.get(name or "", (w, -x, -y, -z) if torso is not None else (w, x, y, z)),
        rest_height=float(data.xpos[torso][2]) if torso is not None else None,
        rest_qpos=tuple(map(float, data.qpos)),
        feet=feet,
        sides=sides,
        side_names=side_names,
        limbs=_limbs(model, torso),
        motors=None if None in motors else tuple(motor for motor in motors if motor is not None),
        poles=tuple(_coordinate(model, j) for j in poles),
        tip=_tip(model, data, poles),
        target=target if pointer is not None else None,
        pointer=pointer if target is not None else None,
        body_root=tuple(map(int, model.body_rootid)),
        body_mass=tuple(map(float, model.body_mass)),
        body_center=tuple(map(_vector, model.body_ipos)),
        mass=mass,
        contact_threshold=0.01 * mass * (float(np.linalg.norm(model.opt.gravity)) or 9.81),
        legs=tuple(_leg(model, data, torso, chain) for chain in chains if torso is not None),
    )


def _vector(values: np.ndarray) -> Vector:
    return (float(values[0]), float(values[1]), float(values[2]))


def _root(model: mujoco.MjModel) -> tuple[Root, int | None]:
    """Return the moving base: the first movable child of the world whose tree has motors."""
    driven = driven_trees(model)
    for body in range(1, model.nbody):
        if model.body_parentid[body] == 0 and (body in driven or not driven):
            root = _root_of_body(model, body)
            if root is not None:
                return root, body
    return Root("fixed"), None


def _root_of_body(model: mujoco.MjModel, body: int) -> Root | None:
    joints = joints_of(model, body)
    if len(joints) == 1 and model.jnt_type[first := joints[0]] == FREE:
        q, v = int(model.jnt_qposadr[first]), int(model.jnt_dofadr[first])
        slides = tuple(Coordinate(axis, q + i, v + i) for i, axis in enumerate(_AXES))
        return Root("free", slides, quaternion=q + 3, spin=v + 3)
    if not joints or any(np.abs(_axis(model, j)).max() < 1.0 - 1e-6 for j in joints):
        return None  # no joints, or one not aligned with a world axis
    kinds = [int(model.jnt_type[j]) for j in joints]
    slides = tuple(_coordinate(model, j) for j in joints if model.jnt_type[j] == SLIDE)
    # A slide after the hinge would rotate with it, and a second hinge, or one off the body's
    # origin, would move the body. The position could then not be read from single qpos columns.
    if not slides or kinds not in ([SLIDE] * len(slides), [SLIDE] * len(slides) + [HINGE]):
        return None
    hinge = None
    if kinds[-1] == HINGE:
        if model.jnt_pos[joints[-1]].any():
            return None
        hinge = _coordinate(model, joints[-1])
    return Root("planar" if len(slides) > 1 else "rail", slides, hinge)


def _axis(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """Return a joint's axis in the world frame, assuming that its body's parent is unrotated."""
    axis = np.zeros(3)
    mujoco.mju_rotVecQuat(axis, model.jnt_axis[joint], model.body_quat[model.jnt_bodyid[joint]])
    return axis


def _coordinate(model: mujoco.MjModel, joint: int) -> Coordinate:
    direction = _axis(model, joint)
    along = int(np.abs(direction).argmax())
    sign = float(np.sign(direction[along]))
    q = int(model.jnt_qposadr[joint])
    at_start = 0.0
    if model.jnt_type[joint] == SLIDE:
        at_start = float(model.body_pos[model.jnt_bodyid[joint]][along])
    offset = float(at_start - sign * model.qpos0[q])
    return Coordinate(_AXES[along], q, int(model.jnt_dofadr[joint]), sign, offset)


def _limbs(model: mujoco.MjModel, torso: int | None) -> tuple[Limb, ...]:
    names = joint_names(model)
    driven = driven_trees(model)
    limbs: list[Limb] = []
    for j in range(model.njnt):
        body = int(model.jnt_bodyid[j])
        loose = driven and int(model.body_rootid[body]) not in driven
        if model.jnt_type[j] not in (HINGE, SLIDE) or body == torso or loose:
            continue
        low, high = map(float, model.jnt_range[j])
        limits = (low, high) if model.jnt_limited[j] else None
        limbs.append(Limb(names[j], int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j]), limits))
    return tuple(limbs)


def _motor(model: mujoco.MjModel, i: int) -> Motor | None:
    joint = int(model.actuator_trnid[i, 0])
    plain = (
        model.actuator_trntype[i] == _ON_JOINT
        and model.jnt_type[joint] in (HINGE, SLIDE)
        and model.actuator_dyntype[i] == int(mujoco.mjtDyn.mjDYN_NONE)
        and model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_FIXED)
        and model.actuator_biastype[i] in (int(mujoco.mjtBias.mjBIAS_NONE), _AFFINE)
    )
    if not plain:
        return None
    affine = model.actuator_biastype[i] == _AFFINE
    control = tuple(map(float, model.actuator_ctrlrange[i]))
    force = tuple(map(float, model.actuator_forcerange[i]))
    return Motor(
        qpos=int(model.jnt_qposadr[joint]),
        dof=int(model.jnt_dofadr[joint]),
        gear=float(model.actuator_gear[i, 0]),
        gain=float(model.actuator_gainprm[i, 0]),
        bias=_vector(model.actuator_biasprm[i]) if affine else (0.0, 0.0, 0.0),
        control_range=(control[0], control[1]) if model.actuator_ctrllimited[i] else None,
        force_range=(force[0], force[1]) if model.actuator_forcelimited[i] else None,
    )


def _feet(
    model: mujoco.MjModel, data: mujoco.MjData, root: Root, torso: int | None, name: str | None
) -> tuple[int, ...]:
    """Return the lowest end bodies of the resting pose, within a fifth of the robot's height."""
    if name in _FEET_BY_NAME:
        return tuple(int(model.body(foot).id) for foot in _FEET_BY_NAME[name])
    if (named := annotated_bodies(model, FEET)) is not None:
        return named
    if torso is None or "z" not in root.moves:
        return ()
    own = np.flatnonzero(solid_geoms(model) & (model.body_rootid[model.geom_bodyid] == torso))
    heights = geom_bounds(model, data, own)[:, :, 2]
    lowest: dict[int, float] = {}
    for geom, low in zip(own, heights[:, 0].tolist(), strict=True):
        body = int(model.geom_bodyid[geom])
        lowest[body] = min(low, lowest.get(body, low))
    highest = max(heights[:, 1].tolist(), default=-math.inf)
    inner = {above for body in lowest for above in ancestors(model, body)}
    ends = {body: low for body, low in lowest.items() if body not in inner and body != torso}
    floor = min(ends.values(), default=0.0)
    return tuple(body for body, low in ends.items() if low <= floor + 0.2 * (highest - floor))


def _sides(
    model: mujoco.MjModel, data: mujoco.MjData, feet: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]] | None, tuple[str, str] | None]:
    """Split the feet into left and right by position or name, or else into back and front."""
    if len(feet) < 2:
        return None, None
    centers = data.xipos[list(feet)]
    everyone = range(len(feet))
    apart = min(_APART_M, _APART * float(np.ptp(centers, axis=0).max()))

    def split(values: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        above = tuple(k for k in everyone if values[k] > apart)
        below = tuple(k for k in everyone if values[k] < -apart)
        return (above, below) if above and below else None

    named_left = np.array([1.0 if "left" in model.body(b).name.lower() else -1.0 for b in feet])
    left_right = split(centers[:, 1]) or split(named_left)
    if left_right:
        return left_right, ("left", "right")
    back_front = split(centers[:, 0].mean() - centers[:, 0])
    return (back_front, ("back", "front")) if back_front else (None, None)


def _tip(model: mujoco.MjModel, data: mujoco.MjData, poles: list[int]) -> tuple[int, Vector] | None:
    """Return the tip of the last pole (a site or the upper end of a capsule)."""
    if not poles:
        return None
    body = int(model.jnt_bodyid[poles[-1]])
    sites = [s for s in range(model.nsite) if model.site_bodyid[s] == body]
    if sites:
        return body, _vector(model.site_pos[sites[-1]])
    geom = int(model.body_geomadr[body])
    if geom < 0:
        return None
    upwards = float(np.sign(data.geom_xmat[geom].reshape(3, 3)[2, 2]))
    end = np.zeros(3)
    half = np.array([0.0, 0.0, upwards * model.geom_size[geom, 1]])
    mujoco.mju_rotVecQuat(end, half, model.geom_quat[geom])
    return body, _vector(model.geom_pos[geom] + end)


# ---- legs
# Speeds scale with the square root of the leg length (Froude number), jumps linearly with it. The
# leg length is the hip height of the standing robot.


def illegal_bodies(
    model: mujoco.MjModel, torso: int | None, feet: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the bodies that must not touch the ground, by default all except the legs."""
    if (named := annotated_bodies(model, ILLEGAL)) is not None:
        return named
    if torso is None or not feet:
        return ()
    legs = {body for chain in _own_chains(model, torso, feet) for body in chain}
    solid = set(model.geom_bodyid[solid_geoms(model)].tolist())
    below = {b for b in range(model.nbody) if legs & set(_chain(model, b, torso))}
    own = {b for b in range(1, model.nbody) if model.body_rootid[b] == model.body_rootid[torso]}
    return tuple(sorted((own & solid) - below))


def _chain(model: mujoco.MjModel, foot: int, torso: int) -> list[int]:
    """Return the bodies from the torso (exclusive) down to a foot."""
    chain = [foot, *ancestors(model, foot)] if foot else []
    return chain[: chain.index(torso) if torso in chain else None][::-1]


def _own_chains(model: mujoco.MjModel, torso: int, feet: tuple[int, ...]) -> list[list[int]]:
    """Return the bodies of each leg from the hip down, except bodies that several legs share."""
    chains = [_chain(model, foot, torso) for foot in feet]
    return [[b for b in chain if sum(b in each for each in chains) == 1] for chain in chains]


def _leg(model: mujoco.MjModel, data: mujoco.MjData, torso: int, chain: list[int]) -> Leg:
    """Describe the leg formed by a chain of bodies, from the hip down."""
    joints = [joint for body in chain for joint in joints_of(model, body)]
    center = data.xpos[torso]
    # Joints of one body coincide: a hip with three axes is a single point.
    points = [data.xanchor[joint] for joint in joints] or [data.xpos[chain[0]]]
    low, tip = _sole(model, data, chain[-1], points[-1])
    stretched = float(np.linalg.norm(np.diff([*points, tip], axis=0), axis=-1).sum())
    own = data.xmat[chain[-1]].reshape(3, 3).T @ (tip - data.xpos[chain[-1]])
    hip = points[0]
    height = float(np.clip(hip[2] - low, _MIN_BENT * stretched, stretched))
    armature = [float(model.dof_armature[model.jnt_dofadr[joint]]) for joint in joints]
    return Leg(
        drive_kg=sum(armature) / max(len(armature), 1) / height**2 if height > 0 else 0.0,
        place=(float(tip[0] - center[0]), float(tip[1] - center[1])),
        hip_m=float(hip[2] - center[2]),
        length_m=height,
        stretched_m=stretched,
        qpos=tuple(int(model.jnt_qposadr[joint]) for joint in joints),
        splay=tuple(
            int(model.jnt_qposadr[joint])
            for joint in joints
            if abs(float(data.xaxis[joint][1])) < _ACROSS
        ),
        tip=_vector(own),
    )


def _sole(
    model: mujoco.MjModel, data: mujoco.MjData, foot: int, joint: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the height of a foot's lowest point, and the point farthest from the foot's joint."""
    low, tip, away = float(data.xpos[foot][2]), data.xpos[foot], -1.0
    for geom in geoms_of(model, foot):
        axes = data.geom_xmat[geom].reshape(3, 3)
        middle = data.geom_xpos[geom] + axes @ model.geom_aabb[geom, :3]
        half = model.geom_aabb[geom, 3:]
        low = min(low, float(middle[2] - np.abs(axes[2]) @ half))
        ends = np.concatenate((middle + axes.T * half[:, None], middle - axes.T * half[:, None]))
        distances = np.linalg.norm(ends - joint, axis=-1)
        if distances.max() > away:
            tip, away = ends[int(distances.argmax())], float(distances.max())
    return low, tip


def robot_fields(model: mujoco.MjModel, robot: Robot) -> dict[str, Any]:
    """Return the `EnvSpec` fields that describe a robot."""
    names = body_names(model)
    return {
        "body_names": names,
        "joints": joints(model),
        "torso": None if robot.torso is None else names[robot.torso],
        "feet": tuple(names[foot] for foot in robot.feet),
        "robot": robot,
    }


# ---- names


def body_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for each body. Unnamed bodies are named after their parent ("aux_1.1")."""
    names: list[str] = []
    given = {model.body(body).name for body in range(model.nbody)}
    for body in range(model.nbody):
        parent = int(model.body_parentid[body])
        place = int((model.body_parentid[1 : body + 1] == parent).sum())
        names.append(model.body(body).name or unused_name(f"{names[parent]}.{place}", given))
    return tuple(names)


def joint_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for each joint. Unnamed joints are named after their body ("thigh.joint")."""
    bodies = body_names(model)
    taken = {model.joint(j).name for j in range(model.njnt)}
    return tuple(
        model.joint(j).name or unused_name(f"{bodies[model.jnt_bodyid[j]]}.joint", taken)
        for j in range(model.njnt)
    )


def joints(model: mujoco.MjModel) -> tuple[JointSpec, ...]:
    """Describe every joint of a model."""
    return tuple(
        JointSpec(
            name=name,
            kind=_KINDS[int(model.jnt_type[i])],
            qpos_address=int(model.jnt_qposadr[i]),
            dof_address=int(model.jnt_dofadr[i]),
            low=float(model.jnt_range[i, 0]) if model.jnt_limited[i] else None,
            high=float(model.jnt_range[i, 1]) if model.jnt_limited[i] else None,
        )
        for i, name in enumerate(joint_names(model))
    )


def position_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for each qpos column: the joint name, with a suffix if needed."""
    return tuple(joint.name + part for joint in joints(model) for part in _POSITIONS[joint.kind])


def velocity_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for each qvel column."""
    return tuple(joint.name + part for joint in joints(model) for part in _VELOCITIES[joint.kind])


def action_names(model: mujoco.MjModel) -> tuple[str, ...]:
    """Return a name for each actuator. Unnamed actuators get the joint's name or an index."""
    driven = joint_names(model)
    on_joint = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value
    return tuple(
        model.actuator(i).name
        or (driven[int(model.actuator_trnid[i, 0])] if on_joint[i] else f"actuator_{i}")
        for i in range(model.nu)
    )
