"""Files out of archives: only what is asked for, only plain files, nothing outside, nothing run."""

import contextlib
import hashlib
import io
import stat
import tarfile
import zipfile

import pytest

from telic.errors import BadFile, ResourceError
from telic.robots import _archive as archive
from telic.robots._archive import download, unpack
from telic.robots.catalogue import RobotPackage

GOOD = {"toys/zoo/dog.xml": b"<mujoco/>", "toys/zoo/a/b.obj": b"v", "toys/LICENSE": b"MIT"}


def as_wheel(path, files):
    with zipfile.ZipFile(path, "w") as out:
        for name, content in files.items():
            out.writestr(zipfile.ZipInfo(name), content)
    return path


def as_source(path, files):
    with tarfile.open(path, "w:gz") as out:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return path


KINDS = pytest.mark.parametrize("write", [as_wheel, as_source])


@KINDS
def test_only_what_is_asked_for_is_written(tmp_path, write):
    file = write(tmp_path / "toys", {**GOOD, "toys/zoology.txt": b"no", "toys/run.py": b"no"})
    unpack(file, tmp_path / "out", ["toys/zoo", "toys/LICENSE"])
    found = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")}
    assert found == {"toys/zoo/dog.xml", "toys/zoo/a/b.obj"}
    assert (tmp_path / "out/toys/LICENSE").read_bytes() == b"MIT"


@KINDS
@pytest.mark.parametrize("name", ["toys/zoo/../../../evil", "toys/zoo/..\\..\\..\\evil"])
def test_a_name_that_leads_elsewhere_writes_nothing_there(tmp_path, write, name):
    file = write(tmp_path / "toys", {name: b"evil", **GOOD})
    out = tmp_path / "deep" / "er" / "out"
    with contextlib.suppress(BadFile):
        unpack(file, out, ["toys/zoo"])
    assert all(path.is_relative_to(out) for path in tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_out_of_a_source_archive_and_pipes_are_refused(tmp_path, kind):
    file = tmp_path / "toys.tar.gz"
    with tarfile.open(file, "w:gz") as out:
        info = tarfile.TarInfo("toys/zoo/dog.xml")
        info.type, info.linkname = kind, "/etc/passwd"
        out.addfile(info)
    with pytest.raises(BadFile, match="cannot be unpacked"):
        unpack(file, tmp_path / "out", ["toys/zoo"])


@KINDS
def test_truncated_or_incomplete_archive_is_reported(tmp_path, write):
    file = write(tmp_path / "toys", GOOD)
    with pytest.raises(BadFile, match="does not contain toys/cat"):
        unpack(file, tmp_path / "out", ["toys/zoo", "toys/cat"])
    whole = file.read_bytes()
    for length in range(0, len(whole) // 2, 10):  # ends hold no content
        file.write_bytes(whole[:length])
        with pytest.raises(BadFile, match=r"cannot be unpacked|does not contain toys"):
            unpack(file, tmp_path / "out2", ["toys/zoo", "toys/LICENSE"])


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A source archive whose setup would tell if it were run."""
    setup = f"open({str(tmp_path / 'was run')!r}, 'w')".encode()
    file = as_source(tmp_path / "toys-1.0.tar.gz", {**GOOD, "toys/setup.py": setup})
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return RobotPackage("toys", "1.0", digest, file.name)


def test_a_source_archive_is_downloaded_compared_and_never_run(tmp_path, source, monkeypatch):
    pages = {f"{archive._SOURCES}/t/toys/toys-1.0.tar.gz": tmp_path / "toys-1.0.tar.gz"}
    monkeypatch.setattr(archive, "urlopen", lambda address, **_: pages[address].open("rb"))
    place = tmp_path / "place"
    place.mkdir()
    unpack(download(source, place), tmp_path / "out", ["toys/zoo"])
    assert not (tmp_path / "was run").exists()
    changed = source._replace(sha256="0" * 64)
    with pytest.raises(BadFile, match="its SHA-256 is"):
        download(changed, place)


def test_a_source_archive_in_a_folder_of_pip_is_taken_and_no_index_is_respected(
    tmp_path, source, monkeypatch
):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ResourceError, match=r"toys==1\.0 could not be downloaded: PIP_NO_INDEX"):
        download(source, place)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert download(source, place).is_file() and not (tmp_path / "was run").exists()


def test_links_of_a_wheel_are_plain_files(tmp_path):
    file = tmp_path / "toys.whl"
    with zipfile.ZipFile(file, "w") as out:
        info = zipfile.ZipInfo("toys/zoo/dog.xml")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(info, "/etc/passwd")
    unpack(file, tmp_path / "out", ["toys/zoo"])
    assert not (tmp_path / "out/toys/zoo/dog.xml").is_symlink()
