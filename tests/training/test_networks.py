"""A stack of networks computes what each network would alone."""

import pytest
import torch

from telic.training.job import PpoSettings
from telic.training.networks import Networks, Shape


def networks(**changes) -> Networks:
    settings = PpoSettings(hidden=(8, 4), **changes)
    return Networks(Shape.of(settings, 5, 7, 2, discrete=False))


def start(net: Networks, members: int) -> torch.Tensor:
    return net.initialise([torch.Generator().manual_seed(i) for i in range(members)], -0.5)


@pytest.mark.parametrize("activation", ["tanh", "elu", "relu"])
def test_a_member_of_the_stack_equals_a_plain_network(activation):
    net = networks(activation=activation)
    flat = start(net, 3)
    views = net.views(flat)
    x = torch.randn(3, 6, 5)
    function = {"tanh": torch.tanh, "elu": torch.nn.functional.elu, "relu": torch.relu}[activation]
    expected = x[1]
    for index, layer in enumerate(views.actor):
        expected = expected @ layer.weight[1] + layer.bias[1]
        if index < len(views.actor) - 1:
            expected = function(expected)
    torch.testing.assert_close(net.act(views, x)[1], expected)


def test_the_gradient_of_one_members_loss_stays_in_its_row():
    net = networks()
    flat = start(net, 3).requires_grad_()
    net.value(net.views(flat), torch.randn(3, 6, 7))[1].sum().backward()
    assert flat.grad is not None
    assert flat.grad[1].abs().sum() > 0
    assert flat.grad[[0, 2]].abs().sum() == 0
