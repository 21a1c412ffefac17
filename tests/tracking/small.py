"""Token networks small enough to look into."""

import torch

from telic.tracking._tokens import EncoderShape, TokenNetworks, TokenShape
from telic.tracking.config import LossesGroup

SMALL = TokenShape(
    encoders=(
        EncoderShape("robot", (8, 9, 10), (6,)),
        EncoderShape("keypoint", (11, 12), (7,)),
        EncoderShape("sparse", (9, 13), (5, 4)),
    ),
    driving=(2, 5),
    available=(5, 8),
    senses=(0, 2),
    critic=(14, 18),
    target=(18, 21),
    actor_inputs=14,
    inputs=21,
    outputs=2,
    tokens=2,
    token_dim=3,
    levels=8,
    control=(9, 8),
    kinematic=(6,),
    critic_hidden=(7,),
)
NOTHING = LossesGroup(reconstruction=0.0, alignment=0.0, cycle=0.0)
ALL = LossesGroup(reconstruction=0.3, alignment=0.7, cycle=0.2)


def some_inputs(members: int = 2, rows: int = 40, seed: int = 0) -> torch.Tensor:
    """Inputs in which each row has somebody who drives and has something to see."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(members, rows, SMALL.inputs, generator=generator)
    driver = torch.randint(0, 3, (members, rows), generator=generator)
    x[..., 2:5] = torch.nn.functional.one_hot(driver, 3).float()
    there = torch.rand(members, rows, 3, generator=generator) < 0.6
    x[..., 5:8] = (there | (x[..., 2:5] > 0)).float()
    return x


def networks(weights: LossesGroup = ALL, members: int = 2) -> tuple[TokenNetworks, torch.Tensor]:
    made = TokenNetworks(SMALL, weights)
    starts = [torch.Generator().manual_seed(i) for i in range(members)]
    flat = made.initialise(starts, -1.0)
    noise = torch.randn(flat.shape, generator=torch.Generator().manual_seed(9))
    return made, flat + 0.1 * noise
