"""Transferred files arrive complete, and no path leaves the target folder."""

import io
import json
import tempfile
import zipfile

import pytest

from telic.errors import BadFile
from telic.jobs._ray_cluster import _own_folder, pack, unpack


def test_only_what_changed_travels_and_what_was_removed_goes(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "out").mkdir(parents=True)
    for name in ("a", "b"):
        (here / "out" / name).write_text(name)
    (here / "out" / ".unfinished-1-c").write_text("half")
    (here / "out" / "lock").write_text("1")
    first = pack(here, ["out"])
    assert unpack(first.content, there).written == ("out/a", "out/b")
    (here / "out" / "a").write_text("longer")
    (here / "out" / "b").unlink()
    second = pack(here, ["out"], first.marks)
    assert unpack(second.content, there) == (("out/a",), ("out/b",))
    assert [path.name for path in (there / "out").iterdir()] == ["a"]
    assert (there / "out" / "a").read_text() == "longer"
    assert unpack(pack(here, ["out"], second.marks).content, there) == ((), ())


@pytest.mark.parametrize("name", ["../a", "/tmp/a", "b/../../a", "link/a"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    for written, removed in ((name, []), ("fine", [name])):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(written, "x")
            archive.writestr(".removed.json", json.dumps(removed))
        with pytest.raises(BadFile, match="outside its folder"):
            unpack(content.getvalue(), home)
    assert list(home.iterdir()) == [home / "link"]


def test_job_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with _own_folder("mine") as (folder, _):
        assert folder.is_dir()
    base = folder.parent
    base.rmdir()
    base.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="another user"), _own_folder("mine"):
        pass
