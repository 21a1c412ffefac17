"""Recorded episodes on disk."""

import numpy as np
import pytest

from telic.errors import TelicError
from telic.storage.trajectories import (
    Trajectory,
    TrajectoryFacts,
    read_trajectory,
    write_trajectory,
)


def episode(steps=5, chained=True) -> Trajectory:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(steps + 1, 3))
    after = states[1:] if chained else rng.normal(size=(steps, 3))
    columns = {
        "obs": states[:-1],
        "next_obs": after,
        "action": rng.normal(size=(steps, 2)).astype(np.float32),
        "reward": rng.normal(size=steps),
        "reward_terms": rng.normal(size=(steps, 2)),
        "terminated": np.arange(steps) == steps - 1,
        "truncated": np.zeros(steps, dtype=bool),
        "xpos": rng.normal(size=(steps, 4, 3)),
    }
    facts = TrajectoryFacts(
        env_id="HalfCheetah-v5",
        env_kwargs={"forward_reward_weight": 2.0},
        dt_s=0.05,
        seed=7,
        label="p90",
        total_return=float("nan"),
        reward_term_names=("speed", "control"),
        body_names=("world", "torso"),
    )
    return Trajectory(columns, facts)


@pytest.mark.parametrize("chained", [True, False])
def test_an_episode_is_read_as_written_in_float32(tmp_path, chained):
    path = tmp_path / "t.npz"
    written = episode(chained=chained)
    write_trajectory(path, written)
    read = read_trajectory(path)
    assert set(read.columns) == {*written.columns, "step", "timestamp"}
    for name, column in written.columns.items():
        expected = column.astype(np.float32) if column.dtype.kind == "f" else column
        assert np.array_equal(read[name], expected), name
        assert read[name].dtype == expected.dtype, name
    assert read["timestamp"].tolist() == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    assert len(read) == 5
    assert read.duration_s == pytest.approx(0.25)
    assert "qpos" not in read and "xpos" in read
    assert read.facts.total_return is None
    assert read.facts.model_copy(update={"total_return": 1.0}) == written.facts.model_copy(
        update={"total_return": 1.0}
    )
    with pytest.raises(ValueError, match="read-only"):
        read["obs"][0] = 1


def test_plain_numpy_reads_the_columns_without_pickle(tmp_path):
    path = tmp_path / "t.npz"
    write_trajectory(path, episode())
    with np.load(path, allow_pickle=False) as archive:
        assert archive["reward"].shape == (5,)
        assert all(archive[name].dtype.kind in "fiub" for name in archive.files)


def test_rows_are_plain_python_data(tmp_path):
    path = tmp_path / "t.npz"
    write_trajectory(path, episode())
    rows = list(read_trajectory(path).rows())
    assert len(rows) == 5
    last = rows[-1]
    assert last["step"] == 4 and last["terminated"] is True
    assert isinstance(last["reward"], float) and isinstance(last["obs"], list)
    assert set(last["reward_terms"]) == {"speed", "control"}
    assert np.shape(last["xpos"]) == (4, 3)


def test_the_same_episode_gives_the_same_bytes(tmp_path):
    for name in "ab":
        write_trajectory(tmp_path / f"{name}.npz", episode())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_next_obs_costs_one_row_when_it_is_the_next_obs(tmp_path):
    for chained in (True, False):
        write_trajectory(tmp_path / f"{chained}.npz", episode(2000, chained))
    sizes = [(tmp_path / f"{chained}.npz").stat().st_size for chained in (True, False)]
    assert sizes[0] < sizes[1] - 15_000


def test_a_damaged_or_missing_file_is_named(tmp_path):
    path = tmp_path / "t.npz"
    with pytest.raises(TelicError, match="There is no trajectory"):
        read_trajectory(path)
    write_trajectory(path, episode())
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    with pytest.raises(TelicError, match=r"t\.npz is not a trajectory"):
        read_trajectory(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\xff\xff\xff" + content[middle + 3 :])
    with pytest.raises(TelicError, match=r"t\.npz is not a trajectory"):
        read_trajectory(path)


def test_what_is_not_numbers_or_not_of_one_length_is_refused(tmp_path):
    facts = TrajectoryFacts(env_id="x", dt_s=0.1)
    with pytest.raises(ValueError, match="differ in length"):
        Trajectory({"a": np.zeros(2), "b": np.zeros(3)}, facts)
    bad = Trajectory({"a": np.array([{"x": 1}], dtype=object)}, facts)
    with pytest.raises(TypeError, match="numbers and booleans"):
        write_trajectory(tmp_path / "t.npz", bad)
    assert not (tmp_path / "t.npz").exists()
    empty = Trajectory({"reward": np.zeros(0)}, facts)
    write_trajectory(tmp_path / "e.npz", empty)
    assert len(read_trajectory(tmp_path / "e.npz")) == 0
