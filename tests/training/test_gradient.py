"""The written-out gradient against automatic differentiation."""

import pytest
import torch

from telic.training.job import PpoSettings
from telic.training.networks import Networks, Shape
from telic.training.population import Population
from telic.training.ppo import Samples, gradient

GENERATOR = torch.Generator().manual_seed(0)


def loss(population, actor, flat, samples):
    """The PPO loss as one would write it down."""
    views = population.networks.views(flat)
    part = actor.part(samples.inputs)
    networks = population.networks
    outputs = networks.act(views, part)
    values = networks.value(views, samples.inputs)
    log_probs = population.distribution.log_prob(outputs, views.log_std, samples.actions)
    ratio = (log_probs - samples.log_probs).exp()
    clip = population.clip
    clipped = torch.minimum(torch.maximum(ratio, 1 - clip), 1 + clip)
    policy = -torch.minimum(ratio * samples.advantages, clipped * samples.advantages).mean(1)
    value = (values - samples.returns).square().mean(1)
    entropy = population.distribution.entropy(outputs, views.log_std)
    return policy + population.value_coef[:, 0] * value - population.entropy_coef[:, 0] * entropy


@pytest.mark.parametrize("activation", ["tanh", "elu", "relu"])
@pytest.mark.parametrize(("outputs", "discrete"), [(3, False), (1, False), (4, True)])
def test_it_equals_automatic_differentiation(activation, outputs, discrete):
    members = [
        PpoSettings(
            hidden=(8, 6),
            activation=activation,
            entropy_coef=0.01 * (i + 1),
            value_coef=0.3 + i,
            clip=0.1 + 0.1 * i,
        )
        for i in range(2)
    ]
    critic = 7
    shape = Shape(5, critic, outputs, discrete, (8, 6), activation)
    population = Population(members, [1, 2], Networks(shape))
    population.flat += 0.3 * torch.randn(population.flat.shape, generator=GENERATOR)
    actor = population.actor()

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(2, 64, *sizes, generator=GENERATOR)

    actions = draw(1).abs().floor().clamp(max=outputs - 1) if discrete else draw(outputs)
    samples = Samples(draw(critic), actions, draw() - outputs, draw(), draw())
    flat = population.flat.clone().requires_grad_()
    expected = loss(population, actor, flat, samples)
    expected.sum().backward()
    grad, losses = gradient(population, actor, samples)
    torch.testing.assert_close(grad, flat.grad, rtol=1e-4, atol=1e-5)
    total = (
        losses.policy_loss
        + population.value_coef[:, 0] * losses.value_loss
        - population.entropy_coef[:, 0] * losses.entropy
    )
    torch.testing.assert_close(total, expected.detach(), rtol=1e-4, atol=1e-5)
