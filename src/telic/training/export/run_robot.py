"""Run this policy in plain MuJoCo. On a robot, call `Controller.act` at the rate in deploy.json."""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # files in this folder must not shadow imported modules

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
_Values = dict[str, Any]


class Controller:
    """Policy controller that maps sensor values to actuator targets."""

    def __init__(self, deploy: _Values) -> None:
        self.policy: Any = onnxruntime.InferenceSession(str(HERE / "policy.onnx"))
        self.blocks = [block["name"] for block in deploy["observation"]]
        self.joints = {name: np.array(values) for name, values in deploy["joints"].items()}
        self.asked, self.steps = np.zeros(len(self.joints["rest"])), 0
        self.turn = 2 * np.pi * (deploy["phase_hz"] or 0) * deploy["control_step_s"]
        self.past = np.zeros((deploy["history"] - 1, deploy["columns"]))

    def act(self, sensors: _Values) -> _Values:
        """Return the observation and the target of every actuator."""
        own, angle = self.joints, self.turn * self.steps
        seen = {**sensors, "position": sensors["position"] - own["rest"], "action": self.asked}
        now = np.concatenate([seen[name] for name in self.blocks])
        phase = [np.sin(angle), np.cos(angle)] if self.turn else []
        obs = np.concatenate([now, *self.past, phase])
        action = self.policy.run(["action"], {"obs": obs[None].astype("f4")})[0][0].astype(float)
        self.past, self.steps = np.vstack([now, self.past])[: len(self.past)], self.steps + 1
        self.asked = (action - own["action_middle"]) / own["action_half"]
        return {"obs": obs, "ctrl": action.clip(own["target_low"], own["target_high"])}


def episode(deploy: _Values, model: Any, data: Any, start: Any, window: Any) -> _Values:
    """Simulate one episode and return the recorded values of every control step."""
    controller, rows, body = Controller(deploy), list[_Values](), np.zeros((3, 3))
    angles, rates = controller.joints["qpos"], controller.joints["qvel"]
    mujoco.mj_resetData(model, data)
    data.qpos[:], data.qvel[:], commands = start
    mujoco.mj_forward(model, data)
    for command in commands:
        mujoco.mju_quat2Mat(body.reshape(9), data.qpos[3:7])  # rows: world axes in the body frame
        sensors = {"gyro": data.qvel[3:6], "gravity": -body[2], "velocity": data.qvel[:3] @ body}
        sensors |= {"position": data.qpos[angles], "rate": data.qvel[rates], "command": command}
        done = controller.act(sensors)
        data.ctrl[:] = done["ctrl"]
        mujoco.mj_step(model, data, deploy["physics_steps"])
        after = {"qpos": data.qpos.copy(), "qvel": data.qvel.copy(), "time": data.time}
        rows.append({**done, **after, "command": command})
        if window:
            window.sync()
            time.sleep(deploy["control_step_s"])
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", default=HERE / "starts.npz", help="qpos, qvel, command")
    parser.add_argument("--command", type=float, nargs=3, help="forward, left, yaw (m/s, rad/s)")
    parser.add_argument("--out", default="happened.npz", help="output file with all steps")
    parser.add_argument("--view", action="store_true", help="open MuJoCo's viewer")
    options, about = parser.parse_args(), json.loads((HERE / "deploy.json").read_text())
    robot: Any = mujoco.MjModel.from_xml_path(str(HERE / "scene.xml"))
    state, starts = mujoco.MjData(robot), dict(np.load(options.starts))
    starts["command"][:] = options.command or starts["command"]
    view: Any = options.view and import_module("mujoco.viewer").launch_passive(robot, state)
    each = zip(*(starts[name] for name in ("qpos", "qvel", "command")), strict=True)
    played = [episode(about, robot, state, start, view) for start in each]
    taped: Any = {name: np.stack([rows[name] for rows in played]) for name in played[0]}
    np.savez(options.out, **taped)
    print(f"{len(played)} episodes; {taped['time'].max():.3g} s, {taped['qpos'][:, -1, 2]} m high")
