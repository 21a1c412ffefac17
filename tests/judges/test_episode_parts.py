"""Parts of an episode: before and after a moment, counted movements, gates and guards."""

import numpy as np
import pytest

from telic.envs.catalogue import describe
from telic.judges.criteria import require, score, total_score
from telic.judges.episode import RecordedEpisode
from telic.storage.trajectories import Trajectory, TrajectoryFacts


@pytest.fixture(scope="module")
def episode():
    """A hopper that goes 0.1 m a step for 100 of its 1000 steps."""
    qpos = np.zeros((100, 6), np.float32)
    qpos[:, 0] = 0.1 * np.arange(100)
    facts = TrajectoryFacts(env_id="Hopper-v5", dt_s=0.008)
    columns = {"qpos": qpos, "action": np.zeros((100, 3), np.float32)}
    return RecordedEpisode(Trajectory(columns, facts), describe("Hopper-v5"))


def test_the_parts_before_and_after_a_step_make_the_whole(episode):
    before, after = episode.before(39), episode.after(39)
    assert (len(before), len(after)) == (40, 60)
    assert before.full_seconds == pytest.approx(before.seconds) == pytest.approx(40 * 0.008)
    assert after.full_seconds == pytest.approx(960 * 0.008)
    assert episode.left(39) == pytest.approx(after.seconds)


def test_a_moment_that_never_came_leaves_nothing_after_it(episode):
    assert episode.before(None) is episode
    assert len(episode.after(None)) == 1 and episode.left(None) == 0.0
    assert len(episode.after(99)) == 1 and episode.left(99) == 0.0


def test_when_adds_up_the_time_something_held(episode):
    mask = np.zeros(100, bool)
    mask[10:20] = mask[50:90] = True
    assert episode.when(mask) == 10
    assert episode.when(mask, 15 * 0.008) == 54
    assert episode.when(mask, 1.0) is None


def test_movements_are_counted_when_they_are_complete(episode):
    wave = np.sin(np.linspace(0, 6 * np.pi, 100))
    counts = episode.count(wave > 0.8, wave < -0.8)
    assert counts[-1] == 3 and counts[0] == 0
    assert episode.count(wave > 0.8, wave < -2.0)[-1] == 0


def test_a_guard_behind_a_closed_gate_takes_nothing_away():
    gate = score("first", 0.0, zero=0.0, goal=1.0)
    main = score("main", 1.0, zero=0.0, goal=1.0)
    closed = require("later", 0.0, zero=0.0, goal=1.0, tag="falls", after=gate)
    opened = require("later", 0.0, zero=0.0, goal=1.0, tag="falls", after=main)
    assert total_score([gate, main, closed]) == pytest.approx(0.5)
    assert closed.tag is None and closed.value is None
    assert total_score([gate, main, opened]) == 0.0
