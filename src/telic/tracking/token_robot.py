"""A robot that is moved by a tracker's tokens, as files that any session can be held on.

    tokens/robot.xml    the tracker's robot, with a text that names the decoder
    tokens/tokens.npz   the decoder as plain numbers (`telic.envs.tokens`)

What is written is compared with the tracker: told the tokens that an encoder gives, both must do
the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from telic.core.tensors import numbers
from telic.envs import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.tokens import SENSES, DecoderFacts, write_decoder
from telic.errors import TelicError, UsageError
from telic.motions.library import MotionLibrary
from telic.motions.robot import MotionRobot
from telic.robots import TOKENS
from telic.storage.files import write_text
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.task import ClipChoice, TrackingTask
from telic.tracking.tracker import Tracker

_FILE, _MODEL = "tokens.npz", "robot.xml"
_SPREADS = 2.0
"""deviations to either side of the mean that an action spans"""
_LEAST_LEVELS = 2.0
_CLIPS = 16
_STEPS, _ALIKE = 5, 1e-4


def write_token_robot(tracker: Tracker, library: MotionLibrary, folder: Path) -> Path:
    """Write the model and the decoder, compare both with the tracker, and return the model's file.

    Raises TelicError where they act otherwise, UsageError where tokens alone do not move it.
    """
    tracker = tracker.to("cpu")
    config, columns = tracker.config, tracker.columns
    if config.robot.action_base != "default":
        raise UsageError(
            "This tracker's actions are offsets of a reference, which tokens alone do not have.",
            hint="Train one with --set robot.action_base=default.",
        )
    unknown = [name for name in columns.policy if name not in SENSES]
    if unknown:
        raise UsageError(f"The tracker senses {unknown[0]}, which an environment does not offer.")
    folder.mkdir(parents=True, exist_ok=True)
    clips = range(min(_CLIPS, len(library.clips)))
    player = ClipPlayer(config, library, list(clips), threads=1)
    try:
        task = player.task
        write_decoder(folder / _FILE, *_decoder(tracker, task, _used(tracker, player)))
        _write_model(task.parts.robot, folder / _MODEL)
        _require_alike(tracker, player, folder / _MODEL)
    finally:
        player.close()
    return folder / _MODEL


def _used(tracker: Tracker, player: ClipPlayer) -> np.ndarray:
    """Return the tokens, (n, width), that the first encoder gives while clips are played."""
    first = player.encoders[0]
    pairs = [(clip, 0) for clip in range(len(player.clips))]
    size = player.env.num_envs
    found: list[torch.Tensor] = []
    for at in range(0, len(pairs), size):
        part = pairs[at : at + size]
        tape = player.play(tracker, part + part[-1:] * (size - len(part)))
        found.append(tracker.networks.quantiser.values(tape.codes[first]))
    return torch.cat(found).numpy()


def _decoder(
    tracker: Tracker, task: TrackingTask, used: np.ndarray
) -> tuple[DecoderFacts, dict[str, np.ndarray]]:
    config, columns, parts = tracker.config, tracker.columns, task.parts
    limbs, rest = parts.robot.facts.limbs, parts.robot.home.joint_pos
    networks, actor = tracker.networks, tracker.actor
    layers = networks.layers(actor.views, "control")
    senses = slice(*tracker.shape.senses)
    step = _LEAST_LEVELS / (networks.quantiser.levels // 2)
    half = np.maximum(_SPREADS * used.std(0), step)
    facts = DecoderFacts(
        source=f"{tracker.facts.member}, step {tracker.facts.step}",
        control_s=config.robot.control_s,
        levels=networks.quantiser.levels,
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
    """Copy a robot's model; what it names stays where it is, and is named in full."""
    tree = ElementTree.parse(robot.file)
    root = tree.getroot()
    home = robot.file.absolute().parent
    for compiler in root.iter("compiler"):
        for key in ("meshdir", "texturedir", "assetdir"):
            if key in compiler.attrib:
                compiler.set(key, str(home / compiler.attrib[key]))
    if next(root.iter("include"), None) is not None:
        raise UsageError(f"{robot.file} includes other files: a robot moved by tokens is one file.")
    custom = ElementTree.SubElement(root, "custom")
    ElementTree.SubElement(custom, "text", {"name": TOKENS, "data": _FILE})
    write_text(file, ElementTree.tostring(root, encoding="unicode"))


def _require_alike(tracker: Tracker, player: ClipPlayer, file: Path) -> None:
    """Let tracker and environment do the same tokens from the same start, and compare."""
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
    for _ in range(_STEPS):
        tokens = tracker.networks.quantiser.values(tracker.codes(rows)[first])
        taken, done = env.step(tracker.act(rows)), other.step(tokens)
        theirs: Any = done.info["qpos"]
        apart = max(apart, float((taken.info["qpos"] - theirs).abs().max()))
        rows = taken.obs
    other.close()
    if not apart <= _ALIKE:
        raise TelicError(
            f"{file} moves {apart:.2g} off what the tracker does after {_STEPS} steps.",
            hint="Please report this with the tracker's file.",
        )
