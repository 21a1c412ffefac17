"""What a robot needs to know to run a policy: joints, drives, observation, commands, clock.

`deploy.json` is a `Deployment`; every field says its unit. Nothing in it needs telic: `run.py`
beside it reads it with json and numpy.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self, cast

import mujoco
import numpy as np
from pydantic import Field, ValidationError, model_validator

from telic.core.config import Record
from telic.core.text import MISSING
from telic.envs.anatomy import action_names
from telic.envs.driven import RobotTask
from telic.envs.models import is_position
from telic.envs.mujoco import MujocoEnv
from telic.errors import BadFile, UsageError
from telic.report import document as doc
from telic.storage.files import json_text
from telic.training.memory import MemoryLaw

COMMANDS = ("forward", "sideways", "turn")
Row = tuple[float, ...]
Span = tuple[float, float]


class Drives(Record):
    """The driven joints, each entry in the order of the policy's action."""

    names: tuple[str, ...] = Field(description="joints, and drives of the same name in scene.xml")
    units: tuple[str, ...] = Field(description='"rad" for a hinge, "m" for a slide')
    rest: Row = Field(description="default pose, rad or m: what positions are measured from")
    stiffness: Row = Field(description="of the position controller, N m/rad or N/m")
    damping: Row = Field(description="of the position controller, N m s/rad or N s/m")
    effort: tuple[float | None, ...] = Field(
        description="largest torque or force, N m or N; null: without limit"
    )
    armature: Row = Field(description="inertia of the rotor behind the gear, kg m^2 or kg")
    action_low: Row = Field(description="lowest action, a target in rad or m")
    action_high: Row = Field(description="highest action, a target in rad or m")
    action_middle: Row = Field(description="middle of the two, rad or m")
    action_half: Row = Field(description="half of their distance, rad or m")
    target_low: Row = Field(description="lowest target that the drive takes, rad or m")
    target_high: Row = Field(description="highest target that the drive takes, rad or m")
    qpos: tuple[int, ...] = Field(description="place of each joint in qpos of scene.xml")
    qvel: tuple[int, ...] = Field(description="place of each joint in qvel of scene.xml")

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        for name in type(self).model_fields:
            if len(getattr(self, name)) != len(self.names):
                raise ValueError(f"{name} is not of {len(self.names)} joints")
        return self


class ObservedBlock(Record):
    """Columns of the observation that come from one sensor."""

    name: str = Field(description="what it is called in run.py")
    columns: tuple[str, ...] = Field(description="what each number is")
    first: int = Field(description="column of the first one")
    unit: str = Field(description="unit of each number")
    scale: float = Field(default=1.0, description="factor; the normaliser is inside policy.onnx")
    how: str = Field(description="how it is computed from sensors")


class Deployment(Record):
    """Everything that `run.py` and a robot need besides the network."""

    schema_version: int = Field(default=1, description="of this file")
    robot: str = Field(description="name of the robot")
    base: str = Field(description="body with the gyroscope, in whose frame is what it senses")
    control_step_s: float = Field(gt=0, description="time between two actions, s")
    control_hz: float = Field(description="actions a second")
    physics_step_s: float = Field(gt=0, description="step of the simulation, s")
    physics_steps: int = Field(gt=0, description="steps of the simulation per action")
    joints: Drives = Field(description="columns of numbers, one number per driven joint")
    observation: tuple[ObservedBlock, ...] = Field(
        description="blocks of what is seen at one moment, in order"
    )
    columns: int = Field(gt=0, description="numbers of one moment")
    history: int = Field(
        gt=0,
        description="moments that are seen: the present one first, then older ones; zeros before "
        "the first",
    )
    commands: dict[str, Span] | None = Field(
        description="lowest and highest command that it was trained on: forward and sideways "
        "(left is positive), m/s, and turn (left is positive), rad/s; null: it takes none"
    )
    command_default: tuple[float, float, float] = Field(
        description="forward, sideways, m/s, and turn, rad/s, when nobody commands"
    )
    memory: MemoryLaw = Field(description="the clock that the policy sees, if it sees one")
    episode_steps: int = Field(gt=0, description="actions of an episode in training")
    variation: str = Field(description="how far episodes of training differed: none, light, full")
    policy_inputs: dict[str, int] = Field(description="inputs of policy.onnx: numbers of each")
    policy_output: str = Field(
        default="action",
        description="output of policy.onnx: targets of the drives, within action_low and high",
    )
    simulator: str = Field(description="version of MuJoCo that it was trained with")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if sum(len(block.columns) for block in self.observation) != self.columns:
            raise ValueError(f"observation has no {self.columns} columns")
        if self.policy_inputs.get("obs") != self.columns * self.history:
            raise ValueError("policy_inputs is not of so many columns and history")
        law, actions = self.memory, len(self.joints.names)
        size = len(law.start)
        is_square = [len(row) for row in law.keep] == [size] * size
        if not is_square or [len(row) for row in law.action] != [actions] * size:
            raise ValueError("memory has matrices of the wrong size")
        if law.shown > size or self.policy_inputs.get("memory", 0) != law.shown:
            raise ValueError("memory does not show what policy_inputs says")
        return self


