"""What every test shares: the same random numbers each time, so a failure can be seen again."""

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def same_random_numbers():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
