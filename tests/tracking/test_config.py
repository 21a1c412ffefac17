"""Presets, overrides, and the sizes that follow from them."""

import pytest

from telic.errors import ConfigError, UnknownName
from telic.tracking._parts import substeps, tracked_parts
from telic.tracking.config import PRESETS, TrackingConfig, preset


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
