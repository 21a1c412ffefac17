"""Good files of every format, made from one clip: what readers should give back is known."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from telic.core.tensors import from_numpy
from telic.motions.clip import MotionClip
from telic.motions.formats._robots import _breadth_first
from telic.motions.robot import motion_robot
from tests.motions.wrapped import NumpyArrayWrapper, wrapped_dump

SMPL_FRAMES = 12


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def own_npz(clip: MotionClip) -> bytes:
    return npz(
        root_pos=clip.root_pos,
        root_quat=clip.root_quat,
        joint_pos=clip.joint_pos,
        joint_names=np.array(clip.joint_names),
        fps=clip.fps,
    )


def _bodies(clip: MotionClip) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and orientations of all bodies, in the order of the model."""
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    pos, quat = motion_robot(clip.robot).kinematics.poses(*columns)
    return pos.numpy(), quat.numpy()


def mjlab_npz(clip: MotionClip, *, isaac: bool = False) -> bytes:
    """BeyondMimic's arrays: in the order of the model (mjlab), or breadth first (Isaac Lab)."""
    joints, bodies = _breadth_first(motion_robot(clip.robot))
    if not isaac:
        joints, bodies = list(range(len(joints))), list(range(len(bodies)))
    pos, quat = _bodies(clip)
    return npz(
        fps=np.array([clip.fps]),
        joint_pos=clip.joint_pos[:, joints],
        joint_vel=clip.velocities().joints[:, joints],
        body_pos_w=pos[:, bodies],
        body_quat_w=quat[:, bodies],
    )


def gmr_pickle(clip: MotionClip, protocol: int = 4) -> bytes:
    """GMR and TWIST2: local body positions by name, quaternions with w last."""
    rest = clip.replace(root_pos=0 * clip.root_pos, root_quat=0 * clip.root_quat + [1, 0, 0, 0])
    entry = {
        "fps": np.float64(clip.fps),
        "root_pos": clip.root_pos,
        "root_rot": clip.root_quat[:, [1, 2, 3, 0]],
        "dof_pos": clip.joint_pos,
        "local_body_pos": _bodies(rest)[0],
        "link_body_list": list(motion_robot(clip.robot).body_names),
    }
    return pickle.dumps(entry, protocol=protocol)


def named_npz(clip: MotionClip) -> bytes:
    columns = (clip.root_pos, clip.root_quat, clip.joint_pos)
    order = np.random.default_rng(0).permutation(len(clip.joint_names))
    joints = np.concatenate((*columns[:2], clip.joint_pos[:, order]), axis=1)
    names = np.array(clip.joint_names)[order]
    return npz(fps=clip.fps, joint_pos=joints, joint_names=names, body_names=np.array(["pelvis"]))


def amp_npz(clip: MotionClip) -> bytes:
    pos, quat = _bodies(clip)
    return npz(
        fps=clip.fps,
        dof_names=np.array(clip.joint_names),
        body_names=np.array(motion_robot(clip.robot).body_names),
        dof_positions=clip.joint_pos,
        body_positions=pos,
        body_rotations=quat,
    )


def _entry(clip: MotionClip) -> dict[str, Any]:
    return {
        "root_trans_offset": clip.root_pos,
        "dof": np.asfortranarray(clip.joint_pos),
        "root_rot": clip.root_quat[:, [1, 2, 3, 0]].astype(np.float64),
        "smpl_joints": np.zeros((clip.frames, 24, 3), dtype=np.float32),
        "fps": int(clip.fps),
    }


def pickled(clip: MotionClip, protocol: int = 4) -> bytes:
    return pickle.dumps({"one": _entry(clip), "two": _entry(clip)}, protocol=protocol)


def joblib_pickled(clip: MotionClip) -> bytes:
    assert NumpyArrayWrapper
    return wrapped_dump({"one": _entry(clip)})


def lafan_csv(clip: MotionClip) -> bytes:
    rows = np.concatenate((clip.root_pos, clip.root_quat[:, [1, 2, 3, 0]], clip.joint_pos), axis=1)
    return "\n".join(",".join(f"{x:.9g}" for x in row) for row in rows).encode()


def bones_csv(clip: MotionClip) -> bytes:
    """BONES-SEED: centimeters and degrees, rotations about fixed axes x, y, z."""
    head = ["Frame", *(f"root_{k}{axis}" for k in ("translate", "rotate") for axis in "XYZ")]
    head += [f"{name}_dof" for name in clip.joint_names]
    turns = Rotation.from_quat(clip.root_quat, scalar_first=True).as_euler("xyz", degrees=True)
    number = np.arange(clip.frames)[:, None]
    rows = np.concatenate((number, clip.root_pos * 100, turns, np.degrees(clip.joint_pos)), axis=1)
    lines = [",".join(head)] + [",".join(f"{x:.9g}" for x in row) for row in rows]
    return "\r\n".join(lines).encode()


def smpl_npz() -> bytes:
    """Adult standing upright, z up, walking along x."""
    pose = np.zeros((SMPL_FRAMES, 72), dtype=np.float32)
    quarter = 2 * math.pi / 3 / math.sqrt(3)
    pose[:, :3] = quarter  # y up and z ahead become z up and x ahead
    place = np.linspace((0, 0, 1), (1, 0, 1), SMPL_FRAMES)
    return npz(pose_aa=pose, transl=place, fps=30)


