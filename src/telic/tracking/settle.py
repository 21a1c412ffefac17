"""Let encoders agree at the end: the others learn to give the first one's tokens.

While PPO learns, encoders chase tokens that move: they stay about a level of the grid apart, though
what they see would tell them more. When nothing moves any more, some hundred steps on a few batches
bring them together. The first encoder and both decoders stay as they are, and so does what the
robot does when the first one drives.
"""

from __future__ import annotations

from telic.tracking.config import TrackingConfig
from telic.tracking.tokens import LOSSES, TokenNetworks
from telic.tracking.warmup import forget_steps, learn_without_rewards
from telic.training.setup import Setup

_RATE = 1e-3


def settle(setup: Setup, config: TrackingConfig) -> list[float]:
    """Learn from `trainer.settle` batches; returns how far apart latents were in each."""
    population, networks = setup.population, setup.population.networks
    assert isinstance(networks, TokenNetworks)
    batches = config.trainer.settle
    if not batches or len(config.networks.encoders) < 2:
        return []
    forget_steps(setup)
    place = LOSSES.index("alignment")
    networks.weights.zero_()
    networks.weights[place] = 1.0
    told: list[float] = []
    with networks.drawn_to_first():
        for number in range(batches):
            population.learning_rate.fill_(_RATE * (1.0 - number / batches))
            iteration = setup.job.iterations + number
            losses = learn_without_rewards(setup, iteration, "settle", normalises=False)
            told.append(losses[place].mean().item())
    return told
