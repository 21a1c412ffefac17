"""Disturbed episodes: other physics, pushes, noise and late actions, and nothing else differs."""

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.judges.disturbance import Disturbance, Disturbed, other_physics
from telic.judges.recorder import RolloutSpec, play
from telic.storage.trajectories import read_trajectory

ENV, STEPS = "Hopper-v5", 80
ARGUMENTS = {"max_episode_steps": STEPS, "terminate_when_unhealthy": False}


def act(obs):
    """A policy of a kind: what it does depends on everything it sees."""
    return torch.tanh(obs[:, :3] + obs[:, 3:6])


def played(tmp_path, disturbance=None, env=ENV, seed=3):
    paths = [str(tmp_path / f"{number}.npz") for number in range(2)]
    order = RolloutSpec(
        policy="none",
        env=env,
        env_args=ARGUMENTS,
        seed=seed,
        paths=paths,
        disturbance=disturbance,
    )
    play(act, order)
    return [read_trajectory(path) for path in map(tmp_path.__class__, paths)]


def column(trajectories, name):
    return np.stack([each.columns[name] for each in trajectories])


@pytest.mark.parametrize(
    "disturbance",
    [
        Disturbance(friction=0.5),
        Disturbance(friction=1.5),
        Disturbance(mass=0.8),
        Disturbance(mass=1.2),
        Disturbance(push=0.15),
        Disturbance(noise=0.05),
        Disturbance(delay=1),
    ],
    ids=str,
)
def test_every_disturbance_changes_the_episode_and_repeats_exactly(tmp_path, disturbance):
    usual, first = column(played(tmp_path), "qpos"), column(played(tmp_path, disturbance), "qpos")
    assert np.isfinite(first).all() and not np.allclose(first, usual)
    assert np.array_equal(column(played(tmp_path, disturbance), "qpos"), first)
    assert np.array_equal(column(played(tmp_path), "qpos"), usual), "it stays with its episode"


def test_mass_and_friction_are_those_of_the_model_and_of_no_other():
    plain = make(ENV, num_envs=1)
    with other_physics(Disturbance(mass=1.2, friction=0.5)):
        changed = make(ENV, num_envs=1)
    assert changed.robot.mass == pytest.approx(1.2 * plain.robot.mass)
    assert np.allclose(changed.model.geom_friction, 0.5 * plain.model.geom_friction)
    assert make(ENV, num_envs=1).robot.mass == plain.robot.mass


def test_noise_is_seen_by_the_policy_and_not_recorded(tmp_path):
    noisy = played(tmp_path, Disturbance(noise=0.05))
    obs, action = column(noisy, "obs"), column(noisy, "action")
    own = torch.stack([act(torch.as_tensor(rows)) for rows in obs]).numpy()
    assert not np.allclose(action[:, 1:], own[:, 1:])
    assert np.allclose(obs[:, 1:], column(noisy, "next_obs")[:, :-1])


def test_a_push_is_of_the_robots_size_and_along_the_ground():
    env = make("Ant-v5", num_envs=512)
    env.reset()
    before = env.sim.field("qvel").clone()
    disturbed = Disturbed(env, Disturbance(push=0.15), seed=1)
    for _ in range(round(1.0 / env.dt)):
        disturbed.push()
    change = env.sim.field("qvel") - before
    speed = 0.15 * np.sqrt(9.81 * env.robot.rest_height)
    assert torch.allclose(change[:, :2].norm(dim=1), torch.full((512,), speed, dtype=change.dtype))
    assert not change[:, 2:].any() and change[:, :2].mean(0).abs().max() < 0.1
