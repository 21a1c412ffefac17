"""Readers for robot motions: named arrays and joint tables, in the robot's joint order.

Formats differ in array names, quaternion order and joint order, and few name their columns. If a
file has body positions, the joint order is determined by forward kinematics, and files that do not
match any order are rejected.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

import numpy as np
from scipy.spatial.transform import Rotation

from telic.core.tensors import from_numpy
from telic.errors import BadFile, UnknownName
from telic.motions.clip import MotionClip, MotionOrigin
from telic.motions.formats._people import as_text, rotations, table_of
from telic.motions.formats._track import (
    Arrays,
    BodyPositions,
    ReadOptions,
    RobotTrack,
    cut_frames,
    frame_rate,
    required_rate,
)
from telic.motions.robot import MotionRobot

_SUFFIX = re.compile(r"(_joint|_dof|_actuator|_link)+$")
JOINT_ORDERS: dict[str, str | None] = {
    "model": "",
    "isaac": None,
    "23": "waist_(roll|pitch)|wrist_(pitch|yaw)",
    "23-locked-wrists": "wrist",
    "27-locked-waist": "waist_(roll|pitch)",
    "21": "waist_(roll|pitch)|wrist",
}
"""pattern of joints that each order of unnamed columns excludes, or None for breadth first"""
_FK_MEAN_M, _FK_BODY_M = 0.03, 0.08
"""largest accepted mean errors of body positions, over all bodies and of a single body"""
_FK_FRAMES = 64


# ---- layouts of named arrays


def read_joints(arrays: Arrays, _: ReadOptions) -> RobotTrack:
    """Read arrays of telic, GMR, TWIST2, ASAP, PBHC and SONIC: root, orientation and joints.

    `root_quat` has w first and `root_rot` w last. Body positions are in the root frame. The
    rotation vectors of `pose_aa` (angle times axis) identify unnamed joints.
    """
    root = arrays.numbers(arrays.first("root_pos", "root_trans_offset"), None, 3)
    count = len(root)
    joints = arrays.numbers(arrays.first("joint_pos", "dof_pos", "dof"), count, None)
    pose = arrays.numbers("pose_aa", count, None, 3) if "pose_aa" in arrays else None
    steps: tuple[str, ...] = ()
    if "root_quat" in arrays:
        quat = arrays.numbers("root_quat", count, 4)
    elif "root_rot" in arrays:
        quat, steps = _scalar_last(arrays.numbers("root_rot", count, 4), arrays.where)
    elif pose is not None and pose.shape[1]:
        quat = Rotation.from_rotvec(pose[:, 0]).as_quat(scalar_first=True)
    else:
        raise BadFile(f"{arrays.where} has neither root_rot nor pose_aa.")
    bodies = axes = None
    if "local_body_pos" in arrays:
        points = arrays.numbers("local_body_pos", count, None, 3)
        bodies = BodyPositions(points, arrays.words("link_body_list"), is_local=True)
    if pose is not None and pose.shape[1] > joints.shape[1]:
        turns = pose[:, 1 : 1 + joints.shape[1]]
        size = np.linalg.norm(turns, axis=-1).max(axis=0)
        axes = np.einsum("tjk,tj->jk", turns, joints)
        axes = axes / np.maximum(np.linalg.norm(axes, axis=-1, keepdims=True), 1e-9)
        axes[size < 1e-3] = 0.0  # the axis of a still joint is unknown
    names = arrays.words("joint_names")
    return RobotTrack(
        arrays.name, arrays.rate(), root, quat, joints, names, steps, bodies, axes=axes
    )


def read_bodies(arrays: Arrays, _: ReadOptions) -> RobotTrack:
    """Read arrays of BeyondMimic, mjlab and Isaac Lab's AMP: joints, and poses of all bodies.

    The root is given either by the first columns of joint_pos or by the first body.
    """
    joints = arrays.numbers(arrays.first("dof_positions", "joint_pos"), None, None)
    names = arrays.words(arrays.first("dof_names", "joint_names"))
    body_names, points, quats = arrays.words("body_names"), None, None
    places = arrays.first("body_positions", "body_pos_w")
    if places in arrays:
        points = arrays.numbers(places, len(joints), None, 3)
        turns = arrays.first("body_rotations", "body_quat_w")
        quats = arrays.numbers(turns, len(joints), points.shape[1], 4)
    if names is not None and joints.shape[1] == len(names) + 7:
        root, quat, joints = joints[:, :3], joints[:, 3:7], joints[:, 7:]
    elif points is not None and quats is not None and points.shape[1]:
        first = 1 if body_names and body_names[0] == "world" else 0
        root, quat = points[:, first], quats[:, first]
    else:
        raise BadFile(f"{arrays.where} has neither bodies nor root columns.")
    speed = None
    if "joint_vel" in arrays:
        speed = arrays.numbers("joint_vel", len(joints), None)[:, -joints.shape[1] :]
    bodies = None if points is None else BodyPositions(points, body_names)
    return RobotTrack(
        arrays.name, arrays.rate(), root, quat, joints, names, bodies=bodies, joint_vel=speed
    )


def _scalar_last(quat: np.ndarray, where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Convert quaternions from (x, y, z, w) to (w, x, y, z).

    Some programs store w first. Such quaternions, which would turn the robot upside down, are
    returned unchanged.
    """
    last = quat[:, [3, 0, 1, 2]]
    up = {
        key: float(np.median(rotations(each, where).apply([0.0, 0.0, 1.0])[:, 2]))
        for key, each in (("last", last), ("first", quat))
    }
    if up["last"] < 0.2 and up["first"] > 0.7:
        return quat, ("quaternions read with w first, because the robot is inverted with w last",)
    return last, ()


