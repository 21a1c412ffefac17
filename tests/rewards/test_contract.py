import pytest
import torch

from telic.errors import RewardError
from telic.rewards.contract import RewardFunction, initial_memory, reset_memory


class Plain(RewardFunction):
    weights = {"speed": 1.0}  # noqa: RUF012

    def __init__(self):
        """Forgets to call the base class."""


def test_every_instance_has_weights_of_its_own():
    one, other = Plain(), Plain()
    one.weights["speed"] = 5.0
    assert other.weights == {"speed": 1.0}
    assert Plain.weights == {"speed": 1.0}


def test_memory_starts_at_its_declared_values():
    rows = initial_memory({"phase": 2, "start": (3,), "pose": (0.5, -1.0)}, "cpu")
    assert {name: row.tolist() for name, row in rows.items()} == {
        "phase": [2.0],
        "start": [[0.0, 0.0, 0.0]],
        "pose": [[0.5, -1.0]],
    }
    assert all(row.dtype is torch.float32 for row in rows.values())


def test_reset_puts_back_only_the_rows_that_ended():
    initial = initial_memory({"turns": 1.0, "pose": (0.5, -1.0)}, "cpu")
    memory = {"turns": torch.tensor([7.0, 8.0, 9.0]), "pose": torch.full((3, 2), 4.0)}
    reset_memory(memory, initial, torch.tensor([False, True, False]))
    assert memory["turns"].tolist() == [7.0, 1.0, 9.0]
    assert memory["pose"].tolist() == [[4.0, 4.0], [0.5, -1.0], [4.0, 4.0]]


@pytest.mark.parametrize("start", ["zero", None, (), [0.0], ("a",)])
def test_memory_of_another_kind_is_refused(start):
    with pytest.raises(RewardError, match=r'The memory "phase" is declared as .* Write a number'):
        initial_memory({"phase": start}, "cpu")
