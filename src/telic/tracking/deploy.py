"""Export the deployment files of a tracker and verify that they match the tracker.

deploy/tracker.onnx deploy.json clip.npz run.py scene.xml assets/ LICENSE.txt README.md
                    a tracker and a motion that run in plain MuJoCo, without telic
tokens/robot.xml    the tracker's robot, with tokens as actions: any session can use it
tokens/tokens.npz   its decoder as plain arrays (`telic.envs.tokens`)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from telic.core.tensors import integers, numbers
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.tokens import SENSES, DecoderFacts, write_decoder
from telic.errors import TelicError, UsageError
from telic.jobs.process import own_python
from telic.motions.library import MotionLibrary
from telic.motions.robot import MotionRobot
from telic.robots.scene import ASSETS, write_license, write_scene
from telic.sim.files import TOKENS
from telic.storage.files import write_json, write_text
from telic.storage.reading import read_text
from telic.tracking._observations import local_points, point_turns
from telic.tracking._parts import substeps
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.task import ClipChoice, TrackingTask, open_motions
from telic.tracking.tracker import Tracker, TrackerDeployment, TrackerExport, export_tracker

_RUNNER = Path(__file__).with_name("_run_tracker.py")
_ALIKE_STEPS, _ALIKE = 10, 1e-3
"""number of steps to compare, before contacts differ, and tolerance of positions in rad or m"""
_MAX_S = 300
_README = """# {} tracks "{}"

`python run.py` plays it in plain MuJoCo (needs mujoco, numpy, onnxruntime). Options: `--view` and
`--encoder NAME` ({}). `MotionFollower.act` returns joint targets from the state of the robot and
the motion ahead. It was tested in simulation only. `deploy.json` has joints, gains and units.
"""


def deploy_tracker(
    tracker: Tracker, library: MotionLibrary, clip: str, onnx: Path, folder: Path
) -> TrackerDeployment:
    """Write and run the deployment folder. Raises TelicError if run.py deviates from telic."""
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
        write_license(robot.file, folder)
        shutil.copyfile(onnx, folder / "tracker.onnx")
        write_json(folder / "deploy.json", _about(tracker, task))
        motion = _motion(task)
        arrays: dict[str, Any] = motion
        np.savez(folder / "clip.npz", **arrays)
        write_text(folder / "run.py", read_text(_RUNNER))
        readme = _README.format(tracker.config.robot.name, clip, ", ".join(player.encoders))
        write_text(folder / "README.md", readme)
    finally:
        player.close()
    played = int(tape.played[:, 0].sum())
    here = tape.qpos[:played, 0].numpy()
    there = _run(folder)
    first = min(_ALIKE_STEPS, played)
    apart = float(np.abs(there[:first] - here[:first]).max())
    if not apart <= _ALIKE:
        raise TelicError(
            f"run.py in {folder} differs by {apart:.2g} from telic after {first} steps.",
            hint="Please report this and attach the tracker file.",
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
    """Export a tracker, optionally with a deployment folder and a robot with token actions."""
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
    """Execute run.py in a subprocess and return the positions after each step."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "happened.npz"
        command = own_python(None, folder / "run.py", "--out", out)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAX_S)
        if done.returncode:
            raise TelicError(f"run.py in {folder} failed: {done.stderr.strip()[-600:]}")
        with np.load(out) as happened:
            return np.asarray(happened["qpos"])


def _about(tracker: Tracker, task: TrackingTask) -> dict[str, Any]:
    """Return the contents of deploy.json, the configuration of run.py."""
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
        "told": list(columns.commanded),  # language: quoted
        "ahead": steps(command.frames, command.spacing_s),
        "human_ahead": steps(command.human_frames, command.human_spacing_s),
        "lower": integers(parts.lower),
        "fine": integers(parts.fine),
        "units": "meters, radians, seconds; quaternions w first; rows of clip.npz every control_s",
    }


def _motion(task: TrackingTask) -> dict[str, np.ndarray]:
    """Return the arrays of clip.npz: reference frames in the format of the policy's inputs."""
    table, parts = task.table, task.parts
    rows = torch.arange(int(table.frames[0]))
    pose, bodies, person = table.pose(rows), table.bodies(rows), table.person(rows)
    robot = parts.robot
    first = type(pose)(*(part[:1] for part in pose))
    moving = first.root_lin_vel, first.root_ang_vel, first.joint_vel
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
        "start_qvel": robot.to_qvel(first.root_quat, *moving)[0].numpy(),
    }


# ---- token robot

_FILE, _MODEL = "tokens.npz", "robot.xml"
_SPREADS = 2.0
"""range of an action around the mean token, in standard deviations"""
_MIN_LEVELS = 2.0
_CLIPS = 16
_TOKEN_STEPS, _TOKENS_ALIKE = 5, 1e-4


