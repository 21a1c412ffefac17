"""Recorded episodes on disk."""

import io
import json
import os
import zipfile
from functools import partial

import numpy as np
import pytest

from telic.errors import Refused, TelicError
from telic.storage import trajectories
from telic.storage.trajectories import (
    Trajectory,
    TrajectoryFacts,
    read_trajectory,
    require_registered,
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


@pytest.mark.parametrize(("chained", "is_kept"), [(True, True), (False, True), (True, False)])
def test_an_episode_is_read_as_written_in_float32(tmp_path, chained, is_kept):
    path = tmp_path / "t.npz"
    written = episode(chained=chained)
    write_trajectory(path, written, is_kept=is_kept)
    read = read_trajectory(path)
    assert set(read.columns) == {*written.columns, "step", "timestamp"}
    for name, column in written.columns.items():
        expected = column.astype(np.float32) if column.dtype.kind == "f" else column
        assert np.array_equal(read[name], expected), name
        assert read[name].dtype == expected.dtype, name
    assert read["timestamp"].tolist() == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    assert len(read) == 5
    assert "qpos" not in read and "xpos" in read
    assert read.facts.total_return is None
    assert read.facts.model_copy(update={"total_return": 1.0}) == written.facts.model_copy(
        update={"total_return": 1.0}
    )
    with pytest.raises(ValueError, match="read-only"):
        read["obs"][0] = 1


def test_the_same_episode_gives_the_same_bytes(tmp_path):
    for name in "ab":
        write_trajectory(tmp_path / f"{name}.npz", episode())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_damaged_or_missing_file_is_named(tmp_path):
    path = tmp_path / "t.npz"
    with pytest.raises(TelicError, match="Trajectory not found"):
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


def crafted(path, **arrays: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        facts = {"env_id": "x", "dt_s": 0.1}
        arrays = {"facts": npy(np.frombuffer(json.dumps(facts).encode(), np.uint8)), **arrays}
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)


def npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def head(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HOSTILE = {
    "rows that are not there": {"qpos": head("(1000000000000, 9)")},
    "no rows, many columns": {"qpos": head("(0, 1000000000000)"), "obs": head("(1000,)")},
    "a pickle": {"qpos": npy(np.array([{}], object), allow_pickle=True)},
    "an object without data": {"qpos": head("(5,)", "|O")},
    "text": {"qpos": npy(np.array(["a"]))},
    "a single number": {"qpos": npy(np.array(1.0))},
    "lengths that differ": {"qpos": npy(np.zeros(3)), "qvel": npy(np.zeros(4))},
    "an end without a beginning": {"next_obs_last": npy(np.zeros((1, 3)))},
    "no array": {"qpos": b"import os"},
    "a negative shape": {"qpos": head("(-1, -4)") + b"0" * 16},
    "too many columns": {f"c{n}": npy(np.zeros(1)) for n in range(1001)},
    "facts that are none": {"facts": npy(np.zeros(3))},
    "no clock that ticks": {
        "facts": npy(np.frombuffer(b'{"env_id": "x", "dt_s": -1.0}', np.uint8))
    },
}


@pytest.mark.parametrize("arrays", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_lies_about_its_size_or_kind_is_refused_in_one_sentence(arrays, tmp_path):
    crafted(tmp_path / "bad.npz", **arrays)
    with pytest.raises(TelicError, match=r"bad\.npz is not a trajectory"):
        read_trajectory(tmp_path / "bad.npz")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    smaller = partial(trajectories.bounded_entries, most_bytes=1 << 25)
    monkeypatch.setattr(trajectories, "bounded_entries", smaller)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abcde":
            with archive.open(f"{name}.npy", "w") as file:
                for _ in range(8):
                    file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(TelicError, match="is too large"):
        read_trajectory(path)


@pytest.mark.parametrize(
    "facts",
    [
        {"env_id": "evil.py:Env"},
        {"env_id": "os:system"},
        {"env_id": "evil:Env-v0"},
        {"env_id": "/etc/robot.xml"},
        {"env_id": "Ant-v5", "env_kwargs": {"xml_file": "/etc/robot.xml"}},
        {"env_id": "Ant-v5", "env_kwargs": {"xml_file": "../robot.xml"}},
        {"env_id": "Ant-v5", "model_path": "/etc/robot.xml"},
        {"env_id": "Ant-v5\nevil:Env"},
    ],
)
def test_a_file_is_not_believed_in_what_to_import_or_open(facts, tmp_path):
    reported = TrajectoryFacts(dt_s=0.1, **facts)
    path = tmp_path / "episode.npz"
    write_trajectory(path, Trajectory({"qpos": np.zeros((2, 3))}, reported))
    with pytest.raises(Refused, match="must not refer"):
        require_registered(read_trajectory(path).facts, path)
    asked = read_trajectory(path, ("Hopper-v5", {"reset_noise_scale": 0.0})).facts
    assert (asked.env_id, asked.model_path) == ("Hopper-v5", None)
    assert asked.env_kwargs == {"reset_noise_scale": 0.0}
    require_registered(asked, path)


def test_what_is_not_numbers_or_not_of_one_length_is_refused(tmp_path):
    facts = TrajectoryFacts(env_id="x", dt_s=0.1)
    with pytest.raises(ValueError, match="differ in length"):
        Trajectory({"a": np.zeros(2), "b": np.zeros(3)}, facts)
    bad = Trajectory({"a": np.array([{"x": 1}], dtype=object)}, facts)
    with pytest.raises(TypeError, match="numbers or booleans"):
        write_trajectory(tmp_path / "t.npz", bad)
    assert not (tmp_path / "t.npz").exists()
    empty = Trajectory({"reward": np.zeros(0)}, facts)
    write_trajectory(tmp_path / "e.npz", empty)
    assert len(read_trajectory(tmp_path / "e.npz")) == 0


def test_pipe_is_not_a_trajectory(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(TelicError, match="not a regular file"):
        read_trajectory(tmp_path / "pipe.npz")
