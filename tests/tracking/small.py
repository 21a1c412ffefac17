"""Token networks small enough to look into."""

import torch

from telic.tracking._tokens import TokenNetworks, TokenShape
from telic.tracking.config import EncoderGroup, LossesGroup, NetworksGroup

_HIDDEN = {"robot": (6,), "keypoint": (7,), "sparse": (5, 4)}
SMALL = TokenShape(
    encoders={"robot": (8, 9, 10), "keypoint": (11, 12), "sparse": (9, 13)},
    spans={
        "senses": (0, 2),
        "driving": (2, 5),
        "available": (5, 8),
        "commanded": (8, 14),
        "critic": (14, 18),
        "target": (18, 21),
        "guide": (21, 21),
    },
    outputs=2,
    networks=NetworksGroup(
        encoders={name: EncoderGroup(terms=("height",), hidden=h) for name, h in _HIDDEN.items()},
        tokens=2,
        token_dim=3,
        levels=8,
        control=(9, 8),
        kinematic=(6,),
        critic=(7,),
    ),
)
NOTHING = LossesGroup(reconstruction=0.0, alignment=0.0, cycle=0.0)
ALL = LossesGroup(reconstruction=0.3, alignment=0.7, cycle=0.2)


def some_inputs(members: int = 2, rows: int = 40, seed: int = 0) -> torch.Tensor:
    """Inputs in which each row has a driving encoder and observations."""
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
    flat = made.initialize(starts, -1.0)
    noise = torch.randn(flat.shape, generator=torch.Generator().manual_seed(9))
    return made, flat + 0.1 * noise
