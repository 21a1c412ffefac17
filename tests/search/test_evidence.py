"""Evidence: a long episode is thinned without saying less than the room allows."""

import re

import numpy as np

from telic.search.task import TERMINATED, Trace
from telic.search.worlds import find_task
from telic.search.writer import describe_trace


def walk(actions):
    """Return an episode of a table task that takes these actions."""
    count = len(actions)
    states = np.arange(count + 1) % 16
    return Trace(
        obs=states[:-1],
        action=np.array(actions),
        reward=np.zeros(count),
        next_obs=states[1:],
        end=TERMINATED,
    )


def test_a_short_episode_is_whole_and_a_long_one_keeps_both_ends_and_the_turns():
    task = find_task("FrozenLake-v1")
    assert "left out" not in describe_trace(task, walk([0, 1, 2]), 3)
    text = describe_trace(task, walk([0] * 20 + [1] * 20), 9)
    assert {"0:", "20:", "39:"} <= {line.split()[0] for line in text.splitlines()}
    assert "the episode ended by itself after 40 steps" in text


def test_by_the_published_thinning_both_ends_are_all_that_is_left():
    text = describe_trace(find_task("FrozenLake-v1"), walk([0, 1] * 60), 50, "ends")
    steps = [int(each) for each in re.findall(r"^(\d+):", text, re.MULTILINE)]
    assert steps == [*range(25), *range(95, 120)] and "(70 steps left out)" in text
