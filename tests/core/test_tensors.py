import numpy as np
import torch

from telic.core.tensors import broadcast, cross, from_numpy, integers, norm
from telic.core.text import is_dict, is_mapping, is_row


def test_lengths_and_products_along_the_last_dimension():
    vectors = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    assert norm(vectors).tolist() == [5.0, 2.0]
    assert norm(vectors, 0).tolist() == [3.0, 4.0, 2.0]
    assert norm(vectors, keepdim=True).shape == (2, 1)
    assert cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])).tolist() == [0, 0, 1]


def test_arrays_are_shared_and_shapes_made_common():
    array = np.zeros(2)
    from_numpy(array)[0] = 7.0
    assert array[0] == 7.0
    left, right = broadcast(torch.zeros(2, 1), torch.zeros(3))
    assert left.shape == right.shape == (2, 3)
    assert integers(torch.tensor([1, 2])) == [1, 2]


def test_containers_are_told_apart():
    assert is_dict({}) and not is_dict([])
    assert is_row([1]) and is_row((1,)) and not is_row({1})
    assert is_mapping({}) and not is_mapping("text")
