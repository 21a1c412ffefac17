"""Action distributions against torch's own."""

import torch

from telic.training.networks import Categorical, Gaussian

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


def test_categorical_samples_follow_the_probabilities():
    logits = torch.tensor([0.0, 1.0, 2.0]).expand(1, 20000, 3)
    ours = Categorical(3)
    noise = ours.noise(1, 20000, GENERATOR)
    drawn = ours.sample(logits, torch.empty(1, 0), noise)
    share = torch.bincount(drawn.long().flatten(), minlength=3) / 20000
    torch.testing.assert_close(share, logits[0, 0].softmax(0), atol=0.015, rtol=0)
    peer = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(
        ours.log_prob(logits, torch.empty(1, 0), drawn), peer.log_prob(drawn.squeeze(-1))
    )
    torch.testing.assert_close(ours.entropy(logits, torch.empty(1, 0))[0], peer.entropy().mean())