def write_token_robot(tracker: Tracker, library: MotionLibrary, folder: Path) -> Path:
    """Write and verify a robot model with token actions and its decoder. Returns the model file.

    Raises TelicError if the decoder deviates from the tracker, and UsageError for unsupported ones.
    """
    tracker = tracker.to("cpu")
    config, columns = tracker.config, tracker.columns
    if config.robot.action_base != "default":
        raise UsageError(
            "A tracker with reference offsets as actions cannot be exported with token actions.",
            hint="Train one with --set robot.action_base=default.",
        )
    unknown = [name for name in columns.policy if name not in SENSES]
    if unknown:
        raise UsageError(f"The tracker observes {unknown[0]}, but environments do not provide it.")
    folder.mkdir(parents=True, exist_ok=True)
    clips = range(min(_CLIPS, len(library.clips)))
    player = ClipPlayer(config, library, list(clips), threads=1)
    try:
        task = player.task
        write_decoder(folder / _FILE, *_token_decoder(tracker, task, _used(tracker, player)))
        _write_model(task.parts.robot, folder / _MODEL)
        _require_alike(tracker, player, folder / _MODEL)
    finally:
        player.close()
    return folder / _MODEL


def _used(tracker: Tracker, player: ClipPlayer) -> np.ndarray:
    """Return tokens (n, width) of the first encoder, sampled while the clips are played."""
    first = player.encoders[0]
    pairs = [(clip, 0) for clip in range(len(player.clips))]
    size = player.env.num_envs
    found: list[torch.Tensor] = []
    for at in range(0, len(pairs), size):
        part = pairs[at : at + size]
        tape = player.play(tracker, part + part[-1:] * (size - len(part)))
        found.append(tracker.networks.quantizer.values(tape.codes[first]))
    return torch.cat(found).numpy()


def _token_decoder(
    tracker: Tracker, task: TrackingTask, used: np.ndarray
) -> tuple[DecoderFacts, dict[str, np.ndarray]]:
    config, columns, parts = tracker.config, tracker.columns, task.parts
    limbs, rest = parts.robot.facts.limbs, parts.robot.home.joint_pos
    networks, actor = tracker.networks, tracker.actor
    layers = networks.layers(actor.views, "control")
    senses = tracker.shape.columns("senses")
    step = _MIN_LEVELS / (networks.quantizer.levels // 2)
    half = np.maximum(_SPREADS * used.std(0), step)
    facts = DecoderFacts(
        source=f"{tracker.facts.member}, step {tracker.facts.step}",
        control_s=config.robot.control_s,
        levels=networks.quantizer.levels,
        senses=tuple(columns.policy),
        history=columns.history,
        qpos=tuple(limb.qpos for limb in limbs),
        dofs=tuple(limb.dof for limb in limbs),
        layers=len(layers),
    )
    driven = parts.action_joints.numpy()
    values = {
        "low": np.clip(used.mean(0) - half, -1.0, 1.0),
        "high": np.clip(used.mean(0) + half, -1.0, 1.0),
        "rest": rest,
        "base": rest[driven],
        "reach": np.array(numbers(parts.action_size * config.robot.action_limit)),
        "shift": actor.scaling.shift[0, 0, senses].numpy(),
        "scale": actor.scaling.scale[0, 0, senses].numpy(),
    }
    for place, layer in enumerate(layers):
        values[f"weight_{place}"] = layer.weight[0].numpy()
        values[f"bias_{place}"] = layer.bias[0, 0].numpy()
    return facts, values


def _write_model(robot: MotionRobot, file: Path) -> None:
    """Copy a robot's model with absolute asset paths."""
    tree = ElementTree.parse(robot.file)
    root = tree.getroot()
    home = robot.file.absolute().parent
    for compiler in root.iter("compiler"):
        for key in ("meshdir", "texturedir", "assetdir"):
            if key in compiler.attrib:
                compiler.set(key, str(home / compiler.attrib[key]))
    if next(root.iter("include"), None) is not None:
        raise UsageError(f"{robot.file} includes other files, but must be a single file.")
    custom = ElementTree.SubElement(root, "custom")
    ElementTree.SubElement(custom, "text", {"name": TOKENS, "data": _FILE})
    write_text(file, ElementTree.tostring(root, encoding="unicode"))


def _require_alike(tracker: Tracker, player: ClipPlayer, file: Path) -> None:
    """Raise TelicError if tracker and decoder produce different actions for the same tokens."""
    env, task = player.env, player.task
    count = env.num_envs
    clip = torch.arange(count) % len(player.clips)
    task.assignment = ClipChoice(clip, torch.zeros_like(clip), torch.zeros_like(clip))
    rows = env.reset(0)
    other = make(file, num_envs=count)
    assert isinstance(other, MujocoEnv)
    other.reset()
    other.place(task.qpos.clone(), task.qvel.clone())
    first, apart = player.encoders[0], 0.0
    for _ in range(_TOKEN_STEPS):
        tokens = tracker.networks.quantizer.values(tracker.codes(rows)[first])
        taken, done = env.step(tracker.act(rows)), other.step(tokens)
        theirs: Any = done.info["qpos"]
        apart = max(apart, float((taken.info["qpos"] - theirs).abs().max()))
        rows = taken.obs
    other.close()
    if not apart <= _TOKENS_ALIKE:
        raise TelicError(
            f"{file} differs by {apart:.2g} from the tracker after {_TOKEN_STEPS} steps.",
            hint="Please report this and attach the tracker file.",
        )
