"""Deployment bundles that run a policy on its robot without telic.

    deploy/policy.onnx deploy.json run.py scene.xml assets/ starts.npz LICENSE.txt README.md

`deploy.json` contains a `Deployment`: joints, actuators, observation, commands and phase variable,
with the unit of every field. The scene is the model used in training, including its meshes.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

import jinja2
import mujoco
import numpy as np
import torch
from pydantic import Field, ValidationError, model_validator

from telic.core.config import Record
from telic.core.text import MISSING, safe_name
from telic.envs.anatomy import action_names
from telic.envs.driven import NAMES, RobotTask, Span
from telic.envs.factory import make
from telic.envs.models import is_position
from telic.envs.mujoco import MujocoEnv
from telic.envs.task import PHASE
from telic.errors import BadFile, UsageError
from telic.report import document as doc
from telic.robots import robot_path
from telic.robots.scene import ASSETS, model_origin, write_license, write_scene
from telic.robots.structure import DRIVEN
from telic.storage.files import json_text, write_text
from telic.storage.reading import read_text
from telic.storage.trajectories import Environment
from telic.training.export.files import export_checked
from telic.training.export.stacks import StackName, write_stack
from telic.training.policy import Policy

Reals = tuple[float, ...]


class JointParameters(Record):
    """Parameters of the actuated joints, ordered like the actions of the policy."""

    names: tuple[str, ...] = Field(description="names of joints and actuators in scene.xml")
    units: tuple[str, ...] = Field(description='"rad" for hinges and "m" for slides')
    rest: Reals = Field(description="default pose in rad or m, where joint positions are 0")
    stiffness: Reals = Field(description="proportional gain in N m/rad or N/m")
    damping: Reals = Field(description="derivative gain in N m s/rad or N s/m")
    effort: tuple[float | None, ...] = Field(
        description="maximum torque or force in N m or N, or null if unlimited"
    )
    armature: Reals = Field(description="reflected rotor inertia (armature) in kg m^2 or kg")
    action_low: Reals = Field(
        description=("lower bound of the action, a position target in rad or m")
    )
    action_high: Reals = Field(
        description=("upper bound of the action, a position target in rad or m")
    )
    action_middle: Reals = Field(description="midpoint of the action range in rad or m")
    action_half: Reals = Field(description="half the width of the action range in rad or m")
    target_low: Reals = Field(description="lowest accepted position target in rad or m")
    target_high: Reals = Field(description="highest accepted position target in rad or m")
    qpos: tuple[int, ...] = Field(description="index of each joint in qpos of scene.xml")
    qvel: tuple[int, ...] = Field(description="index of each joint in qvel of scene.xml")

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        for name in type(self).model_fields:
            if len(getattr(self, name)) != len(self.names):
                raise ValueError(f"{name} does not have {len(self.names)} values, one per joint")
        return self


class SensorBlock(Record):
    """Block of observation columns computed from one sensor."""

    name: str = Field(description="name of the block in run.py")
    columns: tuple[str, ...] = Field(description="name of each column")
    first: int = Field(description="index of the first column")
    unit: str = Field(description="unit of each column")
    scale: float = Field(default=1.0, description="scale factor applied before policy.onnx")
    how: str = Field(description="computation of the block from sensor values")


class Deployment(Record):
    """Configuration of the controller, used together with the policy network."""

    schema_version: int = Field(default=1, description="version of this file format")
    robot: str = Field(description="name of the robot")
    base: str = Field(description="body that carries the gyroscope and defines the sensor frame")
    control_step_s: float = Field(gt=0, description="control period in s")
    control_hz: float = Field(description="control rate in Hz")
    physics_step_s: float = Field(gt=0, description="simulation time step in s")
    physics_steps: int = Field(gt=0, description="simulation steps per action")
    joints: JointParameters = Field(description="parameters of the actuated joints")
    observation: tuple[SensorBlock, ...] = Field(
        description="blocks of a single observation, in order"
    )
    columns: int = Field(gt=0, description="number of columns of a single observation")
    history: int = Field(
        gt=0,
        description="number of stacked observations, newest first and initially padded with zeros",
    )
    commands: dict[str, Span] | None = Field(
        description="range of forward and left velocity in m/s and left yaw rate in rad/s, "
        "or null if the policy takes no command"
    )
    command_default: tuple[float, float, float] = Field(
        description="default command, i.e. forward and left velocity in m/s and yaw rate in rad/s"
    )
    phase_hz: float | None = Field(
        description="frequency in Hz of the phase variable, whose sine and cosine are the last two "
        "columns of the observation, or null if there is none"
    )
    episode_steps: int = Field(gt=0, description="episode length in training, in actions")
    variation: str = Field(description="domain randomization in training (none, light or full)")
    policy_inputs: dict[str, int] = Field(description="inputs of policy.onnx and their sizes")
    policy_output: str = Field(
        default="action",
        description="position targets between action_low and action_high",
    )
    simulator: str = Field(description="MuJoCo version used in training")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if sum(len(block.columns) for block in self.observation) != self.columns:
            raise ValueError(f"observation does not have {self.columns} columns")
        phase = 0 if self.phase_hz is None else len(PHASE)
        if self.policy_inputs != {"obs": self.columns * self.history + phase}:
            raise ValueError("policy_inputs does not match columns and history")
        return self


class Agreement(Record):
    """Scores in telic and in plain MuJoCo from the same initial states (sim-to-sim comparison)."""

    episodes: int
    here: float | None = Field(description="mean score in telic's simulation")
    there: float | None = Field(description="mean score of run.py in plain MuJoCo")
    threshold: float = Field(description="score required by the session")
    apart: float | None = Field(
        default=None, description="largest score difference for one initial state"
    )
    one_step: float | None = Field(
        default=None,
        description="largest position error in m or rad after telic repeats one control step from "
        "a state of run.py",
    )
    unjudged: int = Field(default=0, description="number of episodes without scores")
    deviation: float = Field(
        description="largest difference between the first observations for one initial state"
    )

    @property
    def difference(self) -> float | None:
        """Score in plain MuJoCo minus the score in telic."""
        return None if self.here is None or self.there is None else self.there - self.here

    @property
    def words(self) -> str:
        """One-line summary for the terminal."""
        here, there, difference = (
            "unknown" if value is None else f"{value:{sign}.3f}"
            for value, sign in ((self.here, ""), (self.there, ""), (self.difference, "+"))
        )
        return f"telic {here}, plain MuJoCo {there}, difference {difference}"

    @property
    def blocks(self) -> list[doc.AnyBlock]:
        """Content blocks for the model card."""
        head = f"{self.episodes} episodes from equal initial states, scored by the session's judge"
        rows = [("simulated by telic", self.here), ("run.py in plain MuJoCo", self.there)]
        rows += [("difference", self.difference), ("largest difference", self.apart)]
        shown = [(name, MISSING if value is None else f"{value:.3f}") for name, value in rows]
        blocks: list[doc.AnyBlock] = [doc.Table((head, "mean score"), shown)]
        if self.one_step is not None:
            words = "One control step, repeated here from a state of run.py, ends within "
            blocks.append(doc.Text(f"{words}{self.one_step:.1g} m or rad of run.py's state."))
        return blocks


_SENSORS = {
    "gyro": ("rad/s", "angular velocity of the base in the base frame, from the gyroscope"),
    "gravity": (
        "1",
        "direction of gravity in the base frame, (0, 0, -1) when upright, from the orientation "
        "estimate",
    ),
    "velocity": ("m/s", "velocity of the base in the base frame, from a state estimator"),
    "command": ("m/s, m/s, rad/s", "forward, left, yaw to the left"),
    "position": ("rad or m", "encoder position minus the default pose, in joint order"),
    "rate": ("rad/s or m/s", "joint velocities, in joint order"),
    "action": ("1", "(previous action - action_middle) / action_half; initially zeros"),
}
"""unit and description of each observation block"""


def deployment_of(env: MujocoEnv, task: RobotTask, robot: str) -> Deployment:
    """Create the deployment configuration of an environment."""
    model, arguments = env.model, task.arguments
    blocks: list[SensorBlock] = []
    columns = 0
    for name, names in task.blocks.items():
        unit, how = _SENSORS[name]
        blocks.append(
            SensorBlock(name=name, columns=tuple(names), first=columns, unit=unit, how=how)
        )
        columns += len(names)
    root = env.robot.root
    if (root.quaternion, root.spin) != (3, 3):
        raise UsageError(f"The base of {robot} is not the first body of its model.")
    others = [name for i, name in enumerate(action_names(model)) if not is_position(model, i)]
    if others:
        raise UsageError(f"{', '.join(others)} of {robot} are not position-controlled.")
    given = arguments.commands
    return Deployment(
        robot=safe_name(robot),  # in paths and texts of the bundle
        base=model.body(int(model.jnt_bodyid[0])).name,
        control_step_s=task.dt,
        control_hz=1.0 / task.dt,
        physics_step_s=float(model.opt.timestep),
        physics_steps=arguments.frame_skip,
        joints=_joint_parameters(env, task),
        observation=tuple(blocks),
        columns=columns,
        history=arguments.history,
        commands=None if given is None else {name: getattr(given, name) for name in NAMES},
        command_default=(0.0, 0.0, 0.0),
        phase_hz=arguments.phase_hz,
        episode_steps=arguments.max_episode_steps or 1000,
        variation=arguments.variation,
        policy_inputs={"obs": env.obs_dim},
        simulator=mujoco.__version__,
    )


def _joint_parameters(env: MujocoEnv, task: RobotTask) -> JointParameters:
    model = env.model
    joints = [int(model.actuator_trnid[i, 0]) for i in range(model.nu)]
    places = [int(model.jnt_qposadr[joint]) for joint in joints]
    rates = [int(model.jnt_dofadr[joint]) for joint in joints]
    low, high = np.asarray(task.action_limits).T
    hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
    efforts = zip(model.actuator_forcelimited, model.actuator_forcerange, strict=True)
    return JointParameters(
        names=action_names(model),
        units=tuple("rad" if model.jnt_type[joint] == hinge else "m" for joint in joints),
        rest=row_of(task.qpos0.cpu().numpy()[places]),
        stiffness=row_of(model.actuator_gainprm[:, 0]),
        damping=row_of(-model.actuator_biasprm[:, 2]),
        effort=tuple(float(span[1]) if limited else None for limited, span in efforts),
        armature=row_of(model.dof_armature[rates]),
        action_low=row_of(low),
        action_high=row_of(high),
        action_middle=row_of((high + low) / 2.0),
        action_half=row_of((high - low) / 2.0),
        target_low=row_of(model.actuator_ctrlrange[:, 0]),
        target_high=row_of(model.actuator_ctrlrange[:, 1]),
        qpos=tuple(places),
        qvel=tuple(rates),
    )


def row_of(values: Any) -> Reals:
    """Flatten an array to a tuple of floats."""
    return tuple(float(value) for value in np.asarray(values).ravel())


def read_deployment(text: str) -> Deployment:
    """Parse the content of deploy.json. Raises BadFile with the name of an invalid field."""
    try:
        return Deployment.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadFile(
            f"deploy.json is corrupted: {where}: {first['msg']}.", hint="Export the policy again."
        ) from None


FOLDER, ARCHIVE = "deploy", "deploy.zip"
_RUNNER = Path(__file__).with_name("run_robot.py")
_README = Path(__file__).with_name("robot_readme.md.j2")
_STARTS = 4
_UNLIMITED = 1000
RobotCheck = Callable[[Path], Agreement]
"""function that runs a deployment bundle in another simulator and compares the scores"""


class RobotBundle(NamedTuple):
    """Deployment of a policy, or the reason why the policy cannot be deployed."""

    about: Deployment | None
    reason: str | None
    """reason why there is nothing to deploy"""
    agreement: Agreement | None
    origin: list[str]
    """source and license of the robot model"""

    @property
    def screen_lines(self) -> dict[str, Any]:
        """Summary fields for the terminal."""
        if self.about is None:
            return {"deployment": f"none: {self.reason}"}
        agrees = {} if self.agreement is None else {"sim-to-sim": self.agreement.words}
        return {"deployment": f"{FOLDER}/ and {ARCHIVE}", **agrees}

    @property
    def facts(self) -> dict[str, Any]:
        """Fields for bundle.json."""
        if self.agreement is None:
            return {"deployment": self.reason}
        return {"deployment": None, "agreement": self.agreement.model_dump(mode="json")}

    @property
    def section(self) -> doc.Section:
        """Section for the model card."""
        if self.about is None:
            why = doc.Text(f"Nothing to deploy. {self.reason}")
            return doc.Section("On the robot", (why, doc.Text(" ".join(self.origin))))
        blocks: list[doc.AnyBlock] = [
            doc.Text(
                (
                    doc.Link(f"{FOLDER}/", f"{FOLDER}/README.md"),
                    f" runs on {self.about.robot} without telic, {self.about.control_hz:g} times "
                    "a second: ",
                    doc.Mono(f"python {FOLDER}/run.py"),
                    " plays it in plain MuJoCo.",
                )
            ),
            doc.Text(" ".join(self.origin)),
        ]
        if self.agreement is None:
            blocks.append(doc.Text("Not verified. To run and judge it: telic export --verify"))
        else:
            blocks += self.agreement.blocks
        return doc.Section("On the robot", tuple(blocks))


class RobotStarts(NamedTuple):
    """Initial states and commands of episodes."""

    qpos: np.ndarray  # (N, nq)
    qvel: np.ndarray  # (N, nv)
    command: np.ndarray  # (N, T, 3)

    def write(self, path: Path) -> None:
        """Write the initial states as .npz for run.py."""
        np.savez(path, **self._asdict())


def driven_model(env: str) -> Path | None:
    """Return the model file of a position-controlled robot, or None for other environments."""
    path = robot_path(env) or Path(env)
    if path.suffix != ".xml" or not path.is_file():
        return None
    return path if re.search(rf'<text\s+name="{DRIVEN}"', read_text(path)) else None


def nominal(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return environment arguments without randomized conditions.

    Terrain, domain randomization and heading commands are disabled. The yaw rate of a heading
    command would depend on the robot's heading.
    """
    kept = {name: value for name, value in arguments.items() if not name.startswith("terrain")}
    own: dict[str, Any] = {**kept, "variation": "none", "terrain": "flat"}
    if own.get("commands") is not None:
        own["commands"] = {**own["commands"], "heading": 0.0}
    return own


