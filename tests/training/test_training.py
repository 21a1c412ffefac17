"""Real, small trainings: they learn, they survive a bad member, they leave the right files."""

import gymnasium
import numpy as np
import pytest
import torch

import telic
from telic.errors import ConfigError, RewardError, UsageError
from telic.storage.files import read_json
from telic.training.machine import source_commit
from telic.training.plan import plan
from telic.training.run import execute
from tests.training.small import SPEED, small_job, train_here

LATE = """
import torch
from telic import RewardFunction

class Late(RewardFunction):
    memory = {"steps": 0.0}

    def reset(self, mask):
        pass  # counts on over episodes, so that it breaks after the probe has passed it

    def compute(self, obs, action, next_obs, info):
        self.memory["steps"] = self.memory["steps"] + 1
        late = self.memory["steps"] > 100
        BREAK
        return terms["x"], terms
"""
BREAKS = LATE.replace("BREAK", 'terms = {"x": torch.where(late, torch.nan, info["x_velocity"])}')
RAISES = LATE.replace(
    "BREAK", 'terms = {"x": info["x_velocity"]}\n        if late.any(): raise ValueError("enough")'
)

PHASES = """
import torch
from telic import RewardFunction

class Phases(RewardFunction):
    memory = {"phase": 0.0}
    memory_to = "MEMORY_TO"

    def compute(self, obs, action, next_obs, info):
        self.memory["phase"] = torch.maximum(self.memory["phase"], (info["time"] > 0.2).float())
        terms = {"go": info["x_velocity"] * (1 - 2 * self.memory["phase"])}
        return terms["go"], terms
"""


def same_policy(one, other) -> bool:
    """Compare what two policies do: one may have more inputs that it does not see."""
    obs = np.random.default_rng(0).normal(size=(50, 17))
    return np.array_equal(telic.load_policy(one.path)(obs), telic.load_policy(other.path)(obs))


@pytest.mark.slow
def test_training_learns_to_balance_a_pole(tmp_path):
    job = small_job(
        "InvertedPendulum-v5",
        steps=60_000,
        env_args={},
        evaluations=1,
        eval_episodes=5,
        settings={"num_envs": 16, "horizon": 64, "minibatch_size": 128, "epochs": 10},
    )
    run = train_here(job, tmp_path)
    trained = read_json(run.summary)["best_return"]
    assert trained > 500, "a random policy stands for about 10 steps"

    policy = telic.load_policy(run.path)
    env = gymnasium.make("InvertedPendulum-v5")
    obs, _ = env.reset(seed=3)
    stood, over = 0, False
    while not over:
        obs, _, terminated, truncated, _ = env.step(policy(obs))
        stood, over = stood + 1, terminated or truncated
    env.close()
    assert stood > 200, "the saved policy must do in Gymnasium what it did in ours"


def test_a_discrete_environment_trains_and_plays(tmp_path):
    run = train_here(small_job("CartPole-v1", steps=4096, env_args={}), tmp_path)
    policy = telic.load_policy(run.path)
    assert policy(np.zeros(4)) in (0, 1)
    assert read_json(run.summary)["best_return"] > 0


@pytest.mark.parametrize(
    ("source", "says"), [(BREAKS, "NaN"), pytest.param(RAISES, "enough", marks=pytest.mark.slow)]
)
def test_a_member_that_breaks_stops_alone(tmp_path, source, says):
    solo = train_here(small_job(reward=[SPEED]), tmp_path / "solo")
    both = train_here(small_job(reward=[source, SPEED]), tmp_path / "both")
    broken, healthy = both.members()
    summary = read_json(broken.summary)
    assert summary["status"] == "not_finite"
    assert summary["findings"][-1]["name"] == "not_finite"
    assert says in summary["findings"][-1]["message"]
    (moment,) = broken.checkpoints_dir.glob("not_finite_*.pt")
    assert not torch.load(moment, weights_only=True)["rewards"].isfinite().all()
    assert same_policy(solo.members()[0], healthy)
    assert read_json(both.summary)["best_member"] == healthy.name


@pytest.mark.parametrize("to", ["critic", "actor"])
def test_reward_memory_reaches_the_critic_and_only_on_request_the_policy(tmp_path, to):
    source = PHASES.replace("MEMORY_TO", to)
    run = train_here(small_job(reward=[source], steps=512, evaluations=1), tmp_path)
    policy = telic.load_policy(run.path)
    assert policy.shape.critic_inputs == 18
    assert policy.memory_size == (1 if to == "actor" else 0)
    if to == "actor":
        with pytest.raises(UsageError, match="memory"):
            policy(np.zeros(17))
        early, late = (policy(np.ones(17), np.full(1, phase)) for phase in (0.0, 1.0))
        assert not np.allclose(early, late)


def test_a_run_leaves_the_files_it_promises(tmp_path):
    run = train_here(small_job(reward=[SPEED]), tmp_path)
    member = run.members()[0]
    files = (run.config, run.manifest, run.summary, run.events, member.config, member.scalars)
    for path in (*files, member.reward_code, member.reward_spec, member.summary):
        assert path.stat().st_size > 0, path
    assert len(member.checkpoints()) == 2
    assert len(member.trajectories()) == 6
    manifest = read_json(run.manifest)
    assert manifest["versions"]["torch"] and manifest["rewards"]["reward"]
    assert manifest["commit"] == source_commit()
    assert read_json(member.reward_spec)["terms"][0]["name"] == "speed"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"variants": [{"hidden": 3}]}, "cannot differ"),
        ({"seeds": (1, 1)}, "distinct"),
        ({"weights": {"speed": 1.0}}, "built-in reward"),
        ({"settings": {"gama": 1}}, "gamma"),
        ({"preset": "defualt"}, "default"),
    ],
)
def test_an_impossible_request_is_refused_before_anything_starts(change, says):
    with pytest.raises(telic.TelicError, match=says):
        small_job(**change)


def test_a_bad_reward_stops_everything_before_training(tmp_path):
    broken = SPEED.replace('info["x_velocity"]', 'info["x_vel"]')
    with pytest.raises(RewardError, match="x_velocity"):
        execute(small_job(reward=[broken]), tmp_path, confined=False)
    assert not list(tmp_path.glob("*/state/state.pt"))


def test_policies_observe_the_phase_that_their_reward_declares(tmp_path):
    reward = (
        "from telic import RewardFunction\n\nclass Step(RewardFunction):\n    phase_hz = 1.5\n\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        return info['x_velocity'], {'speed': info['x_velocity']}\n"
    )
    job = plan("Hopper-v5", reward, steps=64)
    assert job.env_args == {"phase_hz": 1.5}
    with pytest.raises(ConfigError, match=r"phase_hz: 1.5, 2.0"):
        plan("Hopper-v5", [reward, reward.replace("1.5", "2.0")])


def test_a_policy_takes_one_observation_or_many_and_refuses_wrong_ones(tmp_path):
    run = train_here(small_job(steps=256, evaluations=1), tmp_path)
    policy = telic.load_policy(run.path)
    many = policy(np.random.default_rng(0).normal(size=(3, 17)))
    assert many.shape == (3, 6) and np.abs(many).max() <= 1
    np.testing.assert_allclose(policy(np.zeros(17)), policy(np.zeros((2, 17)))[1], atol=1e-6)
    with pytest.raises(UsageError, match="17"):
        policy(np.zeros(5))
