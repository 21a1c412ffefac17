"""The losses of the presets leave tokens that say something: encoders do not agree on nothing."""

from typing import Any

import torch

from telic.tracking.config import quarter, release
from telic.tracking.tokens import EncoderShape, LossWeights, TokenNetworks, TokenShape
from telic.training.networks import OutputGradients

SEEN, SOURCES = 60, 20
DEEP = (32, 24, 24, 24)
"""as many layers as those of `release`: a signal shrinks in each of them at first"""
SHAPE = TokenShape(
    encoders=(
        EncoderShape("robot", tuple(range(8, 8 + SEEN)), DEEP),
        EncoderShape("hybrid", tuple(range(8 + SEEN, 8 + 2 * SEEN)), DEEP),
        EncoderShape("human", tuple(range(8 + 2 * SEEN, 8 + 3 * SEEN)), DEEP),
    ),
    driving=(2, 5),
    available=(5, 8),
    senses=(0, 2),
    critic=(0, 2),
    target=(8, 8 + SEEN),
    actor_inputs=8 + 3 * SEEN,
    inputs=8 + 3 * SEEN,
    outputs=2,
    tokens=2,
    token_dim=8,
    levels=32,
    control=(8,),
    kinematic=DEEP[::-1],
    critic_hidden=(4,),
)


def motions(rows: int, seed: int) -> torch.Tensor:
    """Rows in which all three encoders see the same few sources, each mixed in its own way."""
    fixed, drawn = torch.Generator().manual_seed(7), torch.Generator().manual_seed(seed)
    mixing = torch.randn(SOURCES, 3 * SEEN, generator=fixed) / SOURCES**0.5
    x = torch.zeros(1, rows, SHAPE.inputs)
    driver = torch.randint(0, 3, (1, rows), generator=drawn)
    x[..., 2:5] = torch.nn.functional.one_hot(driver, 3).float()
    x[..., 5:8] = 1.0
    x[..., 8:] = torch.randn(1, rows, SOURCES, generator=drawn) @ mixing
    return x


def nothing(outputs: torch.Tensor, values: torch.Tensor) -> tuple[OutputGradients, None]:
    deviation = outputs.new_zeros(outputs.shape[0], outputs.shape[-1])
    return OutputGradients(
        torch.zeros_like(outputs), deviation, torch.zeros_like(values).unsqueeze(-1)
    ), None


def learned(weights: LossWeights, steps: int = 100) -> tuple[float, float, float]:
    """Learn by the losses alone; return what reconstruction leaves, equal codes, and by chance."""
    networks = TokenNetworks(SHAPE, weights._replace(rows=1.0))
    flat = networks.initialise([torch.Generator().manual_seed(1)], -1.0)
    grad = torch.zeros_like(flat)
    flat.grad = grad
    adam: Any = torch.optim.Adam([flat], lr=4e-3)
    for step in range(steps):
        rows = motions(64, 100 + step)
        networks.descend(networks.views(flat), networks.views(grad), rows, rows, nothing)
        adam.step()
    views, rows = networks.views(flat), motions(1024, 1)
    codes = [networks.quantiser(networks.encode(views, rows, e.name)) for e in SHAPE.encoders]
    left = (networks.reproduce(views, codes[0]) - rows[..., 8 : 8 + SEEN]).square().mean()
    equal = [float((codes[0] - other == 0).float().mean()) for other in codes[1:]]
    chance = [float((codes[0] - other.roll(1, 1) == 0).float().mean()) for other in codes[1:]]
    return float(left), min(equal), max(chance)


def test_the_losses_of_release_leave_tokens_that_say_what_the_motion_is():
    left, equal, chance = learned(release().losses.weights())
    assert left < 0.8, "tokens do not say the motion"
    assert equal > 1.3 * chance, "encoders agree no more about one motion than about two"
    assert quarter().losses == release().losses
