"""Command errors, compared with closed forms."""

import math

import pytest
import torch

from telic import quantities as q
from telic.errors import UsageError

COMMANDS = ("command_forward", "command_sideways", "command_turn")


def moving(pose, yaw=0.0, velocity=(0.0, 0.0), rate=0.0, command=(0.0, 0.0, 0.0)):
    """An Ant that is turned by `yaw` and moves over the ground, as the world sees it."""
    turned = [0.0, 0.0, 0.75, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
    info = pose("Ant").set(root=turned).move(root=[*velocity, 0.3, 0.0, 0.0, rate]).info()
    fields = {name: info[name] for name in info}
    fields |= {name: torch.tensor([value]) for name, value in zip(COMMANDS, command, strict=True)}
    keys = {**info.spec.info_keys, **dict.fromkeys(COMMANDS, "")}
    return q.Recording(fields, info.spec.model_copy(update={"info_keys": keys}))


@pytest.mark.parametrize("yaw", [0.0, 0.7, -2.5, math.pi / 2])
def test_tracked_command_has_no_error_in_any_heading(pose, yaw):
    ahead, aside, turn = 0.8, -0.3, 0.5
    world = (
        ahead * math.cos(yaw) - aside * math.sin(yaw),
        ahead * math.sin(yaw) + aside * math.cos(yaw),
    )
    info = moving(pose, yaw, world, turn, (ahead, aside, turn))
    assert q.heading_velocity(info).item() == pytest.approx(ahead, abs=1e-5)
    assert q.sideways_velocity(info).item() == pytest.approx(aside, abs=1e-5)
    assert q.command_error(info).item() == pytest.approx(0.0, abs=1e-5)
    assert q.turn_command_error(info).item() == pytest.approx(0.0, abs=1e-5)


def test_standing_robot_has_the_error_of_its_command(pose):
    for command in ((3.0, 4.0, -2.0), (0.0, 0.0, 0.0), (-1.0, 0.0, 0.0)):
        info = moving(pose, command=command)
        assert q.command_error(info).item() == pytest.approx(math.hypot(*command[:2]))
        assert q.turn_command_error(info).item() == pytest.approx(abs(command[2]))


def test_without_commands_there_is_nothing_to_be_off(pose):
    info = pose("Ant").info()
    assert not q.command_error.available(info.spec)
    with pytest.raises(UsageError, match="commands"):
        q.command_error(info)