class Agreement(Record):
    """How a judge scores the same starts here and in plain MuJoCo, played by the bundle itself."""

    episodes: int
    here: float | None = Field(description="mean score of episodes that telic simulated")
    there: float | None = Field(description="mean score of what run.py did in plain MuJoCo")
    threshold: float = Field(description="score that the session asks for")
    apart: float | None = Field(
        default=None, description="largest difference of the two scores of one start"
    )
    one_step: float | None = Field(
        default=None,
        description="largest difference of a position, m or rad, when one control step is made "
        "again here from where run.py was",
    )
    unjudged: int = Field(default=0, description="episodes that could not be judged, of both")
    deviation: float = Field(
        description="largest difference of the first observation that both made of a start"
    )

    @property
    def difference(self) -> float | None:
        """There minus here."""
        return None if self.here is None or self.there is None else self.there - self.here

    @property
    def words(self) -> str:
        """One line for the screen."""
        here, there, difference = (
            "unknown" if value is None else f"{value:{sign}.3f}"
            for value, sign in ((self.here, ""), (self.there, ""), (self.difference, "+"))
        )
        return f"here {here}, plain MuJoCo {there}, difference {difference}"

    @property
    def blocks(self) -> list[doc.Block]:
        """What the card says."""
        told = f"{self.episodes} episodes from the same starts, scored by the session's judge"
        rows = [("simulated by telic", self.here), ("run.py in plain MuJoCo", self.there)]
        rows += [("difference", self.difference), ("largest of one start", self.apart)]
        shown = [(name, MISSING if value is None else f"{value:.3f}") for name, value in rows]
        blocks: list[doc.Block] = [doc.Table((told, "mean score"), shown)]
        if self.one_step is not None:
            words = "One control step, made again here from where run.py was, ends within "
            blocks.append(doc.Text(f"{words}{self.one_step:.1g} m or rad of where it ended there."))
        return blocks


class _Sensor(NamedTuple):
    block: str
    unit: str
    how: str


_PREFIXES = {
    "gyro_": _Sensor("gyro", "rad/s", "angular velocity of the base in its own frame: gyroscope"),
    "gravity_": _Sensor(
        "gravity",
        "1",
        "unit vector of where down is in the base's frame, (0, 0, -1) upright: from the "
        "orientation estimate",
    ),
    "velocity_": _Sensor(
        "velocity", "m/s", "velocity of the base in its own frame: from a state estimator"
    ),
    "command_": _Sensor("command", "m/s, m/s, rad/s", "forward, to the left, turn to the left"),
}
_SUFFIXES = {
    " position": _Sensor("position", "rad or m", "encoder minus rest, in the order of joints"),
    " last action": _Sensor(
        "action",
        "1",
        "the last action minus action_middle, by action_half; zeros before the first",
    ),
    " velocity": _Sensor("rate", "rad/s or m/s", "velocity of each joint, in the order of joints"),
}


