"""Presets, overrides, and the sizes that follow from them."""

import pytest

from telic.errors import ConfigError, UnknownName
from telic.tracking.config import PRESETS, TrackingConfig, preset
from telic.tracking.observations import RowColumns, RowFacts
from telic.tracking.parts import substeps, tracked_parts

G1 = RowFacts(
    joints=29,
    actions=29,
    bodies=14,
    points=3,
    person=24,
    lower=12,
    fine=6,
    frames=10,
    human_frames=10,
)


def test_the_release_has_the_sizes_of_the_specification():
    config = preset("release")
    shape = RowColumns(config, G1).token_shape(config)
    inputs = {each.name: len(each.columns) for each in shape.encoders}
    assert inputs == {"robot": 640, "hybrid": 267, "human": 840}
    assert shape.senses == (0, 930)
    assert shape.critic[1] - shape.critic[0] == 1645
    assert shape.width == 64
    millions = {name: round(count / 1e6, 2) for name, count in shape.parameters().items()}
    assert millions == {
        "robot": 4.23,
        "hybrid": 3.47,
        "human": 4.64,
        "control": 10.18,
        "kinematic": 3.35,
        "critic": 11.5,
    }
    actor = sum(count for name, count in shape.parameters().items() if name != "critic")
    assert round(actor / 1e6, 1) == 25.9


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_resolved_configuration_can_be_read_again(name):
    config = preset(name)
    assert TrackingConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("override", "closest"),
    [
        ("comand.frames=3", "command"),
        ("command.frame=3", "frames"),
        ("rewards.terms.body_place.weight=1", "body_places"),
        ("networks.encoders.robt.share=0", "robot"),
        ("trainer.ppo.gama=0.9", "gamma"),
    ],
)
def test_unknown_keys_are_errors_that_name_the_closest(override, closest):
    with pytest.raises(ConfigError, match=closest):
        preset("planar", [override])


def test_overrides_reach_every_depth():
    config = preset("planar", ["rewards.terms.points.sigma=0.2", "trainer.ppo.gamma=0.9"])
    assert config.rewards.terms["points"].sigma == 0.2
    assert config.trainer.ppo.gamma == 0.9


def test_unknown_presets_and_bodies_and_joints_are_errors():
    with pytest.raises(UnknownName, match="planar"):
        preset("plana")
    for override, known in (
        ('robot.bodies=["left_fot"]', "left_foot"),
        ('robot.ends=["head"]', "torso"),
        ('robot.lower_joints=["left_kne"]', "left_knee"),
    ):
        with pytest.raises(UnknownName, match=known):
            tracked_parts(preset("planar", [override]).robot)
    with pytest.raises(ConfigError, match="multiple"):
        substeps(preset("planar", ["robot.control_s=0.017"]).robot, 0.005)


def test_somebody_has_to_drive():
    nobody = [f"networks.encoders.{name}.share=0" for name in ("robot", "keypoint", "sparse")]
    with pytest.raises(ConfigError, match="share"):
        preset("planar", nobody)
