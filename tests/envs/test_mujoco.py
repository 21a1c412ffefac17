"""Clocks, autoreset, seeds, resume: what the environment does around a task."""

import gymnasium
import numpy as np
import pytest
import torch

from telic.envs import make
from telic.envs.tasks import TASKS
from telic.errors import ConfigError, TelicError


def actions(env, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    low, high = env.action_low, env.action_high
    for _ in range(steps):
        yield low + (high - low) * torch.rand(env.num_envs, env.act_dim, generator=generator)


def rollout(env, steps, seed=0):
    """Return the exact observations before and after autoreset, rewards and ends of some steps."""
    seen = []
    for action in actions(env, steps, seed):
        step = env.step(action)
        seen.append(
            (env.exact_final_obs, env.exact_obs, env.exact_reward, step.terminated, step.truncated)
        )
    return [torch.stack(each) for each in zip(*seen, strict=True)]


# ---- shapes and the contract


@pytest.mark.parametrize("name", TASKS)
def test_spec_agrees_with_gymnasium_and_with_the_tensors(name):
    env = make(name, num_envs=3)
    theirs = gymnasium.make(name)
    obs = env.reset()
    step = env.step(torch.zeros(3, env.act_dim))
    assert obs.shape == step.obs.shape == step.final_obs.shape == (3, env.obs_dim)
    assert obs.dtype == step.obs.dtype == step.reward.dtype == torch.float32
    assert step.reward.shape == step.terminated.shape == step.truncated.shape == (3,)
    assert step.terminated.dtype == step.truncated.dtype == torch.bool
    assert theirs.observation_space.shape == (env.obs_dim,)
    assert env.action_low.tolist() == theirs.action_space.low.tolist()
    assert env.action_high.tolist() == theirs.action_space.high.tolist()
    assert env.max_episode_steps == theirs.spec.max_episode_steps
    assert env.dt == pytest.approx(theirs.unwrapped.dt)
    assert len(set(env.spec.obs_names)) == env.obs_dim
    assert len(set(env.spec.action_names)) == env.act_dim
    assert set(step.info) == set(env.spec.info_keys)
    for key in step.info:
        assert step.info[key].shape[0] == 3
        assert env.spec.info_keys[key]
    assert type(env.spec).model_validate_json(env.spec.model_dump_json()) == env.spec


def test_arguments_have_gymnasiums_names_and_defaults():
    import inspect

    for name, task in TASKS.items():
        theirs = inspect.signature(type(gymnasium.make(name).unwrapped).__init__).parameters
        ours = task.Arguments()
        for key, parameter in theirs.items():
            if key in ("self", "kwargs", "default_camera_config"):
                continue
            assert getattr(ours, key) == parameter.default, (name, key)


# ---- ends of episodes


def test_time_limits_truncate_exactly_and_the_next_episode_starts_within_the_step():
    env = make("HalfCheetah-v5", num_envs=2, max_episode_steps=5)
    first = env.reset()
    for number, action in enumerate(actions(env, 11), start=1):
        step = env.step(action)
        is_last = number % 5 == 0
        assert step.truncated.tolist() == [is_last] * 2
        assert not step.terminated.any()
        assert torch.equal(step.obs, step.final_obs) != is_last
        assert step.info["episode_start"].tolist() == [number % 5 == 1] * 2
        assert step.info["_episode_start"] is not None
        # Time is of the transition, not of the episode that began after it.
        expected = env.dt * ((number - 1) % 5 + 1)
        assert step.info.exact("time").tolist() == pytest.approx([expected] * 2)
    assert not torch.equal(step.obs, first)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, task in TASKS.items()
        if "terminate_when_unhealthy" in task.Arguments.model_fields
    ],
)
def test_termination_can_be_switched_off_and_unhealthy_steps_still_earn_nothing(name):
    on = make(name, num_envs=4, seed=3)
    off = make(name, num_envs=4, seed=3, terminate_when_unhealthy=False)
    for env in (on, off):
        env.reset()
    for action in actions(on, 150):
        step_on, step_off = on.step(action), off.step(action)
        if step_on.terminated.any():
            break
    assert step_on.terminated.any()
    assert not step_off.terminated.any()
    ended = step_on.terminated
    assert torch.equal(step_off.reward, step_on.reward)
    assert (step_off.info["reward_survive"][ended] == 0).all()
    assert torch.equal(step_off.final_obs, step_on.final_obs)
    assert torch.equal(step_off.obs, step_off.final_obs)


def test_stagger_spreads_the_first_time_limits_and_no_others():
    env = make("Reacher-v5", num_envs=64, seed=1)
    env.reset()
    env.stagger()
    *_, truncated = rollout(env, 100)
    ends = truncated.double().argmax(0)  # the step of each one's first end
    assert ends.min() < 10
    assert ends.max() > 40
    assert ends.unique().numel() > 20
    again = truncated[ends + 50, torch.arange(64)]  # a whole episode later
    assert again.all()


