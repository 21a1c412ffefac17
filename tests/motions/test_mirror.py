"""Mirrored motions: what one side does, the other one does, on any robot with two sides."""

import numpy as np
import pytest

from telic.errors import BadEnvironment
from telic.motions._figure import RobotFigure, figure_points, person_like
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.cycle import mirrored, symmetry
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import motion_robot
from telic.verbs import motions as verbs


def other_side(name: str) -> str:
    return name.replace("left_", "@").replace("right_", "left_").replace("@", "right_")


def some_clip(name: str, seed: int) -> MotionClip:
    robot, rng = motion_robot(name), np.random.default_rng(seed)
    quat = rng.normal(size=(6, 4))
    if robot.facts.root.kind != "free":
        angle = rng.uniform(-1, 1, 6)
        zero = np.zeros(6)
        quat = np.stack((np.cos(angle / 2), zero, np.sin(angle / 2), zero), axis=1)
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    clip = MotionClip(
        name="any",
        robot=name,
        fps=50.0,
        root_pos=rng.normal(size=(6, 3)) * [1.0, robot.facts.root.kind == "free", 1.0],
        root_quat=quat,
        joint_pos=rng.uniform(-0.8, 0.8, (6, len(robot.joint_names))),
        joint_names=robot.joint_names,
        contacts=rng.random((6, len(robot.facts.feet))) < 0.5,
        split="test",
    )
    return clip.replace(human=person_like(RobotFigure(robot), clip))


@pytest.mark.parametrize("name", ["planar-biped", "Humanoid-v5"])
def test_every_point_is_where_a_mirror_shows_the_other_sides(name, seed=0):
    robot, clip = motion_robot(name), some_clip(name, seed)
    figure, shown = RobotFigure(robot), mirrored(robot, clip)
    own, other = figure_points(figure, clip), figure_points(figure, shown)
    for point, places in own.items():
        np.testing.assert_allclose(other[other_side(point)], places * [1, -1, 1], atol=2e-5)
    assert isinstance(clip.human, HumanTrack) and isinstance(shown.human, HumanTrack)
    for place, point in enumerate(clip.human.names):
        there = shown.human.points[:, shown.human.names.index(other_side(point))]
        np.testing.assert_allclose(there, clip.human.points[:, place] * [1, -1, 1], atol=2e-5)
    assert np.array_equal(shown.contacts, clip.contacts[:, ::-1])
    assert shown.split == "test" and shown.origin.steps == ("mirrored",)
    again = mirrored(robot, shown)
    np.testing.assert_allclose(again.joint_pos, clip.joint_pos, atol=1e-6)
    np.testing.assert_allclose(again.root_pos, clip.root_pos, atol=1e-6)


def test_a_library_is_mirrored_once_and_only_once(tmp_path):
    source, target = tmp_path / "source", tmp_path / "both"
    robot = motion_robot("planar-biped")
    clip = some_clip("planar-biped", 0)
    with LibraryWriter(source, head_for(robot, [clip])) as writer:
        writer.add(clip)
    for outcome in ("added", "duplicate"):
        done = verbs.filter_motions(library=source, out=target, mirror=True, limits=["none"])
        assert done.counts == {outcome: 2}
    found = MotionLibrary.open(target)
    assert found.names == ["any", "any-mirrored"]
    assert [line.split for line in found.clips] == ["test", "test"]


def test_a_robot_without_two_like_sides_is_refused_by_name(tmp_path):
    text = motion_robot("planar-biped").file.read_text()
    lame = tmp_path / "lame.xml"
    lame.write_text(
        text.replace('name="left_shin" pos="0 0 -0.45"', 'name="left_shin" pos="0 0 -0.3"')
    )
    with pytest.raises(BadEnvironment, match="left_knee has no mirrored counterpart"):
        symmetry(motion_robot(str(lame)))