# ---- tables

_BONES_ROOT = tuple(f"root_{kind}{axis}" for kind in ("translate", "rotate") for axis in "XYZ")
_BONES_FPS = 120.0
_PLAIN_ROOT = (("x", "y", "z"), ("qx", "qy", "qz", "qw"))


def read_csv(content: bytes, where: str, name: str) -> RobotTrack:
    """Read a motion from CSV.

    Without a header, columns are x, y, z, quaternion x y z w and joints in rad (Unitree's LAFAN1).
    A header uses these names, or those of BONES-SEED (root_translateX … in cm and degrees).
    """
    lines = as_text(content, where).splitlines()
    rows = [(i, line) for i, line in enumerate(lines, start=1) if line.strip()]
    if len(rows) < 3:
        raise BadFile(f"{where} has {len(rows)} lines, but a motion needs at least two frames.")
    head = [cell.strip() for cell in rows[0][1].split(",")]
    if re.fullmatch(r"[-+0-9.eE]+|nan|[-+]?inf", head[0], re.IGNORECASE):
        table = table_of(rows, len(head), where, ",")
        if table.shape[1] <= 7:
            raise BadFile(f"{where} has {len(head)} columns, but root and joints need more than 7.")
        quat, steps = _scalar_last(table[:, 3:7], where)
        return RobotTrack(name, None, table[:, :3], quat, table[:, 7:], None, steps)
    if len(set(head)) != len(head):
        raise BadFile(f"{where}, line 1: a column name occurs twice.")
    table = table_of(rows[1:], len(head), where, ",")
    columns = dict(zip(head, table.T, strict=True))
    time = next((columns[key] for key in ("time", "timestamp", "t") if key in columns), None)
    fps = None
    if time is not None and np.median(np.diff(time)) > 0:
        fps = frame_rate(1.0 / float(np.median(np.diff(time))), f"{where}, the time column")
    if set(_BONES_ROOT) <= set(head):
        names = tuple(cell for cell in head if cell.endswith("_dof"))
        if not names:
            raise BadFile(f"{where}, line 1: no column ends in _dof.")
        root = np.stack([columns[each] for each in _BONES_ROOT[:3]], axis=1) / 100.0
        angles = np.stack([columns[each] for each in _BONES_ROOT[3:]], axis=1)
        quat = Rotation.from_euler("xyz", angles, degrees=True).as_quat(scalar_first=True)
        joints = np.radians(np.stack([columns[each] for each in names], axis=1))
        steps = ("converted from centimeters and degrees",)
        return RobotTrack(name, fps or _BONES_FPS, root, quat, joints, names, steps)
    lower = {cell.lower().removeprefix("root_").removeprefix("base_"): cell for cell in head}
    missing = [each for group in _PLAIN_ROOT for each in group if each not in lower]
    if missing:
        raise BadFile(
            f"{where}, line 1: column {missing[0]} is missing.",
            hint="Columns: x, y, z, qx, qy, qz, qw and joint names, or those of BONES-SEED.",
        )
    root, last = (np.stack([columns[lower[each]] for each in g], axis=1) for g in _PLAIN_ROOT)
    used = {lower[each] for group in _PLAIN_ROOT for each in group} | {"time", "timestamp", "t"}
    names = tuple(cell for cell in head if cell not in used and cell.lower() != "frame")
    joints = np.stack([columns[each] for each in names], axis=1) if names else table[:, :0]
    return RobotTrack(name, fps, root, last[:, [3, 0, 1, 2]], joints, names)