def deploy(
    policy: Policy,
    environment: Environment,
    keep: Callable[[Path, str], None],
    check: RobotCheck | None = None,
    stack: StackName | None = None,
) -> RobotBundle | None:
    """Create the deployment bundle of a policy, or None if the robot is not position-controlled.

    Args:
        policy: trained policy.
        environment: environment used in training.
        keep: callback that stores a file under a name.
        check: verification that runs before files are stored.
        stack: deployment stack whose configuration is included.
    """
    model_file, is_required = driven_model(environment[0]), check is not None or stack is not None
    if model_file is None:
        if is_required:
            raise UsageError(
                f"{Path(environment[0]).name} is not a position-controlled robot, so it cannot "
                "be deployed or verified.",
                hint="Use a built-in robot (telic robots) or describe it in a TOML file.",
            )
        return None
    origin, environment = model_origin(model_file), (str(model_file.absolute()), environment[1])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / FOLDER
        try:
            about = write_deployment(policy, environment, folder)
        except UsageError as error:
            if is_required:
                raise
            return RobotBundle(None, str(error), None, origin)
        if stack is not None:
            write_stack(stack, policy, about, folder / stack)
        agreement = None if check is None else check(folder)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        names = {path: path.relative_to(folder).as_posix() for path in files}
        for path, name in names.items():
            keep(path, f"{FOLDER}/{name}")
        archive = Path(place) / ARCHIVE  # deterministic: no timestamps
        with zipfile.ZipFile(archive, "w") as into:
            for path, name in sorted(names.items(), key=lambda each: each[1]):
                entry = zipfile.ZipInfo(f"{about.robot}/{name}")
                into.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 6)
        keep(archive, ARCHIVE)
    return RobotBundle(about, None, agreement, origin)


