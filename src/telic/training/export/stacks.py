"""Configuration of deployment stacks: unitree_sdk2, rl_sar, RoboJuDo and ROS 2.

The folder `stacks` holds the templates of each stack's files: deploy.yaml of unitree_rl_lab,
base.yaml and config.yaml of rl_sar, the description that AgilePolicy of RoboJuDo reads, and the
controllers of ros2_control. Networks of stacks return actions in [-1, 1] that move each joint from
its default position by its action scale, and stack the history of each term or of the whole
observation. ROS 2 and unitree_sdk2 also get a node that runs the bundle itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jinja2
import numpy as np

from telic.errors import UsageError
from telic.storage.files import make_folder, write_text
from telic.training.export.files import PolicyArrays, Range, write_onnx
from telic.training.policy import Policy

if TYPE_CHECKING:
    from telic.training.export.deployment import Deployment

StackName = Literal["unitree_sdk2", "rl_sar", "robojudo", "ros2"]
_TEMPLATES = Path(__file__).with_name("stacks")
_LAB = {
    **{"gyro": "base_ang_vel", "gravity": "projected_gravity", "position": "joint_pos_rel"},
    **{"rate": "joint_vel_rel", "action": "last_action"},
}
"""observation terms of Isaac Lab"""


class _Stack(NamedTuple):
    """Conventions of a stack."""

    terms: Mapping[str, str]
    """the stack's name of each observation block"""
    policy: str | None
    """path of the policy, or None if the node runs the bundle"""
    is_by_term: bool = False
    """whether the history of each term is stacked on its own, oldest first"""
    has_phase: bool = False


_STACKS: dict[StackName, _Stack] = {
    "unitree_sdk2": _Stack(
        {**_LAB, "command": "velocity_commands"}, "exported/policy.onnx", True, True
    ),
    "rl_sar": _Stack(
        {
            **{"gyro": "ang_vel", "gravity": "gravity_vec", "velocity": "lin_vel"},
            **{"command": "commands", "position": "dof_pos", "rate": "dof_vel"},
            "action": "actions",
        },
        "policy/ROBOT/telic/policy.onnx",
    ),
    "robojudo": _Stack(
        {**_LAB, "command": "generated_commands", "velocity": "base_lin_vel"},
        "assets/models/ROBOT/telic/policy.onnx",
        is_by_term=True,
    ),
    "ros2": _Stack({**_LAB, "command": "command"}, None, has_phase=True),
}
_LEGS = [f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]
_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch")
_G1 = [
    *(f"{side}_{part}" for side in ("left", "right") for part in _LEG),
    *("waist_yaw", "waist_roll", "waist_pitch"),
    *(f"{side}_{part}" for side in ("left", "right") for part in (*_ARM, "wrist_yaw")),
]


def write_stack(name: StackName, policy: Policy, about: Deployment, folder: Path) -> None:
    """Write a policy's configuration for a deployment stack into a folder.

    Raises: UsageError: if the stack cannot run the policy.
    """
    stack, robot, joints = _STACKS[name], about.robot.removeprefix("unitree-"), about.joints
    parts = [each.removesuffix("_joint") for each in joints.names]
    order = next((each for each in (_LEGS, _G1) if set(each) == set(parts)), None)
    missing = [each.name for each in about.observation if each.name not in stack.terms]
    why = None
    if missing or (about.phase_hz and not stack.has_phase):
        why = f"it does not provide the observation {missing[0] if missing else 'phase'}"
    elif name == "unitree_sdk2" and order is None:
        why = "the motors of this robot are not known: use a quadruped such as unitree-go2, or G1"
    elif name == "rl_sar" and None in joints.effort:
        why = "the effort limits of the joints are not known"
    elif name == "robojudo" and robot not in ("g1", "h1"):
        why = "it does not provide an environment for this robot"
    if why is not None:
        raise UsageError(f"{name} cannot run this policy of {about.robot}: {why}.")
    rest, half = np.array(joints.rest), np.array(joints.action_half)
    values = {
        **{"about": about, "joints": joints, "robot": robot},
        "terms": [(stack.terms[block.name], block) for block in about.observation],
        "motors": [(order or parts).index(part) for part in parts],
        "controllers": [f"{part}_controller" for part in parts],
        "low": (np.array(joints.target_low) - rest) / half,
        "high": (np.array(joints.target_high) - rest) / half,
    }
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        **{"trim_blocks": True, "keep_trailing_newline": True},
        undefined=jinja2.StrictUndefined,
    )
    jinja.filters |= {"row": _row, "names": lambda values: json.dumps(values, default=list)}
    for template in sorted((_TEMPLATES / name).rglob("*.j2")):
        inside = template.relative_to(_TEMPLATES / name).with_suffix("")
        path = folder / str(inside).replace("ROBOT", robot)
        make_folder(path.parent)
        text = jinja.get_template(template.relative_to(_TEMPLATES).as_posix()).render(values)
        write_text(path, text)
    if stack.policy is not None:
        file = folder / stack.policy.replace("ROBOT", robot)
        make_folder(file.parent)
        write_onnx(_relative(PolicyArrays.of(policy), about, stack.is_by_term), policy, file, {})


def _row(values: Any) -> str:
    return json.dumps([round(value, 6) for value in np.array(values).tolist()])


def _relative(arrays: PolicyArrays, about: Deployment, is_by_term: bool) -> PolicyArrays:
    """Return a policy with actions in [-1, 1], and with inputs in the order of the stack."""
    half = np.ones(len(about.joints.names), np.float32)
    arrays = arrays._replace(range=Range(0.0 * half, half))
    if not is_by_term:
        return arrays
    order = [
        frame * about.columns + block.first + column
        for block in about.observation
        for frame in reversed(range(about.history))
        for column in range(len(block.columns))
    ]
    order += range(len(order), len(arrays.shift))  # the phase variable is last
    (weight, bias), *rest = arrays.layers
    layers = [(weight[order], bias), *rest]
    return arrays._replace(shift=arrays.shift[order], scale=arrays.scale[order], layers=layers)
