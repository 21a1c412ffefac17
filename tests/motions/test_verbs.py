"""Motions by their verbs: made, taken in, sorted, brought to another robot, seen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from telic.errors import BadFile, UsageError
from telic.motions.checks import FilterLimits
from telic.motions.library import MotionLibrary
from telic.motions.robot import motion_robot
from telic.verbs import motions as verbs
from tests.motions.files import good_files
from tests.motions.quick import wavy


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips that were generated."""
    folder = tmp_path_factory.mktemp("motions") / "planar"
    made = verbs.generate_motions(robot="planar-biped", count=1, families=["stand"], library=folder)
    assert made.counts == {"added": 1}
    more = verbs.generate_motions(robot="planar-biped", count=2, families=["stand"], library=folder)
    assert more.counts == {"added": 1}
    return folder


def test_a_library_is_listed_and_shown(library: Path) -> None:
    found = verbs.show_motions(library=library)
    assert [line["clip"] for line in found["clips"]] == ["stand-0-0000", "stand-0-0001"]
    assert {line["license"] for line in found["clips"]} == {"CC0-1.0"}
    page = verbs.show_motions("stand-0-0001", library=library)
    assert page["reasons"] == [] and page["measured"]["skate_m_s"] < 0.02
    assert verbs.show_motions(library=library, match="0001")["total"] == 1


def test_good_and_bad_files_are_taken_in_together(tmp_path: Path) -> None:
    robot = motion_robot("Humanoid-v5")
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in good_files(wavy(robot, frames=60)).items():
        if name.endswith(("own.npz", "lafan.csv", "clips.pkl")):
            (folder / name).write_bytes(content)
    (folder / "bad.npz").write_bytes(b"PK\x03\x04 and nothing")
    (folder / "notes.txt").write_text("nothing")
    made = verbs.import_motions(
        [str(folder)],
        robot="Humanoid-v5",
        library=tmp_path / "out",
        limits=["none"],
        fps=50.0,
        held_out="clips*",
        license="mine",
    )
    outcomes = {(line.clip, line.outcome) for line in made.lines}
    assert {("bad", "unreadable"), ("notes", "unreadable")} <= outcomes
    assert made.counts["added"] >= 1 and made.counts["duplicate"] >= 2
    clips = MotionLibrary.open(tmp_path / "out").clips
    assert all(line.origin.license == "mine" for line in clips)
    assert {line.name: line.split for line in clips}["one"] == "test"
    assert verbs.import_motions.exit_code(made) == 0
    filtered = verbs.filter_motions(
        library=tmp_path / "out", out=tmp_path / "good", limits=["joint_speed=0.1"]
    )
    assert filtered.counts == {"rejected": len(clips)}
    assert all(" moves at" in line.why for line in filtered.lines)


def test_several_processes_import_what_one_does_and_rejections_say_where(tmp_path: Path) -> None:
    robot = motion_robot("Humanoid-v5")
    folder = tmp_path / "files"
    folder.mkdir()
    knee = next(i for i, name in enumerate(robot.joint_names) if "knee" in name)
    for number in range(3):
        clip = wavy(robot, frames=60)
        joints = clip.joint_pos.copy()
        joints[:, knee] += 0.01 * number
        if number == 2:
            joints[30, knee] += 1.5  # one frame
        moved = clip.replace(name=f"clip{number}", joint_pos=joints)
        (folder / f"clip{number}.npz").write_bytes(good_files(moved)["own.npz"])
    limits = [f"{name}=null" for name in FilterLimits.model_fields if not name.endswith("seconds")]
    limits = [each for each in limits if "jump_rad" not in each or "root" in each]
    asked = {"robot": "Humanoid-v5", "limits": limits}
    for jobs in (1, 2):
        made = verbs.import_motions([str(folder)], library=tmp_path / str(jobs), jobs=jobs, **asked)
        (why,) = (line.why for line in made.lines if line.outcome == "rejected")
        jump = (
            rf"{robot.joint_names[knee]} jumps by 1\.\d+ rad in one frame at 0\.60 s \(limit 0\.3\)"
        )
        assert re.search(jump, why)
    one, two = (MotionLibrary.open(tmp_path / jobs) for jobs in ("1", "2"))
    assert one.names == two.names and len(one.names) == 2
    for name in one.names:
        assert np.array_equal(one.clip(name).joint_pos, two.clip(name).joint_pos)


def test_impossible_request_is_reported(library: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        verbs.import_motions(["nowhere.bvh"], robot="planar-biped", library=tmp_path / "x")
    with pytest.raises(BadFile, match="is not a motion library"):
        verbs.show_motions(library=tmp_path)
    with pytest.raises(UsageError, match="different folder"):
        verbs.filter_motions(library=library, out=library)
    with pytest.raises(BadFile, match="contains motions of planar-biped"):
        verbs.generate_motions(robot="Humanoid-v5", count=1, families=["stand"], library=library)


def test_an_import_that_adds_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    place = tmp_path / "out"
    made = verbs.import_motions([str(tmp_path / "notes.txt")], robot="planar-biped", library=place)
    assert made.counts == {"unreadable": 1} and verbs.import_motions.exit_code(made) == 1


@pytest.mark.slow
def test_a_clip_is_drawn(library: Path, tmp_path: Path) -> None:
    verbs.show_motions("stand-0-0000", library=library, out=tmp_path / "strip.png")
    assert (tmp_path / "strip.png").stat().st_size > 1000
