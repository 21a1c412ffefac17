"""The lazy mapping: costs nothing before it is asked, is right whenever it is asked."""

import pytest
import torch

from telic.envs import make
from telic.errors import UnknownName, UsageError


def stepped(name="Ant-v5", steps=5, **arguments):
    env = make(name, **{"num_envs": 4, **arguments})
    env.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        step = env.step(torch.rand(env.num_envs, env.act_dim, generator=generator) * 2 - 1)
    return env, step


def test_unrequested_field_is_not_bound():
    env, step = stepped("HalfCheetah-v5")
    assert env.sim.bound == {"qpos", "qvel", "ctrl"}
    assert "xpos" in step.info
    assert len(list(step.info)) > 10
    assert env.sim.bound == {"qpos", "qvel", "ctrl"}
    step.info["xpos"]
    assert env.sim.bound == {"qpos", "qvel", "ctrl", "xpos"}


def test_values_are_single_precision_and_exact_ones_double():
    _, step = stepped()
    for key in step.info:
        kind = torch.bool if key in ("episode_start", "diverged") else torch.float32
        assert step.info[key].dtype == kind, key
    assert step.info.exact("x_velocity").dtype == torch.float64


def test_a_write_to_a_value_does_not_reach_the_simulator():
    env, step = stepped()
    before = env.sim.state()
    xpos = env.sim.field("xpos").clone()
    for key in step.info:
        step.info[key].fill_(7)
        step.info.exact(key).fill_(7)
    step.info.body("torso").xpos.fill_(3)
    step.obs.fill_(5)
    assert torch.equal(env.sim.state(), before)
    assert torch.equal(env.sim.field("xpos"), xpos)
    assert env.step(torch.zeros(4, 8)).info.exact("dt").tolist() == pytest.approx([0.05] * 4)


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Ant-v5"])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_value_first_asked_late_equals_one_watched_from_the_start(name, is_last):
    # On the last step of an episode the next one has already begun when the value is asked for.
    steps = 12 if is_last else 11
    watching = make(name, num_envs=3, seed=1, max_episode_steps=12)
    late = make(name, num_envs=3, seed=1, max_episode_steps=12)
    watching.reset()
    late.reset()
    generator = torch.Generator().manual_seed(0)
    keys = [key for key in watching.spec.info_keys if key != "diverged"]
    for _ in range(steps):
        action = torch.rand(3, late.act_dim, generator=generator) * 2 - 1
        expected, step = watching.step(action), late.step(action)
        for key in keys:
            expected.info.exact(key)
    assert step.truncated.tolist() == [is_last] * 3
    for key in keys:
        assert torch.equal(step.info.exact(key), expected.info.exact(key)), key
    # and asking late has not changed the future
    for _ in range(20):
        action = torch.rand(3, late.act_dim, generator=generator) * 2 - 1
        expected, step = watching.step(action), late.step(action)
        assert torch.equal(late.exact_obs, watching.exact_obs)
        assert torch.equal(step.info["contacts"], expected.info["contacts"])


def test_an_info_of_the_past_keeps_what_was_asked_and_refuses_what_was_not():
    env, step = stepped()
    height = step.info["xpos"].clone()
    env.step(torch.zeros(4, 8))
    assert torch.equal(step.info["xpos"], height)
    with pytest.raises(UsageError, match="had advanced"):
        step.info["xquat"]


def test_contacts_are_the_size_of_the_force_on_each_body():
    env = make("Ant-v5", num_envs=1, reset_noise_scale=0.0, terminate_when_unhealthy=False)
    env.reset()
    for _ in range(60):
        step = env.step(torch.zeros(1, 8))
    weight = env.model.body_mass.sum() * 9.81
    forces = step.info.exact("cfrc_ext")[0, 1:, 3:]
    # standing still: the ground carries the weight, and each foot its share
    assert forces.sum(0)[2].item() == pytest.approx(weight, rel=0.02)
    feet = [step.info.body(foot).contact.item() for foot in env.spec.feet]
    assert sum(feet) >= weight * 0.98
    assert min(feet) > 0
    assert step.info.body("torso").contact.item() == 0


def test_an_unknown_name_is_a_key_error_with_the_closest_names():
    _, step = stepped()
    with pytest.raises(KeyError):
        step.info["x_veloctiy"]
    with pytest.raises(UnknownName, match="x_velocity"):
        step.info["x_veloctiy"]
    assert step.info.get("nothing") is None
    assert "nothing" not in step.info
    assert step.info.get("x_velocity") is not None
    assert "_episode_start" in step.info
