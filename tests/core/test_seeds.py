"""Counter-based numbers: reproducible, independent, with the right distribution."""

import torch

from telic.core.seeds import derive, uniform

SEED = torch.full((50_000,), derive(7, "env"))
COUNTER = torch.arange(50_000)


def test_a_seed_depends_on_the_whole_path():
    assert derive(1, "a") == derive(1, "a")
    assert len({derive(1, "a"), derive(1, "b"), derive(2, "a"), derive("1a")}) == 4


def test_a_row_does_not_depend_on_its_neighbors():
    whole = uniform(SEED, COUNTER, 3)
    part = uniform(SEED[10:12], COUNTER[10:12], 3)
    assert torch.equal(whole[10:12], part)


def test_uniform_numbers_are_uniform_and_uncorrelated():
    numbers = uniform(SEED, COUNTER, 4)
    assert numbers.dtype == torch.float64
    assert numbers.min() >= 0 and numbers.max() < 1
    torch.testing.assert_close(numbers.mean(0), torch.full((4,), 0.5).double(), atol=0.01, rtol=0)
    torch.testing.assert_close(numbers.var(0), torch.full((4,), 1 / 12).double(), atol=0.01, rtol=0)
    off_diagonal = torch.corrcoef(numbers.T) - torch.eye(4)
    assert off_diagonal.abs().max() < 0.02
    assert len(torch.unique(numbers)) > 199_900
