"""Advantages against numbers worked out by hand."""

import torch

from telic.training.ppo import advantages

GAMMA, LAM = torch.tensor([[0.5]]), torch.tensor([[0.5]])


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool).view(-1, 1, 1)


def test_a_terminated_step_has_no_future():
    # step 1 terminates: delta_1 = 2 - 2 = 0, nothing flows back from step 2
    out = advantages(
        column(1, 2, 3),
        column(1, 2, 3),
        column(2, 3, 4),
        flags(0, 1, 0),
        flags(0, 1, 0),
        GAMMA,
        LAM,
    )
    assert out.flatten().tolist() == [1.0, 0.0, 2.0]


def test_a_truncated_step_bootstraps_from_the_state_it_reached():
    # step 1 is cut by the clock: V' = 3 counts, but step 2 belongs to another episode
    out = advantages(
        column(1, 2, 3),
        column(1, 2, 3),
        column(2, 3, 4),
        flags(0, 0, 0),
        flags(0, 1, 0),
        GAMMA,
        LAM,
    )
    assert out.flatten().tolist() == [1.375, 1.5, 2.0]
