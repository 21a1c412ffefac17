"""REPPO and FlashSAC: the same promises as PPO's, and the mathematics they rest on."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from telic.errors import ConfigError, TrainingFailed
from telic.storage.scalars import read_rows
from telic.training.export.files import export_checked
from telic.training.flashsac import project_weights, residual_sizes
from telic.training.networks import Squashed
from telic.training.pathwise import Bins, NetworkParameters, fresh
from telic.training.policy import load_policy
from telic.training.population import _held
from tests.training.small import CONTROL, SPEED, small_job, train_here
from tests.training.test_population import numbers, weights

LEARNERS = ("reppo", "flashsac")
FEW = {
    **{"num_envs": 4, "horizon": 16, "minibatch_size": 32, "critic_hidden": (24,)},
    **{"updates": 3, "learning_starts": 75, "replay_size": 150},
}


def job(learner, env="HalfCheetah-v5", **changes):
    settings = {**FEW, **changes.pop("settings", {})}
    return small_job(env, learner=learner, settings=settings, **{"steps": 256, **changes})


def after(batches):
    """Return a function that asks to stop after so many batches."""
    left = iter([False] * batches)
    return lambda: next(left, True)


@pytest.mark.parametrize("learner", [pytest.param("reppo", marks=pytest.mark.slow), "flashsac"])
def test_stopped_run_resumes_with_the_numbers_of_an_uninterrupted_one(tmp_path, learner):
    options = {"steps": 384, "seeds": (1, 2), "reward": SPEED, "evaluations": 1}
    whole = train_here(job(learner, **options), tmp_path / "whole")
    for stops in (2, 3):  # after so many batches of this session
        train_here(job(learner, **options), tmp_path / "parts", should_stop=after(stops))
    parts = train_here(job(learner, **options), tmp_path / "parts")
    for one, other in zip(whole.members(), parts.members(), strict=True):
        assert torch.equal(weights(one), weights(other)) and numbers(one) == numbers(other)
    assert not list(parts.path.rglob("replay-*.pt")), "a finished run keeps no replay"


@pytest.mark.parametrize("learner", ["reppo", pytest.param("flashsac", marks=pytest.mark.long)])
def test_a_member_learns_alone_what_it_learns_among_others(tmp_path, learner):
    alone = train_here(job(learner, seeds=(2,)), tmp_path / "alone").members()[0]
    others = [{}, {"learning_rate": 3e-3, "gamma": 0.9}]
    several = job(learner, seeds=(1, 2), reward=[None, CONTROL], variants=others)
    many = {each.name: each for each in train_here(several, tmp_path / "many").members()}
    assert len(many) == 8
    # Batched products of many members may round otherwise than those of one.
    assert torch.allclose(weights(alone), weights(many[alone.name]), atol=2e-3)
    assert not torch.equal(weights(alone), weights(many["default-g0.9-lr0.003_seed_2"]))


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_export_acts_like_the_policy(tmp_path, learner):
    run = train_here(job(learner, "Hopper-v5", reward=SPEED), tmp_path)
    policy = load_policy(run.path)
    for suffix in ("onnx", "npz"):
        assert export_checked(policy, tmp_path / f"policy.{suffix}") <= 1e-5
    rows = list(read_rows(run.members()[0].scalars, "train"))
    assert rows[-1]["steps"] > 0 and rows[-1]["policy_std"] > 0
    assert (rows[-1]["approx_kl"] is None) == (learner == "flashsac")


@pytest.mark.parametrize("learner", LEARNERS)
def test_discrete_actions_are_refused(tmp_path, learner):
    with pytest.raises(ConfigError, match="continuous actions"):
        train_here(job(learner, "CartPole-v1", env_args={}), tmp_path)


def test_the_density_of_a_squashed_action_is_that_of_torch():
    outputs, noise = torch.randn(2, 50, 6).clamp(-2, 2), torch.randn(2, 50, 3)
    actions, density = Squashed(3).draw(outputs, noise)
    mean, log_std = outputs.chunk(2, -1)
    base = Independent(Normal(mean, log_std.exp()), 1)
    expected = TransformedDistribution(base, TanhTransform(cache_size=1))
    x = mean + log_std.exp() * noise
    assert torch.allclose(actions, x.tanh())
    seen = x.abs().amax(-1) < 3  # where tanh can be inverted
    assert torch.allclose(density[seen], expected.log_prob(actions)[seen], atol=2e-3)
    assert torch.equal(Squashed(3).mode(outputs), mean.tanh())


def test_distributions_over_bins_keep_their_mean():
    bins = Bins(101, torch.device("cpu"))
    values = torch.linspace(-4.5, 4.5, 40)
    assert torch.allclose((bins.smoothed(values) * bins.centers).sum(-1), values, atol=1e-3)
    chances = torch.rand(40, 101).softmax(-1)
    moved = bins.moved(chances, 0.3 * values, torch.full((40,), 0.4))
    wanted = 0.3 * values + 0.4 * (chances * bins.centers).sum(-1)
    assert torch.allclose(moved.sum(-1), torch.ones(40), atol=1e-5)
    assert torch.allclose((moved * bins.centers).sum(-1), wanted, atol=1e-4)
    ended = bins.moved(chances, values, torch.zeros(40))
    assert torch.allclose((ended * bins.centers).sum(-1), values, atol=1e-4)


def test_projected_weights_have_unit_length():
    sizes, learned = residual_sizes(5, 3, 8)
    generator = torch.Generator().manual_seed(1)
    net = NetworkParameters(torch.stack([fresh(sizes, generator, None)] * 2) * 3.0, sizes, learned)
    project_weights(net)
    assert torch.allclose(net.layers["weight_0"].norm(dim=1), torch.ones(2, 32), atol=1e-5)
    both = net.layers["scale_1"].square().sum(1) + net.layers["bias_1"].square().sum(1)
    assert torch.allclose(both.sqrt(), torch.full((2,), math.sqrt(8)), atol=1e-5)


def test_noise_is_held_for_steps_that_get_rarer_by_their_square():
    noise = torch.randn(64, 2000, 2, generator=torch.Generator().manual_seed(0))
    held = _held(noise, 16, torch.Generator().manual_seed(1))
    again = _held(noise, 16, torch.Generator().manual_seed(1))
    assert torch.equal(held, again) and torch.equal(_held(noise, 1, torch.Generator()), noise)
    begins = (held[1:] != held[:-1]).any(-1).float().mean().item()
    lengths = np.arange(1, 17)
    mean = (lengths * lengths**-2.0).sum() / (lengths**-2.0).sum()
    assert begins == pytest.approx(1 / mean, abs=0.02)
    assert held.std() == pytest.approx(1.0, abs=0.02)


def test_damaged_replay_is_reported(tmp_path):
    train_here(job("flashsac"), tmp_path, should_stop=after(1))
    files = sorted(tmp_path.rglob("replay-*.pt"))
    assert files
    files[0].unlink()
    with pytest.raises(TrainingFailed, match=r"replay buffer are missing"):
        train_here(job("flashsac"), tmp_path)