def describe(env: MujocoEnv, task: RobotTask, robot: str, law: MemoryLaw) -> Deployment:
    """Return what a robot must know to run a policy of this environment.

    Raises:
        UsageError: the policy sees what no runner can compute.
    """
    model, arguments = env.model, task.arguments
    blocks = observed_blocks(env.spec.obs_names, arguments.history)
    columns = sum(len(block.columns) for block in blocks)
    root = env.robot.root
    if (root.quaternion, root.spin) != (3, 3):
        raise UsageError(f"The base of {robot} is not the first body of its model.")
    others = [name for i, name in enumerate(action_names(model)) if not is_position(model, i)]
    if others:
        raise UsageError(f"{', '.join(others)} of {robot} are not driven by position.")
    told = arguments.commands
    inputs = {"obs": env.obs_dim} | ({"memory": law.shown} if law.shown else {})
    return Deployment(
        robot=robot,
        base=model.body(int(model.jnt_bodyid[0])).name,
        control_step_s=task.dt,
        control_hz=1.0 / task.dt,
        physics_step_s=float(model.opt.timestep),
        physics_steps=arguments.frame_skip,
        joints=_drives(env, task),
        observation=blocks,
        columns=columns,
        history=arguments.history,
        commands=None if told is None else {name: getattr(told, name) for name in COMMANDS},
        command_default=(0.0, 0.0, 0.0),
        memory=law,
        episode_steps=arguments.max_episode_steps or 1000,
        variation=arguments.variation,
        policy_inputs=inputs,
        simulator=mujoco.__version__,
    )


def observed_blocks(names: tuple[str, ...], history: int) -> tuple[ObservedBlock, ...]:
    """Return the blocks of one moment, read from the columns' names; refuses unknown ones."""
    blocks: list[tuple[_Sensor, list[str]]] = []
    for name in names[: len(names) // history]:
        sensor = _sensor(name)
        if not blocks or blocks[-1][0] is not sensor:
            blocks.append((sensor, []))
        blocks[-1][1].append(name)
    out: list[ObservedBlock] = []
    for (block, unit, how), columns in blocks:
        first = sum(len(each.columns) for each in out)
        out.append(
            ObservedBlock(name=block, columns=tuple(columns), first=first, unit=unit, how=how)
        )
    return tuple(out)


def _sensor(name: str) -> _Sensor:
    for start, sensor in _PREFIXES.items():
        if name.startswith(start):
            return sensor
    for end, sensor in _SUFFIXES.items():
        if name.endswith(end):
            return sensor
    raise UsageError(
        f'The policy sees "{name}", which run.py cannot compute from what a robot measures.'
    )


def _drives(env: MujocoEnv, task: RobotTask) -> Drives:
    model = env.model
    joints = [int(model.actuator_trnid[i, 0]) for i in range(model.nu)]
    places = [int(model.jnt_qposadr[joint]) for joint in joints]
    rates = [int(model.jnt_dofadr[joint]) for joint in joints]
    low, high = np.asarray(task.action_limits).T
    hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
    efforts = zip(model.actuator_forcelimited, model.actuator_forcerange, strict=True)
    return Drives(
        names=action_names(model),
        units=tuple("rad" if model.jnt_type[joint] == hinge else "m" for joint in joints),
        rest=_row(task.qpos0.cpu().numpy()[places]),
        stiffness=_row(model.actuator_gainprm[:, 0]),
        damping=_row(-model.actuator_biasprm[:, 2]),
        effort=tuple(float(span[1]) if limited else None for limited, span in efforts),
        armature=_row(model.dof_armature[rates]),
        action_low=_row(low),
        action_high=_row(high),
        action_middle=_row((high + low) / 2.0),
        action_half=_row((high - low) / 2.0),
        target_low=_row(model.actuator_ctrlrange[:, 0]),
        target_high=_row(model.actuator_ctrlrange[:, 1]),
        qpos=tuple(places),
        qvel=tuple(rates),
    )


def _row(values: Any) -> Row:
    return tuple(float(value) for value in cast("list[float]", np.asarray(values).tolist()))


def as_json(about: Deployment) -> str:
    """Return the text of deploy.json, with every row of numbers on a line of its own."""

    def row(found: re.Match[str]) -> str:
        return "[" + " ".join(found[1].split()) + "]"

    return re.sub(r"\[([^\[\]{}]+)\]", row, json_text(about.model_dump(mode="json")))


def read_deployment(text: str) -> Deployment:
    """Return what a deploy.json says; raises BadFile that names the field at fault."""
    try:
        return Deployment.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadFile(
            f"deploy.json is damaged: {where}: {first['msg']}.", hint="Export the policy again."
        ) from None
