"""The token module: who drives, what flows where, and what policies above may change."""

import pytest
import torch

from telic.tracking._tokens import (
    TokenNetworks,
    alignment,
    cycle,
    reconstruction,
)
from telic.tracking.config import LossesGroup
from telic.training.job import PpoSettings
from telic.training.population import Population
from telic.training.ppo import Samples, gradient
from tests.tracking.small import ALL, NOTHING, SMALL, networks, some_inputs


def test_token_of_the_driving_encoder_is_the_one_that_acts():
    made, flat = networks()
    views, inputs = made.views(flat), some_inputs()
    outputs = made.act(views, inputs[..., : SMALL.actor_inputs])
    for index, encoder in enumerate(SMALL.encoders):
        token = made.quantizer(made.encode(views, inputs, encoder))
        alone = made.decode(views, token, inputs[..., 0:2])
        drives = inputs[..., 2 + index] > 0
        assert bool(drives.any())
        torch.testing.assert_close(outputs[drives], alone[drives])


def test_members_do_not_influence_one_another():
    made, flat = networks()
    inputs = some_inputs()
    both = made.act(made.views(flat), inputs)
    alone = made.act(made.views(flat[1:].clone()), inputs[1:])
    torch.testing.assert_close(both[1:], alone)


def test_zero_error_has_zero_loss_and_known_errors_have_known_losses():
    x = torch.zeros(1, 2, 4)
    there = torch.ones(1, 2, 2, dtype=torch.bool)
    assert float(alignment([x, x], there)) == 0.0
    assert float(alignment([x, x + 2.0], there)) == 4.0
    assert float(alignment([x, x + 2.0, x + 2.0], torch.ones(1, 2, 3, dtype=torch.bool))) == 8.0
    assert float(reconstruction(x, x + 3.0)) == 9.0
    assert float(cycle([x + 2.0], x, there)) == 4.0


def _population(weights: LossesGroup) -> Population:
    settings = PpoSettings(entropy_coef=0.01, value_coef=0.5)
    made = TokenNetworks(SMALL, weights)
    population = Population([settings] * 2, [1, 2], made)
    noise = torch.randn(population.flat.shape, generator=torch.Generator().manual_seed(3))
    population.flat += 0.1 * noise
    return population


def _samples() -> Samples:
    generator = torch.Generator().manual_seed(4)
    draw = [torch.randn(2, 40, *k, generator=generator) for k in ((2,), (), (), ())]
    return Samples(some_inputs(), draw[0], draw[1] - 2.0, draw[2], draw[3])


@pytest.mark.parametrize("weights", [NOTHING, ALL, ALL.replace(rows=0.3)])
def test_the_gradient_is_that_of_the_ppo_loss_plus_the_weighted_token_losses(weights):
    population, samples = _population(weights), _samples()
    rows = slice(round(40 * weights.rows))
    made = population.networks
    assert isinstance(made, TokenNetworks)
    actor = population.actor()
    flat = population.flat.clone().requires_grad_()
    views = made.views(flat)
    seen = samples.inputs[..., : SMALL.actor_inputs]
    outputs = made.act(views, seen)
    log_probs = population.distribution.log_prob(outputs, views.log_std, samples.actions)
    ratio = (log_probs - samples.log_probs).exp()
    bounded = ratio.clamp(0.8, 1.2) * samples.advantages
    policy = -torch.minimum(ratio * samples.advantages, bounded).mean(1)
    value = (made.value(views, samples.inputs) - samples.returns).square().mean(1)
    entropy = population.distribution.entropy(outputs, views.log_std)
    latents = [made.encode(views, seen, name) for name in SMALL.encoders]
    token = made.quantizer(made.latent(views, seen))
    there = samples.inputs[..., 5:8] > 0
    motion = made._run(views.actor, "kinematic", token)
    columns = torch.tensor(SMALL.encoders["robot"])
    again = []
    for latent in latents[1:]:
        fake = torch.zeros(2, 40, SMALL.inputs)
        fake = fake.index_copy(
            -1, columns, made._run(views.actor, "kinematic", made.quantizer(latent))
        )
        again.append(made.encode(views, fake, "robot"))
    extra = (
        weights.reconstruction * reconstruction(motion[:, rows], samples.inputs[:, rows, 18:21])
        + weights.alignment * alignment([one[:, rows] for one in latents], there[:, rows])
        + weights.cycle
        * cycle([one[:, rows] for one in again], latents[0][:, rows], there[:, rows])
    )
    (policy + 0.5 * value - 0.01 * entropy + extra).sum().backward()
    grad, losses = gradient(population, actor, samples)
    torch.testing.assert_close(grad, flat.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(losses.value_loss, value.detach())
