"""Track the motion in clip.npz in plain MuJoCo, with only mujoco, numpy and onnxruntime."""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # files in this folder must not shadow imports

import argparse
import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnxruntime

HERE = Path(__file__).resolve().parent
Values = dict[str, Any]


def inverse(quat: Any) -> Any:
    """Return the inverse of unit quaternions (..., 4), w first."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def multiply(a: Any, b: Any) -> Any:
    """Return the quaternion product of a and b."""
    aw, ax, ay, az = np.moveaxis(np.broadcast_to(a, np.shape(b)), -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        axis=-1,
    )


def rotate(quat: Any, vectors: Any) -> Any:
    """Rotate vectors (..., 3) by quaternions."""
    axis = quat[..., 1:]
    across = 2.0 * np.cross(axis, vectors)
    return vectors + quat[..., :1] * across + np.cross(axis, across)


def heading(quat: Any) -> Any:
    """Return the yaw component of a quaternion (4,)."""
    flat = quat * np.array([1.0, 0.0, 0.0, 1.0])
    return flat / np.linalg.norm(flat)


def turned(robot: Any, reference: Any) -> Any:
    """Return references (F, 4) relative to the robot as two columns of each rotation matrix."""
    w, x, y, z = np.moveaxis(multiply(inverse(robot), reference), -1, 0)
    first = (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * y + w * z))
    second = (1 - 2 * (x * x + z * z), 2 * (x * z - w * y), 2 * (y * z + w * x))
    return np.stack((*first, *second), axis=-1).ravel()


class MotionFollower:
    """Policy that maps the robot state and future reference frames to joint targets."""

    def __init__(self, about: Values, clip: Values, encoder: int) -> None:
        self.about, self.clip, self.encoder = about, clip, encoder
        self.policy: Any = onnxruntime.InferenceSession(str(HERE / "tracker.onnx"))
        self.action = np.zeros(len(about["reach"]))
        self.past: list[Values] = []

    def sense(self, state: Values) -> Values:
        """Return the proprioceptive observation terms by name."""
        back = inverse(state["quat"])
        return {
            "angular_velocity": rotate(back, state["spin"]),
            "linear_velocity": rotate(back, state["velocity"]),
            "gravity": rotate(back, np.array([0.0, 0.0, -1.0])),
            "joint_position": state["joint_pos"] - np.array(self.about["rest"]),
            "joint_velocity": state["joint_vel"],
            "last_action": self.action,
        }

    def commanded(self, state: Values, frame: int) -> Values:
        """Return the command observation terms by name."""
        clip, about = self.clip, self.about
        last = len(clip["root_pos"]) - 1
        ahead, human = (
            np.minimum(frame + np.array(about[name]), last) for name in ("ahead", "human_ahead")
        )
        joints = np.concatenate((clip["joint_pos"][ahead], clip["joint_vel"][ahead]), axis=-1)
        lower = [*about["lower"], *(i + len(about["rest"]) for i in about["lower"])]
        now = ahead[0]
        way = clip["root_pos"][ahead] - clip["root_pos"][now]
        facing = inverse(heading(clip["root_quat"][now]))
        apart = clip["root_pos"][now] - state["pos"]
        return {
            "future_joints": joints.ravel(),
            "future_turns": turned(state["quat"], clip["root_quat"][ahead]),
            "future_heights": clip["root_pos"][ahead, 2],
            "future_places": rotate(np.broadcast_to(facing, (len(way), 4)), way).ravel(),
            "height": clip["root_pos"][now, 2:],
            "anchor_turn": turned(state["quat"], clip["root_quat"][now][None]),
            "anchor_place": rotate(inverse(state["quat"]), apart),
            "lower_joints": joints[:, lower].ravel(),
            "points": clip["points"][now],
            "point_turns": clip["point_turns"][now],
            "human_points": clip["person"][human].ravel(),
            "human_turns": turned(state["quat"], clip["person_quat"][human]),
            "fine_joints": clip["joint_pos"][human][:, about["fine"]].ravel(),
        }

    def act(self, state: Values, frame: int) -> Any:
        """Return the actuator targets for the next control step."""
        about, history = self.about, self.about["history"]
        now = self.sense(state)
        self.past = [*(self.past or [now] * (history - 1)), now][-history:]
        senses = [each[name] for name in about["senses"] for each in self.past]
        commanded = self.commanded(state, frame)
        names, drives = about["told"], np.zeros(len(about["encoders"]))  # language: quoted
        drives[self.encoder] = 1.0
        row = np.concatenate(
            [*senses, drives, np.ones_like(drives), *(commanded[name] for name in names)]
        )
        self.action = self.policy.run(None, {"rows": row[None].astype("f4")})[0][0].astype(float)
        driven = about["driven"]
        base = np.array(about["rest"])[driven]
        if about["action_base"] == "reference":
            base = self.clip["joint_pos"][min(frame + 1, len(self.clip["joint_pos"]) - 1), driven]
        return base + self.action * np.array(about["reach"])


def measured(about: Values, model: Any, data: Any) -> Values:
    """Return the robot state: root pose and velocity in the world, and joints."""
    moving = np.zeros(6)
    frame = mujoco.mjtObj.mjOBJ_XBODY
    mujoco.mj_objectVelocity(model, data, frame, about["root"], moving, 0)
    return {
        "pos": data.xpos[about["root"]].copy(),
        "quat": data.xquat[about["root"]].copy(),
        "spin": moving[:3],
        "velocity": moving[3:],
        "joint_pos": data.qpos[about["qpos"]],
        "joint_vel": data.qvel[about["dofs"]],
    }


def follow(about: Values, clip: Values, encoder: int, view: bool) -> Values:
    """Play the motion to its end and return the positions and actions of each step."""
    model: Any = mujoco.MjModel.from_xml_path(str(HERE / "scene.xml"))
    data, tracker = mujoco.MjData(model), MotionFollower(about, clip, encoder)
    data.qpos[:], data.qvel[:] = clip["qpos"][0], clip["start_qvel"]
    window: Any = view and import_module("mujoco.viewer").launch_passive(model, data)
    rows: list[Values] = []
    for frame in range(len(clip["qpos"]) - 1):
        mujoco.mj_forward(model, data)
        data.ctrl[:] = tracker.act(measured(about, model, data), frame)
        mujoco.mj_step(model, data, about["physics_steps"])
        rows.append({"qpos": data.qpos.copy(), "action": tracker.action})
        if window:
            window.sync()
            time.sleep(about["control_s"])
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clip", default=HERE / "clip.npz", help="motion file")
    parser.add_argument("--encoder", help="encoder of the command (default: the first)")
    parser.add_argument("--out", default="happened.npz", help="output file with all steps")
    parser.add_argument("--view", action="store_true", help="open MuJoCo's viewer")
    asked, facts = parser.parse_args(), json.loads((HERE / "deploy.json").read_text())
    motion: Values = dict(np.load(asked.clip))
    driver = facts["encoders"].index(asked.encoder) if asked.encoder else 0
    happened = follow(facts, motion, driver, asked.view)
    np.savez(asked.out, **happened)
    apart: Any = np.abs(happened["qpos"] - motion["qpos"][1:])[:, facts["qpos"]].mean()
    print(f"{len(happened['qpos'])} steps; mean joint error {apart:.3f} rad")
