"""Motions that are made: feet as planned, no joint beyond its limits, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from telic.core.seeds import derive
from telic.motions import generate as made_by
from telic.motions._figure import SIDES, RobotFigure, figure_points
from telic.motions.families import families
from telic.motions.generate import (
    draw_parameters,
    family_names,
    generate,
    generated_library,
    make_clip,
)
from telic.motions.robot import motion_robot

ROBOT = motion_robot("planar-biped")


@pytest.fixture(scope="module")
def clips():
    """One short clip of every family of the planar biped."""
    made = []
    for name in family_names(ROBOT):
        rng = np.random.default_rng(derive(3, "motions", name, 0))
        parameters = draw_parameters(families()[name], "train", rng)
        if "seconds" in parameters:
            parameters["seconds"] = 1.5
        made.append(make_clip(ROBOT, name, parameters))
    return made


def test_feet_that_stand_neither_slide_nor_sink(clips) -> None:
    figure = RobotFigure(ROBOT)
    for clip in clips:
        points = figure_points(figure, clip)
        for foot, side in enumerate(SIDES):
            for end in ("heel", "toe"):
                place = points[f"{side}_{end}"]
                both = clip.contacts[1:, foot] & clip.contacts[:-1, foot]
                speed = np.linalg.norm(np.diff(place[:, :2], axis=0), axis=-1) * clip.fps
                assert speed[both].max(initial=0) < 0.1, clip.name
                assert place[:, 2].min() > -0.01, clip.name
                assert np.abs(place[clip.contacts[:, foot], 2]).max() < 0.01, clip.name


def test_a_walk_is_as_fast_as_asked() -> None:
    parameters = {"seconds": 3.0, "speed": 0.9, "rhythm": 1.0, "lift": 0.08}
    clip = make_clip(ROBOT, "walk", parameters)
    assert (clip.root_pos[-1, 0] - clip.root_pos[0, 0]) / clip.duration_s == pytest.approx(0.9, 0.1)


def test_a_seed_gives_the_same_clips_however_many_are_asked_for_and_a_library_keeps_them(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(made_by, "cache_folder", lambda: tmp_path)
    few = [made.content_hash() for made in generate(ROBOT, 2, families=["stand"], seed=5)]
    other = next(generate(ROBOT, 1, families=["stand"], seed=6)).content_hash()
    first = generated_library(ROBOT, 1, families=("stand",), seed=5)
    assert few[0] == first.clip("stand-5-0000").content_hash() != other != few[1]
    monkeypatch.setattr(made_by, "generate", None)
    assert generated_library(ROBOT, 1, families=("stand",), seed=5).names == first.names


@pytest.mark.parametrize("name", sorted(families()))
def test_what_is_kept_for_tests_is_never_trained(name: str) -> None:
    family, rng = families()[name], np.random.default_rng(0)
    drawn = {
        split: [draw_parameters(family, split, rng)[family.held] for _ in range(200)]
        for split in ("train", "validation", "test")
    }
    for split in ("validation", "test"):
        low, high = min(drawn[split]), max(drawn[split])
        assert not any(low <= value <= high for value in drawn["train"])
