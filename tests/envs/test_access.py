import os
import shutil
from pathlib import Path

import mujoco
import pytest

from telic.envs import access
from telic.envs.access import env_access, located
from telic.sim.files import model_files
from tests.envs.multifile import SECRET, write_robot


def moved(files: list[Path], source: Path, target: Path) -> None:
    """Copy files to another place, with the links that lead to them, and nothing else."""
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder) / name
            if path.resolve() in files:
                copy = target / path.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)


def test_the_files_of_a_model_are_all_it_takes_and_nothing_else(tmp_path: Path):
    model = write_robot(tmp_path / "original")
    files = model_files(model)
    assert not [path for path in files if path.name == SECRET or path.is_dir()]
    moved(files, tmp_path / "original", tmp_path / "copy")
    copy = tmp_path / "copy" / model.relative_to(tmp_path / "original")
    assert mujoco.MjModel.from_xml_path(str(copy)).nu == 8
    for left_out in files:  # each of them is needed
        shutil.rmtree(tmp_path / "copy")
        rest = [path for path in files if path != left_out]
        moved(rest, tmp_path / "original", tmp_path / "copy")
        with pytest.raises(ValueError):
            mujoco.MjModel.from_xml_path(str(copy))


def test_only_python_is_readable_where_a_module_is_imported_from(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (".env", "credentials.json", "helper.py", "notes/day.txt", "package/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(access, "require_permitted", lambda *code: None)
    found = env_access("package.module:Class", {})
    assert [path.name for path in found.readable] == ["helper.py", "package"]


def test_a_model_that_includes_itself_or_hidden_files_opens_nothing_more(tmp_path: Path):
    (tmp_path / ".keys").mkdir()
    (tmp_path / ".keys" / "id").write_text("secret")
    model = tmp_path / "loop.xml"
    model.write_text(
        '<mujoco><include file="loop.xml"/><asset><mesh file=".keys/id"/></asset></mujoco>'
    )
    assert model_files(model) == [model]


def test_a_model_is_found_through_a_link_and_from_another_folder(tmp_path: Path, monkeypatch):
    model = write_robot(tmp_path / "robot")
    link = tmp_path / "link to it"
    link.symlink_to(model.parent, target_is_directory=True)
    assert model_files(link / "robot.xml") == model_files(model)
    monkeypatch.chdir(model.parent)
    assert located("robot.xml") == str(model)
    assert located("./robot.xml") == str(model)
    assert env_access("robot.xml", {}).readable == model_files(model)
    monkeypatch.chdir(model.parent / "the parts")
    assert located("../robot.xml") == str(model)
