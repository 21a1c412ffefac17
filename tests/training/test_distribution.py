"""Action distributions against torch's own."""

import torch

from telic.training.networks import Gaussian

GENERATOR = torch.Generator().manual_seed(1)


def test_gaussian_log_density_and_entropy_equal_torchs():
    mean, log_std = (
        torch.randn(2, 5, 3, generator=GENERATOR),
        torch.tensor([[-1.0, 0, 0.5], [0, 0, 1]]),
    )
    ours = Gaussian(3)
    actions = ours.sample(mean, log_std, torch.randn(2, 5, 3, generator=GENERATOR))
    peer = torch.distributions.Normal(mean, log_std.exp()[:, None])
    torch.testing.assert_close(
        ours.log_prob(mean, log_std, actions), peer.log_prob(actions).sum(-1)
    )
    torch.testing.assert_close(ours.entropy(mean, log_std), peer.entropy().sum(-1).mean(1))