# joint, parent, the point where it is, the point at which its bone aims
_SKELETON = [
    ("Hips", "", "pelvis", ""),
    ("Spine", "Hips", "pelvis", "head"),
    ("Head", "Spine", "head", ""),
    *(
        row
        for side in ("left", "right")
        for s in (side.title(),)
        for row in (
            (f"{s[0]}HipJoint", "Hips", "pelvis", f"{side}_hip"),
            (f"{s}UpLeg", f"{s[0]}HipJoint", f"{side}_hip", f"{side}_knee"),
            (f"{s}Leg", f"{s}UpLeg", f"{side}_knee", f"{side}_ankle"),
            (f"{s}Foot", f"{s}Leg", f"{side}_ankle", f"{side}_toe"),
            (f"{s}ToeBase", f"{s}Foot", f"{side}_toe", ""),
            (f"{s}Shoulder", "Hips", "pelvis", f"{side}_shoulder"),
            (f"{s}Arm", f"{s}Shoulder", f"{side}_shoulder", f"{side}_elbow"),
            (f"{s}ForeArm", f"{s}Arm", f"{side}_elbow", f"{side}_hand"),
            (f"{s}Hand", f"{s}ForeArm", f"{side}_hand", ""),
        )
    ),
]
_THIGHS = (("UpLeg", "Leg"), ("Leg", "Shin"))
_SOMA = {f"{s}{a}": f"{s}{b}" for s in ("Left", "Right") for a, b in _THIGHS}
STYLES = ("cmu", "lafan", "soma")


def person_bvh(clip: MotionClip, style: str) -> bytes:
    """The person of a clip as CMU (T-pose, own unit), LAFAN1 (odd axes) or SOMA would write it."""
    unit, order = {"cmu": (0.056444, "ZYX"), "lafan": (0.01, "ZYX"), "soma": (0.01, "ZXY")}[style]
    assert clip.human is not None
    swap = [1, 2, 0]  # x ahead, z up becomes z ahead, y up
    points = {n: clip.human.points[:, i, swap] / unit for i, n in enumerate(clip.human.names)}
    to_file = Rotation.from_quat([0.5, 0.5, 0.5, 0.5]).inv()
    root = to_file * Rotation.from_quat(clip.human.root_quat, scalar_first=True) * to_file.inv()
    rng = np.random.default_rng(1)
    world: dict[str, Rotation] = {}
    offsets: dict[str, np.ndarray] = {}
    rows: dict[str, np.ndarray] = {}
    text = ""
    for name, parent, at, aim in _SKELETON:
        way = points[at] - (points[_row(parent)[2]] if parent else 0.0)
        odd = Rotation.random(random_state=rng) if style == "lafan" else Rotation.identity()
        if aim:
            direction = points[aim] - points[at]
            rest = direction[0] / np.linalg.norm(direction[0])
            turn = Rotation.concatenate(
                [Rotation.align_vectors([d / np.linalg.norm(d)], [rest])[0] for d in direction]
            )
        else:
            turn = world[parent] if parent else root
        world[name] = turn * odd
        above = world[parent] if parent else Rotation.identity(clip.frames)
        offsets[name] = above.inv().apply(way)[0] if parent else np.zeros(3)
        rows[name] = (above.inv() * world[name]).as_euler(order, degrees=True)
    names = [row[0] for row in _SKELETON]

    def written(name: str) -> str:
        label = _SOMA.get(name, name) if style == "soma" else name
        channels = [f"{axis}rotation" for axis in order]
        if name == "Hips":
            channels = ["Xposition", "Yposition", "Zposition", *channels]
        lines = [f"JOINT {label}", "{", "OFFSET " + " ".join(f"{x:.6f}" for x in offsets[name])]
        lines.append(f"CHANNELS {len(channels)} {' '.join(channels)}")
        columns.append(name)
        below = [row[0] for row in _SKELETON if row[1] == name]
        inner = "\n".join(written(each) for each in below) or "End Site\n{\nOFFSET 0 0 0\n}"
        return "\n".join([*lines, inner, "}"])

    columns: list[str] = []
    body = written("Hips")
    if style == "soma":
        zeros = "CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation"
        text = f"HIERARCHY\nROOT Root\n{{\nOFFSET 0 0 0\n{zeros}\n{body}\n}}\n"
    else:
        text = "HIERARCHY\n" + body.replace("JOINT", "ROOT", 1) + "\n"
    table = np.concatenate([points["pelvis"], *(rows[name] for name in columns)], axis=1)
    if style == "soma":
        table = np.concatenate([np.zeros((len(table), 6)), table], axis=1)
    if style != "lafan":  # a pose of its own before the motion, somewhere else
        first = np.zeros_like(table[:1])
        first[0, 6 if style == "soma" else 0] = 60.0
        table = np.concatenate([first, table])
    text += f"MOTION\nFrames: {len(table)}\nFrame Time: {1 / clip.fps:.7f}\n"
    assert len(names) == len(columns)
    return (text + "\n".join(" ".join(f"{x:.6f}" for x in row) for row in table)).encode()


def _row(name: str) -> tuple[str, str, str, str]:
    return next(row for row in _SKELETON if row[0] == name)


def good_files(clip: MotionClip) -> dict[str, bytes]:
    """Return a file of every kind by its name."""
    return {
        "own.npz": own_npz(clip),
        "mjlab.npz": mjlab_npz(clip),
        "beyondmimic.npz": mjlab_npz(clip, isaac=True),
        "gmr.pkl": gmr_pickle(clip),
        "twist2.pkl": gmr_pickle(clip, protocol=5),
        "named.npz": named_npz(clip),
        "amp.npz": amp_npz(clip),
        "clips.pkl": pickled(clip),
        "old.pkl": pickled(clip, protocol=2),
        "joblib.pkl": joblib_pickled(clip),
        "lafan.csv": lafan_csv(clip),
        "bones.csv": bones_csv(clip),
        "smpl.npz": smpl_npz(),
    }
