"""Videos of what a tracker did: the robot, and the reference as a ghost in the same place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from telic.errors import UnknownName
from telic.motions.robot import MotionRobot
from telic.rendering.job import Rendering
from telic.rendering.jobs import render_one
from telic.storage.trajectories import REFERENCE, Trajectory, TrajectoryFacts, write_trajectory
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.reports import ClipResult
from telic.tracking.tracker import Tracker

_GHOST = "ghost_"
_SHADE = (0.45, 0.75, 0.55, 0.35)


def _with_ghost(robot: MotionRobot, file: Path) -> mujoco.MjModel:
    """Write a model with the robot twice, the second one a ghost that touches nothing."""
    spec = mujoco.MjSpec.from_file(str(robot.file.absolute()))
    ghost = mujoco.MjSpec.from_file(str(robot.file.absolute()))
    for kind in (ghost.worldbody.geoms, ghost.lights, ghost.actuators, ghost.sensors, ghost.keys):
        for each in list(kind):
            ghost.delete(each)
    for geom in ghost.geoms:
        geom.rgba = _SHADE
        geom.material = ""
        geom.contype, geom.conaffinity = 0, 0
    for key in list(spec.keys):
        spec.delete(key)
    spec.attach(ghost, prefix=_GHOST, frame=spec.worldbody.add_frame())
    model = spec.compile()
    file.write_text(spec.to_xml())
    return model


def clip_video(
    player: ClipPlayer, tracker: Tracker, result: ClipResult, output: Path, **settings: Any
) -> Rendering:
    """Play one clip again, keep it, and draw it as a video (.mp4) or a strip of pictures (.png)."""
    names = player.task.table.names
    if result.clip not in names:
        raise UnknownName("clip", result.clip, names)
    pair = names.index(result.clip), player.encoders.index(result.encoder)
    tape = player.play(tracker, [pair] * player.env.num_envs)
    played = player.episode(tape, 0, pair)
    write_trajectory(output.with_suffix(".npz"), played)  # for a player
    with tempfile.TemporaryDirectory() as place:
        file, episode = Path(place) / "ghost.xml", Path(place) / "clip.npz"
        model = _with_ghost(player.task.parts.robot, file)
        qpos = np.concatenate((played["qpos"], played[REFERENCE]), axis=1)
        assert qpos.shape[1] == model.nq
        facts = TrajectoryFacts(env_id=str(file), dt_s=player.task.dt)
        write_trajectory(episode, Trajectory({"qpos": qpos}, facts))
        return render_one(episode, output, env=str(file), **settings)