# ---- conversion to a robot


def robot_clip(
    track: RobotTrack,
    robot: MotionRobot,
    origin: MotionOrigin,
    options: ReadOptions = ReadOptions(),  # noqa: B008  # frozen
) -> MotionClip:
    """Convert a track to a clip of a robot, or raise BadFile if its joints do not match."""
    fps = required_rate(track.fps, options, track.name)
    _check_rate(track, fps)
    root = track.root_pos * (options.scale or 1.0)
    if options.up == "y":
        turn = Rotation.from_quat([0.5, 0.5, 0.5, 0.5])
        quat = (turn * rotations(track.root_quat, track.name)).as_quat(scalar_first=True)
        root = turn.apply(root)
    else:
        quat = track.root_quat
    joints, steps = _in_order(track, robot, options)
    part = cut_frames(len(root), fps, options, track.name)
    return MotionClip(
        name=track.name,
        robot=robot.name,
        fps=fps,
        root_pos=root[part],
        root_quat=quat[part],
        joint_pos=joints[part],
        joint_names=robot.joint_names,
        origin=origin.model_copy(update={"steps": (*origin.steps, *track.steps, *steps)}),
    )


def _check_rate(track: RobotTrack, fps: float) -> None:
    """Raise BadFile if the joint velocities of a file contradict its frame rate."""
    if track.joint_vel is None or track.joint_vel.shape != track.joint_pos.shape:
        return
    steps, speeds = (track.joint_pos[2:] - track.joint_pos[:-2]) / 2, track.joint_vel[1:-1]
    moved, both = float((steps * steps).sum()), float((speeds * steps).sum())
    if both < 0.7 * np.sqrt(moved * float((speeds * speeds).sum())) or moved < 1e-9:
        return  # velocities of other joints, or no motion
    rate = both / moved
    if not 0.75 < rate / fps < 1.33:
        raise BadFile(
            f"{track.name}: the joint velocities imply {rate:.1f} frames per second, but the "
            f"file declares {fps:g}.",
            hint=f"Pass --fps {round(rate)} if the velocities are correct.",
        )


def _in_order(
    track: RobotTrack, robot: MotionRobot, options: ReadOptions
) -> tuple[np.ndarray, list[str]]:
    """Return joints in the robot's order, which is verified, and a list of assumptions."""
    own = [_SUFFIX.sub("", name) for name in robot.joint_names]
    count = track.joint_pos.shape[1]
    if track.joint_names is not None:
        names = [_SUFFIX.sub("", name) for name in track.joint_names]
        if len(names) != count:
            raise BadFile(f"{track.name}: {len(names)} joint names for {count} columns.")
        unknown = [name for name in names if name not in own]
        missing = [name for name in own if name not in names]
        if unknown or len(missing) > 0.4 * len(own):
            raise BadFile(
                f"{track.name} is not a motion of {robot.name}: it has {(unknown or names)[0]}, "
                f"while {robot.name} has {(missing or own)[0]}.",
                hint="Pass the robot of the file with --robot, or retarget a human motion.",
            )
        orders = {"names": names}
    else:
        orders = {key: each for key, each in _orders(robot, own) if len(each) == count}
        if options.joints is not None:
            if options.joints not in JOINT_ORDERS:
                raise UnknownName("joint order", options.joints, list(JOINT_ORDERS))
            orders = {key: each for key, each in orders.items() if key == options.joints}
        if not orders:
            raise BadFile(
                f"{track.name} has {count} unnamed joints, but {robot.name} has {len(own)}"
                + (
                    f", and the order {options.joints} has a different number"
                    if options.joints
                    else "."
                ),
                hint="Pass the robot of the file with --robot, or add a header with joint names.",
            )
    columns: dict[str, np.ndarray] = {}
    for key, names in orders.items():
        joints = np.tile(robot.home.joint_pos.astype(float), (len(track.joint_pos), 1))
        joints[:, [own.index(name) for name in names]] = track.joint_pos
        fixed = [place for place, name in enumerate(own) if name not in names]
        joints[:, fixed] = 0.0
        columns[key] = joints
    fixed = [name for name in own if name not in next(iter(orders.values()))]
    chosen = _fitting(track, robot, columns, orders)
    steps = [f"joint order: {chosen}"] if len(orders) > 1 else []
    if fixed:
        steps.append(f"missing in the file, fixed at 0: {', '.join(fixed)}")
    return columns[chosen], steps


