"""Make the environment of a tracking run: robot, motions and task from a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telic.envs.mujoco import MujocoEnv
from telic.envs.task import TaskArguments
from telic.errors import UsageError
from telic.motions.clip import Split
from telic.motions.library import MotionLibrary
from telic.motions.robot import motion_robot
from telic.sim import simulate
from telic.tracking.config import TrackingConfig
from telic.tracking.parts import substeps, tracked_parts
from telic.tracking.reference import ReferenceTable
from telic.tracking.task import TrackingTask

_SPARE = 0.25
"""room for clips that take the place of others and are longer"""


def open_motions(config: TrackingConfig) -> MotionLibrary:
    """Return the motions of a configuration: of its folder, or generated for its robot."""
    robot = motion_robot(config.robot.name)
    group = config.motions
    if group.library is not None:
        library = MotionLibrary.open(Path(group.library))
        if library.robot.joint_names != robot.joint_names:
            raise UsageError(
                f"The motions in {group.library} are of {library.robot.name}, not of {robot.name}.",
                hint="Retarget them: telic motions import.",
            )
        return library
    from telic.motions.generate import generated_library

    return generated_library(
        robot,
        group.generated,
        families=group.families,
        seed=group.seed,
        held_share=group.held_share,
    )


def clips_of(library: MotionLibrary, split: Split) -> list[int]:
    """Return the clips of a split; raises UsageError where there are none."""
    found = library.chosen(split)
    if not found:
        raise UsageError(f"The library has no clip for {split}.", hint="See: telic motions show")
    return found


def make_tracking(
    config: TrackingConfig,
    library: MotionLibrary,
    clips: Sequence[int],
    *,
    num_envs: int,
    seeds: Sequence[int] = (0,),
    device: str = "cpu",
    threads: int | None = None,
    playing: bool = False,
) -> MujocoEnv:
    """Return N environments that follow some clips of a library.

    Args:
        config: everything about them.
        library: where the clips are.
        clips: their numbers.
        num_envs: environments in the batch.
        seeds: one per member of a population, which get equal slices.
        device: "cpu" or "cuda".
        threads: that simulate; None: one per core.
        playing: measure instead of train: no noise, no variation, the failures of evaluation.
    """
    parts = tracked_parts(config.robot)
    model = parts.robot.model
    skip = substeps(config.robot, model.opt.timestep)
    sim = simulate(model, num_envs, device=device, num_threads=threads)
    table = ReferenceTable(
        library,
        clips,
        parts,
        dt=config.robot.control_s,
        lag_s=model.opt.timestep,
        proportions=config.motions.proportions,
        least_points=config.motions.person_points,
        device=sim.device,
        spare=_SPARE if config.motions.renew_every else 0.0,
    )
    arguments = TaskArguments(
        xml_file=str(parts.robot.file), frame_skip=skip, max_episode_steps=None
    )
    task = TrackingTask(
        sim,
        parts.to(sim.device),
        table,
        config,
        arguments,
        members=len(seeds),
        playing=playing,
    )
    return MujocoEnv(sim, task, seed=list(seeds))


def tracking_task(env: MujocoEnv) -> TrackingTask:
    """Return the task of a tracking environment."""
    assert isinstance(env.task, TrackingTask)
    return env.task
