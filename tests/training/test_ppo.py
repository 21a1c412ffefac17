"""Advantages against numbers worked out by hand."""

import torch

from telic.training.ppo import advantages

GAMMA, LAM = torch.tensor([[0.5]]), torch.tensor([[0.5]])


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool).view(-1, 1, 1)


def test_an_unbroken_episode():
    # delta = r + 0.5 V' - V: [1 + 1 - 1, 2 + 1.5 - 2, 3 + 2 - 3] = [1, 1.5, 2]
    # A_2 = 2; A_1 = 1.5 + 0.25 * 2 = 2; A_0 = 1 + 0.25 * 2 = 1.5
    out = advantages(
        column(1, 2, 3),
        column(1, 2, 3),
        column(2, 3, 4),
        flags(0, 0, 0),
        flags(0, 0, 0),
        GAMMA,
        LAM,
    )
    assert out.flatten().tolist() == [1.5, 2.0, 2.0]


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


def test_each_member_uses_its_own_discount():
    two = advantages(
        torch.ones(2, 2, 1),
        torch.zeros(2, 2, 1),
        torch.ones(2, 2, 1),
        torch.zeros(2, 2, 1).bool(),
        torch.zeros(2, 2, 1).bool(),
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([[1.0], [1.0]]),
    )
    assert two[:, 0, 0].tolist() == [1.0, 1.0]
    assert two[:, 1, 0].tolist() == [4.0, 2.0]
