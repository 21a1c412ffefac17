"""Good files of every format, made from one clip: what readers should give back is known."""

from __future__ import annotations

import io
import json
import math
import pickle
from typing import Any

import numpy as np

from telic.motions.clip import MotionClip
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


def mjlab_npz(clip: MotionClip) -> bytes:
    return npz(
        fps=np.array([clip.fps]),
        joint_pos=clip.joint_pos,
        joint_vel=clip.velocities().joints,
        body_pos_w=np.stack([clip.root_pos, clip.root_pos + 1], axis=1),
        body_quat_w=np.stack([clip.root_quat] * 2, axis=1),
    )


def named_npz(clip: MotionClip) -> bytes:
    columns = (clip.root_pos, clip.root_quat, clip.joint_pos)
    order = np.random.default_rng(0).permutation(len(clip.joint_names))
    joints = np.concatenate((*columns[:2], clip.joint_pos[:, order]), axis=1)
    names = np.array(clip.joint_names)[order]
    return npz(fps=clip.fps, joint_pos=joints, joint_names=names, body_names=np.array(["pelvis"]))


def amp_npz(clip: MotionClip) -> bytes:
    return npz(
        fps=clip.fps,
        dof_names=np.array(clip.joint_names),
        body_names=np.array(["pelvis", "other"]),
        dof_positions=clip.joint_pos,
        body_positions=np.stack([clip.root_pos, clip.root_pos], axis=1),
        body_rotations=np.stack([clip.root_quat, clip.root_quat], axis=1),
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
    """The root of the clip turns about y only."""
    head = [f"root_{kind}{axis}" for kind in ("translate", "rotate") for axis in "XYZ"]
    head += [f"{name}_dof" for name in clip.joint_names]
    pitch = np.degrees(2 * np.arctan2(clip.root_quat[:, 2], clip.root_quat[:, 0]))
    turns = np.stack([0 * pitch, pitch, 0 * pitch], axis=1)
    rows = np.concatenate((clip.root_pos * 100, turns, np.degrees(clip.joint_pos)), axis=1)
    lines = [",".join(head)] + [",".join(f"{x:.9g}" for x in row) for row in rows]
    return "\r\n".join(lines).encode()


def smpl_npz() -> bytes:
    """An adult who stands upright, z up, and walks along x."""
    pose = np.zeros((SMPL_FRAMES, 72), dtype=np.float32)
    quarter = 2 * math.pi / 3 / math.sqrt(3)
    pose[:, :3] = quarter  # y up and z ahead become z up and x ahead
    place = np.linspace((0, 0, 1), (1, 0, 1), SMPL_FRAMES)
    return npz(pose_aa=pose, transl=place, fps=30)


def deepmimic() -> bytes:
    frame = [0.03333, 0.0, 0.9, 0.0, 1, 0, 0, 0] + [1, 0, 0, 0] * 2
    leg, arm = [1, 0, 0, 0, -0.2, 1, 0, 0, 0], [1, 0, 0, 0, 0.3]
    frame += leg + arm + leg + arm
    frames = [[*frame[:1], 0.05 * i, *frame[2:]] for i in range(10)]
    return json.dumps({"Loop": "wrap", "Frames": frames}).encode()


_BVH = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
"""


def bvh() -> bytes:
    """A skeleton of 150 cm that turns by 10 degrees a frame about the vertical."""
    text = _BVH
    leg = (("UpLeg", "{x} -5 0"), ("Leg", "0 -40 0"), ("Foot", "0 -40 0"), ("ToeBase", "0 -4 12"))
    chains = [
        [(f"{side}{name}", offset.format(x=x)) for name, offset in leg]
        for side, x in (("Left", 9), ("Right", -9))
    ]
    chains += [
        [(f"{side}Arm", f"{x} 45 0"), (f"{side}ForeArm", f"{x} 0 0"), (f"{side}Hand", f"{x} 0 0")]
        for side, x in (("Left", 18), ("Right", -18))
    ]
    chains += [[("Neck", "0 50 0"), ("Head", "0 10 0")]]
    joints = 1
    for chain in chains:
        for name, offset in chain:
            text += f"JOINT {name}\n{{\nOFFSET {offset}\nCHANNELS 3 Zrotation Yrotation Xrotation\n"
            joints += 1
        text += "End Site\n{\nOFFSET 0 5 0\n}\n" + "}\n" * len(chain)
    text += "}\nMOTION\nFrames: 9\nFrame Time: 0.0083333\n"
    for frame in range(9):
        values = [0, 90, 5 * frame, 0, 10 * frame, 0] + [0] * 3 * (joints - 1)
        text += " ".join(str(value) for value in values) + "\n"
    return text.encode()


def good_files(clip: MotionClip) -> dict[str, bytes]:
    """Return a file of every kind by its name."""
    return {
        "own.npz": own_npz(clip),
        "mjlab.npz": mjlab_npz(clip),
        "named.npz": named_npz(clip),
        "amp.npz": amp_npz(clip),
        "clips.pkl": pickled(clip),
        "old.pkl": pickled(clip, protocol=2),
        "joblib.pkl": joblib_pickled(clip),
        "lafan.csv": lafan_csv(clip),
        "bones.csv": bones_csv(clip),
        "smpl.npz": smpl_npz(),
        "walk.json": deepmimic(),
        "turn.bvh": bvh(),
    }