def write_deployment(policy: Policy, environment: Environment, folder: Path) -> Deployment:
    """Export the deployment bundle of a position-controlled robot's policy to a new folder.

    Raises: UsageError: if the policy requires information that is unavailable on a robot.
    """
    env_id, arguments = environment
    model_file = driven_model(env_id)
    assert model_file is not None
    (folder / ASSETS).mkdir(parents=True)
    require_no_memory(policy)
    env = make(env_id, num_envs=1, **nominal(arguments))
    try:
        assert isinstance(env, MujocoEnv)
        why = "does not have a free-floating base, as required by run.py"
        if env.driver is not None:
            why = "is controlled by motion tokens, and run.py does not include their decoder"
        if env.driver is not None or not isinstance(env.task, RobotTask):
            raise UsageError(
                f"{model_file.stem} {why}.",
                hint="policy.onnx and the model card describe the policy's inputs and outputs.",
            )
        about = deployment_of(env, env.task, model_file.stem)
        about = about.model_copy(update={"variation": arguments.get("variation", "none")})
        write_scene(model_file, env.model, folder)
    finally:
        env.close()
    starts_of(environment, _STARTS, seed=0).write(folder / "starts.npz")
    export_checked(policy, folder / "policy.onnx")
    # Write each array on one line.
    text = json_text(about.model_dump(mode="json"))
    text = re.sub(r"\[([^\[\]{}]+)\]", lambda row: f"[{' '.join(row[1].split())}]", text)
    write_text(folder / "deploy.json", text)
    write_text(folder / "run.py", read_text(_RUNNER))
    write_license(model_file, folder)
    readme = jinja2.Template(read_text(_README), trim_blocks=True, keep_trailing_newline=True)
    write_text(folder / "README.md", readme.render(about=about, fields=_fields(Deployment, "")))
    return about