def _orders(robot: MotionRobot, own: list[str]) -> Iterator[tuple[str, list[str]]]:
    for key, pattern in JOINT_ORDERS.items():
        if pattern is None:
            yield key, [own[place] for place in _breadth_first(robot)[0]]
        else:
            yield key, [name for name in own if not pattern or not re.search(pattern, name)]


def _breadth_first(robot: MotionRobot) -> tuple[list[int], list[int]]:
    """Return the breadth-first order of joints and bodies, as in NVIDIA's simulators."""
    model, rows = robot.model, robot.kinematics.bodies
    waiting, order = deque([robot.root]), list[int]()
    while waiting:
        order.append(waiting.popleft())
        waiting.extend(b for b in rows if int(model.body_parentid[b]) == order[-1] != b)
    depth = {body: place for place, body in enumerate(order)}
    owners = [depth[int(model.jnt_bodyid[joint])] for joint in robot.joints]
    joints = sorted(range(len(owners)), key=lambda place: (owners[place], place))
    return joints, [rows.index(body) for body in order]


def _fitting(
    track: RobotTrack,
    robot: MotionRobot,
    columns: dict[str, np.ndarray],
    orders: dict[str, list[str]],
) -> str:
    """Return the joint order that matches the body positions or joint axes of the file."""
    if track.bodies is not None:
        errors = {key: _fk_error(track, robot, joints) for key, joints in columns.items()}
        known = {key: each for key, each in errors.items() if each is not None}
        if known:
            best = min(known, key=lambda key: float(known[key][0].mean()))
            error, names = known[best]
            by_body = error.mean(axis=0)
            worst = int(np.argmax(by_body))
            if error.mean() > _FK_MEAN_M or by_body[worst] > _FK_BODY_M:
                frame = int(np.argmax(error[:, worst])) * max(1, len(track.root_pos) // _FK_FRAMES)
                at = frame / track.fps if track.fps else frame
                raise BadFile(
                    f"{track.name}: the joints contradict the body positions of the file: "
                    f"{names[worst]} deviates by {error[:, worst].max():.3f} m at {at:.2f} "
                    f"{'s' if track.fps else 'frames'} (forward kinematics of {robot.name}).",
                    hint="The columns may be in a different order or belong to a different robot.",
                )
            return best
    if track.axes is not None and len(columns) > 1:
        model = robot.model
        own = {_SUFFIX.sub("", n): j for n, j in zip(robot.joint_names, robot.joints, strict=True)}
        agree: dict[str, float] = {}
        for key, names in orders.items():
            axes = np.array([model.jnt_axis[own[name]] for name in names])
            agree[key] = float(np.abs((axes * track.axes).sum(axis=-1)).sum())
        ranked = sorted(agree, key=lambda key: -agree[key])
        if agree[ranked[0]] > agree[ranked[1]] + 0.5:
            return ranked[0]
    if len(columns) == 1 or "model" in columns:
        return next(iter(columns))
    raise BadFile(
        f"{track.name} has {track.joint_pos.shape[1]} unnamed joints, so their order is ambiguous: "
        f"{' or '.join(columns)}.",
        hint=f"Specify one with --joints {next(iter(columns))}",
    )


def _fk_error(
    track: RobotTrack, robot: MotionRobot, joints: np.ndarray
) -> tuple[np.ndarray, list[str]] | None:
    """Return body position errors (frames, bodies) and names, or None if not comparable."""
    assert track.bodies is not None
    own = [_SUFFIX.sub("", name) for name in robot.body_names]
    part = slice(0, None, max(1, len(joints) // _FK_FRAMES))
    root, quat = track.root_pos[part], rotations(track.root_quat[part], track.name)
    if track.bodies.is_local:
        root, quat = np.zeros_like(root), Rotation.identity(len(root))
    turned = quat.as_quat(scalar_first=True)
    made = robot.kinematics.poses(
        *(from_numpy(each.astype(np.float32)) for each in (root, turned, joints[part]))
    )[0].numpy()
    points = track.bodies.points[part]
    if track.bodies.names is None:
        if points.shape[1] != len(own):
            return None
        orders = [list(range(len(own))), _breadth_first(robot)[1]]
        found = [np.linalg.norm(made[:, order] - points, axis=-1) for order in orders]
        best = min(range(2), key=lambda each: float(found[each].mean()))
        return found[best], [own[place] for place in orders[best]]
    names = [_SUFFIX.sub("", name) for name in track.bodies.names]
    shared = [name for name in own if name in names]
    if len(shared) < 3:
        return None
    theirs = points[:, [names.index(name) for name in shared]]
    ours = made[:, [own.index(name) for name in shared]]
    return np.linalg.norm(ours - theirs, axis=-1), shared