# ---- seeds


def test_members_of_a_population_equal_their_solo_environments_bit_for_bit():
    both = make("Hopper-v5", num_envs=6, seed=(11, 22))
    solo = make("Hopper-v5", num_envs=3, seed=22)
    both.reset()
    solo.reset()
    for action in actions(both, 40):
        step = both.step(action)
        other = solo.step(action[3:])
        assert torch.equal(both.exact_obs[3:], solo.exact_obs)
        mine = step.info.slice(slice(3, 6))
        assert torch.equal(mine["x_velocity"], other.info["x_velocity"])
        assert torch.equal(mine.body("foot").xpos, other.info.body("foot").xpos)


@pytest.mark.parametrize("name", TASKS)
def test_initial_states_are_distributed_as_gymnasiums(name):
    env = make(name, num_envs=1)
    seeds = torch.arange(2000)
    ours = [part.flatten() for part in env.task.start(seeds, torch.zeros_like(seeds))]
    theirs = gymnasium.make(name).unwrapped
    theirs.reset(seed=1)
    drawn = [
        (theirs.reset_model(), theirs.data.qpos.copy(), theirs.data.qvel.copy()) for _ in range(200)
    ]
    for mine, default, index in zip(
        ours, (theirs.init_qpos, theirs.init_qvel), (1, 2), strict=True
    ):
        spread = torch.tensor(np.array([each[index] for each in drawn]) - default).flatten()
        mine = mine - torch.tensor(default).repeat(2000)
        assert mine.mean().item() == pytest.approx(
            spread.mean().item(), abs=0.1 * spread.std().item()
        )
        assert mine.std().item() == pytest.approx(spread.std().item(), rel=0.05)
        # Uniform noise ends at 1.7 standard deviations, normal noise does not end.
        assert (mine.abs().max() / spread.abs().max()).item() == pytest.approx(1.0, rel=0.35)


# ---- resume


@pytest.mark.parametrize("name", ["Ant-v5", "HalfCheetah-v5"])
def test_the_present_state_is_the_same_after_a_resume_and_after_asking_late(name):
    keys = ("xpos", "cfrc_ext", "time")
    env, late = (make(name, num_envs=3, seed=2, max_episode_steps=6) for _ in range(2))
    for each in (env, late):
        each.reset()
        for key in keys:
            each.present()[key]
        rollout(each, 5)
    action = torch.full((3, env.act_dim), 0.5)
    env.step(action)
    assert late.step(action).truncated.all()  # new episodes have begun
    expected = {key: env.present().exact(key) for key in keys}
    fresh = make(name, num_envs=3, seed=8, max_episode_steps=6)
    fresh.load_state_dict(env.state_dict())
    # Nobody watched this field, so asking for it makes the last step once more.
    assert late._transition.info(late._schema, {})["xquat"].shape[0] == 3
    for other in (fresh, late):
        for key in keys:
            assert torch.equal(other.present().exact(key), expected[key]), key


def test_a_state_of_another_environment_is_refused():
    env = make("Hopper-v5", num_envs=2)
    env.reset()
    with pytest.raises(ConfigError, match="2 x Hopper-v5"):
        make("Walker2d-v5", num_envs=2).load_state_dict(env.state_dict())
    with pytest.raises(ConfigError, match="3 x Hopper-v5"):
        make("Hopper-v5", num_envs=3).load_state_dict(env.state_dict())


# ---- failures


class GivesUp:
    """Simulation whose engine fails in its second row on request."""

    def __init__(self, sim):
        self._sim = sim
        self.gives_up = False

    def __getattr__(self, name):
        return getattr(self._sim, name)

    @property
    def failed(self):
        return torch.tensor([False, True]) if self.gives_up else None


def test_failed_simulation_is_truncated_and_restarted():
    env = make("Hopper-v5", num_envs=2)
    env.sim = GivesUp(env.sim)
    env.reset()
    env.step(torch.zeros(2, 3))
    env.sim.gives_up = True
    step = env.step(torch.zeros(2, 3))
    assert step.truncated.tolist() == [False, True]
    assert not step.terminated.any()
    with pytest.raises(TelicError, match="first step"):
        env.step(torch.zeros(2, 3))


def test_diverging_simulation_is_reported():
    env = make("Hopper-v5", num_envs=2, terminate_when_unhealthy=False)
    env.reset()
    assert env.step(torch.zeros(2, 3)).info["diverged"].tolist() == [False, False]
    env.sim.field("qvel")[1, 0] = 1e12
    step = env.step(torch.zeros(2, 3))
    assert step.info["diverged"].tolist() == [False, True]
    assert torch.isfinite(step.obs).all()


def test_seeds_that_do_not_divide_the_batch_are_refused():
    with pytest.raises(ConfigError, match="not divisible by"):
        make("Hopper-v5", num_envs=5, seed=(1, 2))
