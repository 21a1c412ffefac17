"""Policies: ranks, hand-computed actions, bounds, and text that agrees with the code."""

import numpy as np
import pytest

from telic.errors import ConfigError, UnknownName
from telic.search.policies import make_policy
from telic.search.worlds import TASKS, find_task

RANKS = {
    "CartPole-v1": 10,
    "MountainCar-v0": 9,
    "MountainCarContinuous-v0": 3,
    "InvertedPendulum-v5": 5,
    "InvertedDoublePendulum-v5": 10,
    "Swimmer-v5": 18,
    "Pong-v0": 18,
    "Nim-v0": 11,
    "FrozenLake-v1": 16,
    "Maze-v0": 9,
}


def policy(name, kind=None, *, is_scaled=False):
    return make_policy(kind, find_task(name), is_scaled=is_scaled, seed=0, decimals=1)


@pytest.mark.parametrize("name", TASKS)
def test_ranks_are_the_published_ones_and_every_number_has_a_name(name):
    made = policy(name)
    assert made.space.rank == RANKS[name]
    assert len(set(made.space.names)) == made.space.rank


def test_weights_go_row_by_row_then_biases():
    made = policy("MountainCar-v0")
    #                 position: L  none R   velocity: L  none R    biases
    params = np.array([[1.0, 2.0, 3.0, 10.0, 20.0, 30.0, 0.0, 0.0, -99.0]])
    weights = made.weights(params)
    # outputs: 1 + 10, 2 + 20, 3 + 30 - 99
    assert made.act(weights, np.array([[1.0, 1.0]])).tolist() == [1]
    assert made.space.names[4] == "weight of velocity on do not push"
    assert made.space.names[8] == "bias of push right"


def test_scaling_centres_and_divides():
    made = policy("MountainCarContinuous-v0", is_scaled=True)
    weights = made.weights(np.array([[2.0, 3.0, 0.5]]))
    action = made.act(weights, np.array([[0.6, 0.035]]))
    assert action[0, 0] == pytest.approx(2 * (0.6 + 0.3) / 0.9 + 3 * 0.5 + 0.5)
    assert "(position - -0.3) / 0.9" in made.space.formula


def test_fitting_says_what_it_changed():
    space = policy("CartPole-v1").space
    fitted = space.fit((7.0, 1.26, *[0.0] * 8))
    assert fitted.params[:2] == (6.0, 1.3)
    assert "params[0] = 7 lies outside [-6, 6]" in fitted.warnings[0]
    assert "rounded to 1 decimals" in fitted.warnings[1]


def test_families_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="must be a table"):
        policy("Nim-v0", "linear")
    with pytest.raises(ConfigError, match="no numbered states"):
        policy("CartPole-v1", "table")
    with pytest.raises(UnknownName, match="linaer"):
        policy("CartPole-v1", "linaer")
