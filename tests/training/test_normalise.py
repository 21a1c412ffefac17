"""Running statistics against numpy over the whole stream."""

import numpy as np
import torch

from telic.training.population import Moments, ReturnScale

ALIVE = torch.ones(2, dtype=torch.bool)


def test_moments_of_many_batches_equal_those_of_the_whole_stream():
    stream = torch.randn(2, 300, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    moments = Moments(2, 3)
    for piece in stream.split(100, dim=1):
        moments.update(piece, ALIVE)
    np.testing.assert_allclose(moments.mean, stream.double().mean(1), rtol=1e-4)
    np.testing.assert_allclose(moments.var, stream.double().var(1, correction=0), rtol=1e-4)


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    rewards = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    done = torch.tensor([False, True, False]).view(3, 1, 1)
    scale = ReturnScale(1, 1)
    out = scale.update(rewards, done, torch.tensor([[0.5]]), ALIVE[:1])
    # returns under way: 1, 2 + 0.5, then anew: 3
    deviation = np.std([1.0, 2.5, 3.0])
    np.testing.assert_allclose(out.flatten(), rewards.flatten() / deviation, rtol=1e-3)
    assert scale.running.item() == 3.0
