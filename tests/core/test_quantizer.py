"""Finite scalar quantization against its formulas."""

import math

import pytest
import torch

from telic.core.quantizer import Quantizer

LEVELS = [2, 3, 5, 8, 15, 16, 32, 255, 256, 300]


@pytest.mark.parametrize("levels", LEVELS)
def test_tokens_lie_on_the_grid_and_every_level_is_reached(levels):
    quantizer = Quantizer(levels)
    z = quantizer(torch.linspace(-12, 12, 40_001))
    assert torch.equal(z, quantizer.values(quantizer.codes(z)))
    assert quantizer.codes(z).long().unique().tolist() == list(range(levels))
    assert z.min() >= -1.0 and z.max() <= 1.0


def test_the_numbers_are_those_of_the_formula():
    half = 31 * 1.001 / 2
    assert math.isclose(half, 15.5155)
    for latent in (-3.0, -0.4, 0.07, 0.9):
        y = math.tanh(latent + math.atanh(0.5 / half)) * half - 0.5
        assert float(Quantizer(32)(torch.tensor([latent]))) == pytest.approx(round(y) / 16)


@pytest.mark.parametrize("levels", [5, 8, 32])
def test_the_gradient_passes_as_if_nothing_were_rounded(levels):
    latent = torch.linspace(-2, 2, 41, requires_grad=True)
    quantizer = Quantizer(levels)
    (through,) = torch.autograd.grad(quantizer(latent).sum(), latent)
    (smooth,) = torch.autograd.grad((quantizer.bound(latent) / (levels // 2)).sum(), latent)
    torch.testing.assert_close(through, smooth)


@pytest.mark.parametrize("levels", LEVELS)
def test_codes_give_back_what_they_were_made_of(levels):
    quantizer = Quantizer(levels)
    codes = torch.randint(0, levels, (4, 3, 13), generator=torch.Generator().manual_seed(levels))
    assert torch.equal(quantizer.codes(quantizer.values(codes)).long(), codes)
