"""A motion library or file of another user changes nothing, and does not fill the memory."""

import zipfile

import numpy as np
import pytest
import torch

from telic.errors import BadFile, UsageError
from telic.motions.formats import _pickles as pickles
from telic.motions.formats import read_motions
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import motion_robot
from tests.motions.quick import wavy

ROBOT = motion_robot("planar-biped")
CLIP = wavy(ROBOT, 1, frames=20, fps=30.0)


@pytest.fixture
def library(tmp_path):
    with LibraryWriter(tmp_path / "library", head_for(ROBOT, [CLIP])) as writer:
        writer.add(CLIP)
    return tmp_path / "library"


@pytest.mark.parametrize("name", ["frames.f32", "human.f32", "clips.jsonl", "lock"])
def test_a_clip_is_not_added_through_a_link(library, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_bytes(b"")
    (library / "clips.jsonl").write_text("")
    (library / name).unlink()
    (library / name).symlink_to(precious)
    with (
        pytest.raises(UsageError),
        LibraryWriter(library, head_for(ROBOT, [CLIP])) as writer,
    ):
        writer.add(CLIP)
    assert precious.read_bytes() == b""


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_frames_that_no_import_wrote_are_refused(library, value):
    """Comparisons with NaN are false, so such a reference could be followed by any robot."""
    rows = np.fromfile(library / "frames.f32", dtype=np.float32)
    rows[len(rows) // 2 :] = value
    rows.tofile(library / "frames.f32")
    with pytest.raises(BadFile, match="are corrupted"):
        MotionLibrary.open(library).frames(0, torch.zeros(1))


SHARED = b"]q\x00(" + b"K\x01" * 50 + b"e0"
for level in range(1, 9):
    SHARED += b"]q" + bytes([level]) + b"(" + (b"h" + bytes([level - 1])) * 50 + b"e0"
TEXT = b"c_codecs\nencode\nq\x00X\x00\x01\x00\x00" + b"a" * 256 + b"\x85q\x010"
BOMBS = {
    "parts": b"\x80\x02" + SHARED + b"}U\x04poseh\x08s.",
    "copies": b"\x80\x02" + TEXT + b"}U\x04pose](" + b"h\x00h\x01R" * 50 + b"es.",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_small_pickle_does_not_grow(tmp_path, bomb, monkeypatch):
    monkeypatch.setattr(pickles, "_MAX_PARTS", 1000)
    monkeypatch.setattr(pickles, "most_bytes", lambda content: 10_000)
    (tmp_path / "bomb.pkl").write_bytes(bomb)
    with pytest.raises(BadFile, match="too"):
        list(read_motions(tmp_path / "bomb.pkl"))


def test_small_arrays_do_not_grow(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("root_pos", "root_rot", "dof_pos"):
            archive.writestr(f"{name}.npy", bytes(1 << 25))
    with pytest.raises(BadFile, match="the archive is too large"):
        list(read_motions(tmp_path / "bomb.npz"))
