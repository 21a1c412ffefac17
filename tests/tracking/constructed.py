"""Motions of the planar biped that need no generator, and configurations that need no time."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from telic.motions.clip import MotionClip, Split
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import motion_robot
from telic.tracking.config import TrackingConfig, preset

TINY = (
    "trainer.warm_up=0",
    "trainer.settle=0",
    "trainer.ppo.num_envs=6",
    "trainer.ppo.horizon=8",
    "trainer.ppo.minibatch_size=24",
    "trainer.ppo.epochs=2",
    "networks.control=[16]",
    "networks.kinematic=[16]",
    "networks.critic=[16]",
    *(f"networks.encoders.{name}.hidden=[16]" for name in ("robot", "keypoint", "sparse")),
)


def bend(name: str, seconds: float, depth: float, split: Split = "train") -> MotionClip:
    """Stand and bend the knees, as deep as asked."""
    robot = motion_robot("planar-biped")
    frames = round(seconds * 50) + 1
    phase = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frames) / 50.0)
    joints = np.tile(robot.home.joint_pos, (frames, 1))
    joints += depth * phase[:, None] * np.array([-0.3, 0.6, -0.3, -0.3, 0.6, -0.3])
    root = np.tile(robot.home.root_pos, (frames, 1))
    root[:, 0] += 0.1 * np.arange(frames) / 50.0
    root[:, 2] -= 0.05 * depth * phase
    return MotionClip(
        name=name,
        robot="planar-biped",
        fps=50.0,
        root_pos=root,
        root_quat=np.tile([1.0, 0.0, 0.0, 0.0], (frames, 1)),
        joint_pos=joints,
        joint_names=robot.joint_names,
        split=split,
    )


@cache
def library() -> MotionLibrary:
    """Three clips to train on and one that is held out."""
    clips = [bend("low", 2.0, 1.0), bend("high", 1.0, 0.3), bend("long", 3.0, 0.6)]
    clips.append(bend("held", 0.6, 0.8, "test"))
    folder = Path(tempfile.mkdtemp()) / "motions"
    with LibraryWriter(folder, head_for(motion_robot("planar-biped"), clips)) as writer:
        for clip in clips:
            writer.add(clip)
    return MotionLibrary.open(folder)


def tiny(*overrides: str) -> TrackingConfig:
    """The planar preset with networks of a few numbers."""
    return preset("planar", (*TINY, *overrides))
