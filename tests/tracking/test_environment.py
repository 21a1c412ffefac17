"""The environment: robot and reference are of one moment, however an episode began."""

import pytest
import torch

from telic.tracking.scores import angle
from telic.tracking.task import ClipChoice, make_tracking, tracking_task
from tests.tracking.constructed import library, tiny


def make(num_envs: int = 4, *overrides: str, playing: bool = False, seeds=(3,)):
    return make_tracking(
        tiny(*overrides),
        library(),
        [0, 1, 2],
        num_envs=num_envs,
        seeds=seeds,
        threads=1,
        playing=playing,
    )


def assign(env, frame: int = 0, encoder: int = 0):
    n = env.num_envs
    clip = torch.arange(n) % 3
    frames = torch.full((n,), frame)
    tracking_task(env).assignment = ClipChoice(clip, frames, torch.full((n,), encoder))


def put_on_reference(env, step: int) -> None:
    """Let the simulation be exactly where the reference is at a frame, as if it had tracked."""
    task = tracking_task(env)
    rows = task.table.rows(task.memory["clip"], task.memory["frame"] + step)
    pose = task.table.pose(rows)
    robot = task.parts.robot
    env.task.qpos.copy_(robot.to_qpos(pose.root_pos, pose.root_quat, pose.joint_pos))
    env.task.qvel.copy_(
        robot.to_qvel(pose.root_quat, pose.root_lin_vel, pose.root_ang_vel, pose.joint_vel)
    )


def test_an_episode_begins_exactly_on_its_reference_when_it_is_played():
    env = make(playing=True)
    assign(env, frame=7)
    env.reset()
    task = tracking_task(env)
    pose = task.table.pose(task.table.rows(task.memory["clip"], task.memory["frame"]))
    root = task.parts.root(task.qpos.float(), task.qvel.float())
    torch.testing.assert_close(root.pos, pose.root_pos)
    torch.testing.assert_close(root.lin_vel, pose.root_lin_vel, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(task.qpos[:, 3:].float(), pose.joint_pos)


def test_bodies_of_the_reference_are_those_of_the_model_at_the_moment_they_describe():
    env = make(playing=True)
    assign(env)
    env.reset()
    task = tracking_task(env)
    # right after a reset bodies describe the state itself; the table's first frame has no lag
    robot, target = (
        task.robot_bodies(),
        task.table.bodies(task.table.rows(task.memory["clip"], task.memory["frame"])),
    )
    torch.testing.assert_close(robot.pos, target.pos, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(robot.lin_vel, target.lin_vel, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(robot.ang_vel, target.ang_vel, atol=1e-4, rtol=1e-4)
    assert float(angle(robot.quat, target.quat).max()) < 1e-3


@pytest.mark.parametrize("by_itself", [False, True])
def test_after_a_step_robot_and_reference_are_of_the_same_moment(by_itself):
    """Return whether an episode began by an explicit reset or an automatic one."""
    env = make(3, playing=True)
    assign(env)
    env.reset()
    if by_itself:
        done = torch.zeros(3, dtype=torch.bool)
        while not bool(done[1]):  # the shortest clip ends first, or falls
            taken = env.step(torch.zeros(3, 6))
            done = taken.terminated | taken.truncated
    task = tracking_task(env)
    step = int(task._age()[1])
    assert step == 0
    taken = env.step(torch.zeros(3, 6))
    clip, dt, lag = int(task.memory["clip"][1]), task.dt, env.model.opt.timestep
    frames = library().frames(clip, torch.tensor([(step + 1) * dt - lag]))
    torch.testing.assert_close(
        taken.info["target_places"][1, 0], frames.root_pos[0], atol=1e-5, rtol=1e-5
    )


def test_a_clip_that_was_followed_to_its_end_is_cut_off_not_failed():
    env = make(3, playing=True)
    assign(env)
    env.reset()
    frames = tracking_task(env).table.frames
    for step in range(int(frames.min()) - 1):
        put_on_reference(env, step)
        taken = env.step(torch.zeros(3, 6))
    assert taken.truncated.tolist() == (frames == frames.min()).tolist()
    assert not bool(taken.terminated.any())


def test_failures_are_charged_to_the_piece_where_they_happened():
    env = make(6, "sampling.bin_s=0.2", "command.start_joints=0")
    task = tracking_task(env)
    env.reset()
    before = task.memory["failed"].clone()
    piece = task._pieces.at(task.memory["clip"], task._frame() + 1)
    env.task.qpos[2, 1] -= 0.6  # one robot is suddenly in the ground
    taken = env.step(torch.zeros(6, 6))
    assert bool(taken.terminated[2])
    grown = (task.memory["failed"] - before)[0]
    expected = torch.zeros_like(grown)
    for row in taken.terminated.nonzero().flatten().tolist():
        expected[piece[row]] += 1.0
    torch.testing.assert_close(grown, expected, atol=0.02, rtol=0.0)