def require_no_memory(policy: Policy) -> None:
    """Raise UsageError if the policy observes its reward's memory."""
    if policy.memory_size:
        raise UsageError(
            "The policy observes the memory of its reward, which is not available on a robot.",
            hint='Train it with memory_to = "critic". For gaits, declare phase_hz instead.',
        )


def starts_of(environment: Environment, count: int, seed: int) -> RobotStarts:
    """Return the initial states and command sequences of `count` episodes."""
    env_id, arguments = environment
    own: dict[str, Any] = {**nominal(arguments), "terminate_when_unhealthy": False}
    env = make(env_id, num_envs=count, seed=seed, **own)
    try:
        assert isinstance(env, MujocoEnv)
        env.reset()
        qpos, qvel = (env.sim.field(name).cpu().numpy().copy() for name in ("qpos", "qvel"))
        steps = env.max_episode_steps or _UNLIMITED
        command = np.zeros((count, steps, len(NAMES)))
        for step in range(steps if own.get("commands") is not None else 0):
            info = env.step(env.action_rest.expand(count, -1)).info
            command[:, step] = torch.stack([info[f"command_{name}"] for name in NAMES], 1).numpy()
        return RobotStarts(qpos, qvel, command)
    finally:
        env.close()


# ------------------------------------------------------------------------------- documentation


def _fields(record: type[Record], prefix: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, field in record.model_fields.items():
        inner = _record_in(field.annotation)
        rows.append((f"{prefix}{name}", field.description or ""))
        if inner is not None:
            rows += _fields(inner, f"{prefix}{name}{'[]' if inner is SensorBlock else ''}.")
    return rows


def _record_in(annotation: Any) -> type[Record] | None:
    kinds = (annotation, *get_args(annotation))
    records = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record)]
    return records[0] if records else None
