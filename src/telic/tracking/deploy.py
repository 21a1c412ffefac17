"""A tracker and a motion as a folder that runs in plain MuJoCo, with nothing of telic.

    deploy/tracker.onnx deploy.json clip.npz run.py scene.xml assets/ LICENCE.txt README.md

What is written is run and compared with what telic simulates from the same start.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from telic.core.tensors import integers, numbers
from telic.errors import TelicError
from telic.motions.library import MotionLibrary
from telic.robots.scene import ASSETS, write_licence, write_scene
from telic.storage.files import write_json, write_text
from telic.storage.reading import read_text
from telic.tracking.environment import open_motions
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.export import TrackerDeployment, TrackerExport, export_tracker
from telic.tracking.observations import local_points, point_turns
from telic.tracking.parts import substeps
from telic.tracking.task import TrackingTask
from telic.tracking.token_robot import write_token_robot
from telic.tracking.tracker import Tracker

_RUNNER = Path(__file__).with_name("run_tracker.py")
_ALIKE_STEPS, _ALIKE = 10, 1e-3
"""control steps, and rad or m, within which both simulations must agree: later contacts differ"""
_LONGEST_S = 300


def deploy_tracker(
    tracker: Tracker, library: MotionLibrary, clip: str, onnx: Path, folder: Path
) -> TrackerDeployment:
    """Write the folder, run it, and compare; raises TelicError where it acts otherwise.

    Args:
        tracker: what to deploy.
        library: where the motion is.
        clip: its name.
        onnx: the tracker's exported file.
        folder: to write; what is in it is replaced.
    """
    tracker = tracker.to("cpu")
    player = ClipPlayer(tracker.config, library, [library.place(clip)], threads=1)
    try:
        tape = player.play(tracker, [(0, 0)] * player.env.num_envs)
        task = player.task
        robot = task.parts.robot
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / ASSETS, ignore_errors=True)
        (folder / ASSETS).mkdir()
        write_scene(robot.file, robot.model, folder)
        write_licence(robot.file, folder)
        shutil.copyfile(onnx, folder / "tracker.onnx")
        write_json(folder / "deploy.json", _about(tracker, task))
        motion = _motion(task)
        arrays: dict[str, Any] = motion
        np.savez(folder / "clip.npz", **arrays)
        write_text(folder / "run.py", read_text(_RUNNER))
        write_text(folder / "README.md", _words(tracker, clip))
    finally:
        player.close()
    played = int(tape.played[:, 0].sum())
    here = tape.qpos[:played, 0].numpy()
    there = _run(folder)
    first = min(_ALIKE_STEPS, played)
    apart = float(np.abs(there[:first] - here[:first]).max())
    if not apart <= _ALIKE:
        raise TelicError(
            f"run.py of {folder} ends {apart:.2g} off what telic simulates after {first} steps.",
            hint="Please report this with the tracker's file.",
        )
    limbs = [limb.qpos for limb in robot.facts.limbs]

    def off(qpos: np.ndarray) -> float:
        return float(np.abs(qpos - motion["qpos"][1 : 1 + len(qpos)])[:, limbs].mean())

    return TrackerDeployment(
        folder=str(folder),
        clip=clip,
        steps=len(there),
        apart=apart,
        joint_rad=off(there),
        joint_rad_here=off(here),
    )


def export_with(tracker: Tracker, folder: Path, clip: str | None, *, tokens: bool) -> TrackerExport:
    """Export a tracker; with what follows a clip without telic, or with the robot of its tokens."""
    done = export_tracker(tracker, folder)
    if tokens:
        robot = write_token_robot(tracker, open_motions(tracker.config), folder / "tokens")
        done = done.model_copy(update={"robot": str(robot)})
    if clip is not None:
        whole, library = folder / "tracker.onnx", open_motions(tracker.config)
        deployed = deploy_tracker(tracker, library, clip, whole, folder / "deploy")
        done = done.model_copy(update={"deployment": deployed})
    return done


def _run(folder: Path) -> np.ndarray:
    """Run what was written, in a process of its own, and return the positions after each step."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "happened.npz"
        command = [sys.executable, str(folder / "run.py"), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S)
        if done.returncode:
            raise TelicError(f"run.py of {folder} fails: {done.stderr.strip()[-600:]}")
        with np.load(out) as happened:
            return np.asarray(happened["qpos"])


def _about(tracker: Tracker, task: TrackingTask) -> dict[str, Any]:
    """Return what run.py needs to know besides the motion."""
    config, columns, parts = tracker.config, tracker.columns, task.parts
    command, robot = config.command, parts.robot
    dt = config.robot.control_s

    def steps(frames: int, spacing_s: float) -> list[int]:
        return [number * max(1, round(spacing_s / dt)) for number in range(frames)]

    return {
        "schema_version": 1,
        "robot": robot.name,
        "step": tracker.facts.step,
        "control_s": dt,
        "physics_steps": substeps(config.robot, robot.model.opt.timestep),
        "root": robot.root,
        "qpos": [limb.qpos for limb in robot.facts.limbs],
        "dofs": [limb.dof for limb in robot.facts.limbs],
        "joints": list(robot.joint_names),
        "rest": robot.home.joint_pos.tolist(),
        "driven": integers(parts.action_joints),
        "reach": numbers(parts.action_size * config.robot.action_limit),
        "action_base": config.robot.action_base,
        "encoders": list(config.networks.encoders),
        "senses": list(columns.policy),
        "history": columns.history,
        "told": list(columns.told),
        "ahead": steps(command.frames, command.spacing_s),
        "human_ahead": steps(command.human_frames, command.human_spacing_s),
        "lower": integers(parts.lower),
        "fine": integers(parts.fine),
        "units": "metres, radians, seconds; quaternions w first; rows of clip.npz every control_s",
    }


def _motion(task: TrackingTask) -> dict[str, np.ndarray]:
    """Return the motion frame by frame, as the policy is told it."""
    table, parts = task.table, task.parts
    rows = torch.arange(int(table.frames[0]))
    pose, bodies, person = table.pose(rows), table.bodies(rows), table.person(rows)
    robot = parts.robot
    first = [part[:1] for part in pose]
    return {
        "root_pos": pose.root_pos.numpy(),
        "root_quat": pose.root_quat.numpy(),
        "joint_pos": pose.joint_pos.numpy(),
        "joint_vel": pose.joint_vel.numpy(),
        "points": local_points(bodies, parts).flatten(1).numpy(),
        "point_turns": point_turns(bodies, parts).flatten(1).numpy(),
        "person": person.points.flatten(1).numpy(),
        "person_quat": person.root_quat.numpy(),
        "qpos": robot.to_qpos(pose.root_pos, pose.root_quat, pose.joint_pos).numpy(),
        "start_qvel": robot.to_qvel(first[1], first[2], first[3], first[5])[0].numpy(),
    }


def _words(tracker: Tracker, clip: str) -> str:
    encoders = ", ".join(tracker.config.networks.encoders)
    return f"""# {tracker.config.robot.name} follows "{clip}"

`python run.py` plays it in plain MuJoCo (needs mujoco, numpy, onnxruntime); `--view` opens a
window, `--encoder NAME` says who tells what to follow ({encoders}), and `happened.npz` says what
happened.

`MotionFollower.act` of run.py returns the targets of the drives from the state of the robot and
the motion ahead; on a robot it is called every {tracker.config.robot.control_s:g} s. It was tried
in simulation only. `deploy.json` holds joints, drives, order of what is seen, and units.
"""
