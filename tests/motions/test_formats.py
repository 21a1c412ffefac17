"""Every format is read by its content; a wrong file is an error with its place; nothing runs."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from telic.core.tensors import from_numpy
from telic.errors import BadFile, TelicError
from telic.motions.clip import MotionClip, MotionOrigin
from telic.motions.formats import _array_tracks, read_motions
from telic.motions.formats._pickles import read_pickle
from telic.motions.formats._robots import robot_clip
from telic.motions.formats._track import ReadOptions, RobotTrack, SkeletonTrack
from telic.motions.generate import make_clip
from telic.motions.robot import motion_robot
from tests.motions.files import (
    STYLES,
    good_files,
    lafan_csv,
    mjlab_npz,
    npz,
    person_bvh,
)
from tests.motions.quick import wavy

ROBOT = motion_robot("Humanoid-v5")
CLIP = wavy(ROBOT, frames=12)
GOOD = good_files(CLIP)
OF_ROBOTS = sorted(set(GOOD) - {"smpl.npz"})
AT_50 = ReadOptions(fps=50.0)


def _read(tmp_path: Path, content: bytes, name: str = "file", options: ReadOptions = AT_50):
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_motions(path, options))


def _bodies(clip: MotionClip) -> np.ndarray:
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    return motion_robot(clip.robot).kinematics.poses(*columns)[0].numpy()


@pytest.mark.parametrize("name", OF_ROBOTS)
def test_a_robots_clip_comes_back_within_millimeters(tmp_path: Path, name: str) -> None:
    # The name says nothing: what a file is shows in its content.
    for track in _read(tmp_path, GOOD[name], "anything.dat"):
        assert isinstance(track, RobotTrack)
        back = robot_clip(track, ROBOT, MotionOrigin(), AT_50)
        assert np.abs(_bodies(back) - _bodies(CLIP)).max() < 0.005
        assert back.fps == 50.0


@pytest.fixture(scope="module")
def walk() -> MotionClip:
    """A walk of the humanoid, with the person who does the same."""
    parameters = {"seconds": 1.2, "speed": 0.8, "rhythm": 1.0, "lift": 0.08}
    return make_clip(ROBOT, "walk", parameters)


@pytest.mark.parametrize("style", STYLES)
def test_a_persons_bvh_comes_back_within_millimeters(
    tmp_path: Path, walk: MotionClip, style: str
) -> None:
    (track,) = _read(tmp_path, person_bvh(walk, style), options=ReadOptions())
    assert isinstance(track, SkeletonTrack) and walk.human is not None
    assert len(track.root_quat) == walk.frames, "a T-pose at the beginning is removed"
    for place, name in enumerate(walk.human.names):
        assert np.abs(track.points[name] - walk.human.points[:, place]).max() < 0.005, name
    pelvis = Rotation.from_quat(track.root_quat, scalar_first=True)
    assert pelvis.apply([0, 0, 1])[:, 2].min() > 0.95, "upright, whatever the axes of its root"
    assert pelvis.apply([1, 0, 0])[:, 0].min() > 0.9, "facing where it walks"


def test_the_order_of_unnamed_joints_follows_from_body_positions(tmp_path: Path) -> None:
    other = CLIP.replace(joint_pos=CLIP.joint_pos[:, ::-1])
    arrays = dict(np.load(_file(tmp_path, mjlab_npz(CLIP))))
    (track,) = _read(tmp_path, npz(**{**arrays, "joint_pos": other.joint_pos}))
    with pytest.raises(BadFile, match=r"deviates by 0\.\d+ m at \d"):
        robot_clip(track, ROBOT, MotionOrigin())
    (track,) = _read(tmp_path, npz(**{**arrays, "fps": 25.0}))
    with pytest.raises(BadFile, match=r"imply (49|50|51)\.\d frames per second"):
        robot_clip(track, ROBOT, MotionOrigin())


def _file(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "arrays").write_bytes(content)
    return tmp_path / "arrays"


def test_an_unknown_frame_rate_is_asked_for(tmp_path: Path) -> None:
    (track,) = _read(tmp_path, lafan_csv(CLIP), options=ReadOptions())
    with pytest.raises(BadFile, match="does not specify a frame rate") as raised:
        robot_clip(track, ROBOT, MotionOrigin())
    assert "--fps" in str(raised.value)
    assert robot_clip(track, ROBOT, MotionOrigin(), ReadOptions(fps=60.0)).fps == 60.0


def _mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, cut out, put in or turned round."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.choice((1, 5, 500))]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.choice((1, 4)))
        elif kind == 3:
            data[at : at + 3] = rng.choice((b"nan", b"inf", b"1e9", b"-", b",,", b"{", b"\x00"))
        else:
            data = data[: max(1, at)]
        if not data:
            return b"x"
    return bytes(data)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_files_that_were_damaged_are_read_or_refused_in_a_sentence(
    tmp_path: Path, name: str
) -> None:
    rng = random.Random(name)
    for _ in range(int(os.environ.get("TELIC_MUTANTS", "60"))):
        try:
            for track in _read(tmp_path, _mutated(GOOD[name], rng)):
                if isinstance(track, RobotTrack):
                    robot_clip(track, ROBOT, MotionOrigin(), AT_50)
        except TelicError as error:
            assert str(error).strip() and "\n" not in error.message


class _Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/telic-motions-was-run",)


class _State:
    def __reduce__(self):
        return dict, (), {"a": 1}


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "make", [_Bomb, _State, lambda: np.array([_Bomb()], dtype=object), lambda: {1, 2}]
)
def test_a_pickle_runs_nothing(make, protocol: int) -> None:
    with pytest.raises(BadFile, match="bomb"):
        read_pickle(pickle.dumps({"clip": make()}, protocol=protocol), "bomb.pkl")
    assert not Path("/tmp/telic-motions-was-run").exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cposix\nsystem\n(S'true'\ntR.",
        b"(S'a'\nibuiltins\nexec\n.",
        b"\x80\x02\x82\x01.",
        b"P1\n.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"cnumpy\ndtype\n(S'O'\ntR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(tRcnumpy.core.multiarray\n_reconstruct\nb.",
        b"(" * 5000 + b".",
        b"]" * 3000 + b"a" * 2999 + b".",
        b"}" + b"q\x00h\x00h\x00s.",
    ],
)
def test_programs_in_pickles_are_refused(code: bytes) -> None:
    with pytest.raises(BadFile, match=r"p\.pkl"):
        read_pickle(code, "p.pkl")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"hello", b"%PDF-1.4", b"\x00" * 50, b"{}", b"[]"]
)
def test_invalid_motion_is_reported(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadFile, match=r"f\.x"):
        _read(tmp_path, content, "f.x")


@pytest.mark.parametrize("name", ["smpl.npz"])
def test_people_stand_upright_and_face_ahead(tmp_path: Path, name: str) -> None:
    (track,) = _read(tmp_path, GOOD[name], options=ReadOptions())
    assert isinstance(track, SkeletonTrack)
    first = {key: way[0] for key, way in track.points.items()}
    assert first["head"][2] > first["pelvis"][2] > first["left_knee"][2] > first["left_ankle"][2]
    assert first["left_hip"][1] > first["right_hip"][1]
    assert first["left_toe"][0] > first["left_ankle"][0]
    assert first["pelvis"][2] - first["left_ankle"][2] == pytest.approx(0.85, abs=0.06)
    assert np.abs(track.root_quat[0]) == pytest.approx([1, 0, 0, 0], abs=0.05)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 1e300, "word", None, [], [1.0], {}, True, b"x", 10**400],
    ids=lambda value: str(value)[:8],
)
@pytest.mark.parametrize("column", ["root_trans_offset", "dof", "root_rot", "fps"])
def test_values_that_are_none_are_refused_with_their_place(column: str, value: object) -> None:
    entry = {
        "root_trans_offset": CLIP.root_pos.tolist(),
        "dof": CLIP.joint_pos.tolist(),
        "root_rot": CLIP.root_quat[:, [1, 2, 3, 0]].tolist(),
        "fps": 50,
    }
    if column == "fps":
        entry["fps"] = value
    else:
        entry[column][3][1] = value
    try:
        for track in _array_tracks({"a clip": entry}, "file.pkl", "file", AT_50):
            robot_clip(track, ROBOT, MotionOrigin())
        # True is the number 1, and a row of one number is a rate.
        assert value is True or (column, value) == ("fps", [1.0])
    except BadFile as error:
        assert "file.pkl" in error.message or "a clip" in error.message
