"""Export policies that run with MuJoCo in a browser, without Python.

A `LivePolicy` configures a controller: the observation, time steps, initial states and commands.
The export also contains the scene and its meshes, the policy as ONNX, the parameters of the
compiled model, and a short trajectory for verifying another simulation.

The observation is described by the columns of MuJoCo fields that the task declares (`Task.seen`).
"""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import mujoco
import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.envs.driven import RobotTask
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.task import ObservationBlock
from telic.envs.tasks import TASKS
from telic.errors import TelicError, UsageError
from telic.rendering.replay import model_file
from telic.robots import robot_path
from telic.robots.scene import ASSETS, write_scene
from telic.robots.terrain import (
    COLUMNS,
    FIELD_M,
    NAME,
    ROWS,
    TERRAINS,
    Ground,
    TerrainKind,
    ground_in,
    standing_m,
    terrain,
)
from telic.storage.trajectories import Environment, TrajectoryFacts
from telic.training.export.deployment import (
    Deployment,
    Reals,
    deployment_of,
    nominal,
    require_no_memory,
    row_of,
)
from telic.training.export.files import export_checked
from telic.training.policy import Policy

Array = np.ndarray[Any, np.dtype[Any]]
SCENE = "scene.xml"
_MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
_MAX_NUMBERS = 200_000
_UNFELT = "unfelt.stl"
_LOOKS = (
    *("mesh_", "tex_", "mat_", "skin_", "cam_", "light_", "bvh_", "oct_", "name", "text_"),
    *("hfield_", "flex", "key_", "tuple_", "numeric_", "geom_rgba", "site_rgba", "tendon_rgba"),
)
"""prefixes of model fields that only affect rendering or whose layout depends on the version"""
POLICY = "policy.onnx"
_TRACE_STEPS = 20
_STARTS = 6


class LiveTrace(Record):
    """Short reference trajectory simulated by telic."""

    command: Reals = Field(description="forward, left and yaw velocity, or empty for no command")
    actions: tuple[Reals, ...] = Field(description="action at each control step")
    qpos: tuple[Reals, ...] = Field(description="joint positions (qpos) after each control step")


class LiveStart(Record):
    """Initial state of an episode."""

    qpos: Reals
    qvel: Reals


class LivePolicy(Record):
    """Configuration of a policy controller for MuJoCo."""

    env: str
    simulator: str = Field(description="MuJoCo version used in training")
    files: tuple[str, ...] = Field(description="scene.xml, its assets, and policy.onnx")
    control_step_s: float = Field(description="control period in s")
    physics_steps: int = Field(description="simulation steps per action")
    obs_names: tuple[str, ...]
    action_names: tuple[str, ...]
    action_low: Reals
    action_high: Reals
    blocks: tuple[ObservationBlock, ...] | None = Field(
        description="observation blocks, or None if `deployment` describes the observation"
    )
    deployment: Deployment | None = Field(description="description of a position-controlled robot")
    contact_forces: bool = Field(description="whether mj_rnePostConstraint runs after each action")
    phase_hz: float | None = Field(description="frequency in Hz of the phase (last two columns)")
    numbers: dict[str, Reals] = Field(description="flattened fields of the compiled mjModel")
    starts: tuple[LiveStart, ...]
    trace: LiveTrace = Field(description="reference trajectory from the first initial state")
    grounds: tuple[TerrainKind, ...] = Field(description="available terrains")
    torso: int = Field(description="body that receives pushes and that the camera follows")
    mass_kg: float
    standing_m: float = Field(description="initial torso height in m")


class LiveFolder(NamedTuple):
    """Live policy and its files."""

    about: LivePolicy
    files: dict[str, bytes]


def live_policy(
    policy: Policy, environment: Environment, ground: TerrainKind = "flat"
) -> LiveFolder:
    """Export the files for running a policy in a browser.

    Args:
        policy: policy to export.
        environment: environment used in training.
        ground: terrain, which must be flat unless the robot is position-controlled.

    Raises: UsageError: if the policy requires information that is unavailable in a browser.
    """
    env_id, arguments = environment[0], _endless(environment)
    # Reject other environments before importing their code.
    known = env_id in TASKS or robot_path(env_id) is not None
    if not known and not env_id.endswith((".xml", ".mjcf")):
        raise UsageError(
            f"{Path(env_id).name} is not a MuJoCo model simulated by telic, so its policy cannot "
            "run in a browser.",
            hint="Watch its recorded episodes.",
        )
    if ground_in(arguments).block:
        raise UsageError(
            "The arm's model file does not contain the object to manipulate.",
            hint="Watch its recorded episodes.",
        )
    require_no_memory(policy)
    flat = _made(env_id, 1, arguments)
    located = str(robot_path(env_id) or env_id)
    source = model_file(TrajectoryFacts(env_id=located, env_kwargs=arguments, dt_s=None))
    assert source is not None
    files = traveling_scene(source, flat.model, ground)
    with tempfile.TemporaryDirectory() as place:
        export_checked(policy, Path(place) / POLICY)
        files[POLICY] = (Path(place) / POLICY).read_bytes()
    if ground != "flat":
        if not isinstance(flat.task, RobotTask):
            raise UsageError(f"{Path(env_id).name} supports flat ground only.")
        arguments["terrain"] = ground
    flat.close()
    env = _made(env_id, 1, arguments)
    try:
        about = _about(env, env_id, arguments, policy, tuple(files))
    finally:
        env.close()
    return LiveFolder(about, files)


def _endless(environment: Environment) -> dict[str, Any]:
    """Return environment arguments without randomization, time limit or termination."""
    env_id, arguments = environment
    is_robot = env_id not in TASKS
    own: dict[str, Any] = {**arguments, "max_episode_steps": None}
    if is_robot and {"variation", "terrain", "commands"} & own.keys():
        own = nominal(own)
    kind = TASKS.get(env_id)
    if kind is None or "terminate_when_unhealthy" in kind.Arguments.model_fields:
        own["terminate_when_unhealthy"] = False
    return own


def _made(env_id: str, count: int, arguments: dict[str, Any]) -> MujocoEnv:
    env = make(env_id, num_envs=count, seed=0, **arguments)
    assert isinstance(env, MujocoEnv)
    if env.driver is not None:
        raise UsageError(
            "The policy outputs motion tokens, but the token decoder cannot run in a browser.",
            hint="Watch its recorded episodes.",
        )
    return env


def _about(
    env: MujocoEnv,
    env_id: str,
    arguments: dict[str, Any],
    policy: Policy,
    files: tuple[str, ...],
) -> LivePolicy:
    model, task = env.model, env.task
    driven = deployment_of(env, task, Path(env_id).stem) if isinstance(task, RobotTask) else None
    blocks = None if driven else seen_blocks(env)
    others = _made(env_id, _STARTS, arguments)
    try:
        others.reset()
        rows = zip(*(others.sim.field(name).numpy() for name in ("qpos", "qvel")), strict=True)
        starts = tuple(LiveStart(qpos=row_of(one), qvel=row_of(other)) for one, other in rows)
    finally:
        others.close()
    torso = env.robot.torso or min(1, model.nbody - 1)
    trace = _trace(env, policy, starts[0], driven)
    return LivePolicy(
        env=env.spec.id,
        simulator=mujoco.__version__,
        files=files,
        control_step_s=task.dt,
        physics_steps=task.arguments.frame_skip,
        obs_names=env.spec.obs_names,
        action_names=env.spec.action_names,
        action_low=row_of(policy.low),
        action_high=row_of(policy.high),
        blocks=blocks,
        deployment=driven,
        contact_forces=any(block.field == "cfrc_ext" for block in blocks or ()),
        phase_hz=task.arguments.phase_hz,
        numbers=simulated_numbers(model),
        starts=starts,
        trace=trace,
        grounds=("flat", *TERRAINS) if driven else ("flat",),
        torso=int(torso),
        mass_kg=float(model.body_mass.sum()),
        standing_m=float(env.sim.field("xpos")[0, torso, 2]),
    )


def seen_blocks(env: MujocoEnv) -> tuple[ObservationBlock, ...]:
    """Return observation blocks of MuJoCo fields. Raises UsageError for other observations."""
    if not env.task.seen:
        raise UsageError(
            f"The observation of {env.spec.id} contains values that are not MuJoCo fields, so a "
            "browser cannot compute it."
        )
    return tuple(env.task.seen)


def _trace(
    env: MujocoEnv, policy: Policy, start: LiveStart, driven: Deployment | None
) -> LiveTrace:
    """Simulate a few steps from an initial state with half the maximum command."""
    command: Reals = ()
    if driven is not None and driven.commands is not None and isinstance(env.task, RobotTask):
        command = tuple(0.5 * high for _, high in driven.commands.values())
        env.task.commanded = torch.tensor([command], dtype=torch.float64)
    like = env.sim.field("qpos")
    obs = env.place(like.new_tensor([start.qpos]), like.new_tensor([start.qvel]))
    actions, places = list[Reals](), list[Reals]()
    for _ in range(_TRACE_STEPS):
        action = policy(obs)
        obs = env.step(action).obs
        actions.append(row_of(action[0]))
        places.append(row_of(like[0]))
    return LiveTrace(command=command, actions=tuple(actions), qpos=tuple(places))


# ---------------------------------------------------------------------------- the scene
# The scene is kept small and readable by older MuJoCo versions. Meshes without collisions are
# replaced by a tetrahedron, because the page already has the robot's visual meshes. The parameters
# of the compiled model are sent along, so the replacement does not affect the simulation.


def traveling_scene(
    source: Path, flat: mujoco.MjModel, ground: TerrainKind = "flat"
) -> dict[str, bytes]:
    """Return the scene file of a model and its assets by relative path.

    Args:
        source: file of the model.
        flat: compiled model on flat ground, for comparison with the written scene.
        ground: terrain to place on the floor.

    Raises:
        UsageError: if the model cannot be reproduced from the file alone.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / ASSETS).mkdir()
        try:
            write_scene(source, flat, place)
        except TelicError as error:
            raise UsageError(f"The scene cannot run in a browser: {error.message}") from error
        tree = ElementTree.parse(place / SCENE)
        root = tree.getroot()
        _let_older_read(root)
        for mesh in _unfelt(root, flat):
            mesh.set("name", mesh.get("name") or Path(mesh.get("file") or "").stem)
            mesh.set("file", _UNFELT)
            mesh.set("scale", "1 1 1")
            (place / ASSETS / _UNFELT).write_bytes(_tetrahedron())
        if ground != "flat":
            _lay(root, flat, ground, place / ASSETS)
        tree.write(place / SCENE, encoding="unicode")
        used = {element.get("file") for element in root.iter() if element.get("file")}
        files = [path for path in sorted((place / ASSETS).iterdir()) if path.name in used]
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in files} | {
            SCENE: (place / SCENE).read_bytes()
        }


def _let_older_read(root: ElementTree.Element) -> None:
    """Remove the actuator attribute `input`, which MuJoCo versions before 4 do not support.

    Older versions derive `input` from gain and bias, which are among the model parameters. Textures
    are also removed, because they are large and only visual.
    """
    for actuators in root.iter("actuator"):
        for drive in actuators:
            drive.attrib.pop("input", None)
    for assets in root.iter("asset"):
        for element in [*assets.findall("texture"), *assets.findall("material")]:
            element.attrib.pop("texture", None)
            if element.tag == "texture":
                assets.remove(element)


def _unfelt(root: ElementTree.Element, model: mujoco.MjModel) -> list[ElementTree.Element]:
    """Return the mesh assets that do not take part in collisions."""
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    collides[model.pair_geom1] = True
    collides[model.pair_geom2] = True
    felt = {int(each) for each in model.geom_dataid[collides & (model.geom_type == _MESH)]}
    # Primitive geoms can be fitted to a mesh, which then affects collisions.
    felt |= {int(each) for each in model.geom_dataid[collides & (model.geom_dataid >= 0)]}
    found: list[ElementTree.Element] = []
    for mesh in root.iter("mesh"):
        file = mesh.get("file")
        if file is not None and model.mesh(mesh.get("name") or Path(file).stem).id not in felt:
            found.append(mesh)
    return found


def _tetrahedron() -> bytes:
    """Return a tetrahedron with edges of 0.1 m along the axes, as binary STL."""
    corners = 0.1 * np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], dtype="<f4")
    faces = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
    rows = [bytes(12) + corners[list(face)].tobytes() + bytes(2) for face in faces]
    return bytes(80) + struct.pack("<I", len(rows)) + b"".join(rows)


def _lay(
    root: ElementTree.Element, flat: mujoco.MjModel, ground: TerrainKind, assets: Path
) -> None:
    """Add a height field like `telic.robots.terrain.lay`. Model parameters determine its pose."""
    board = terrain(Ground(ground), standing_m(flat)).heights
    highest = max(float(board.max()), 1e-3)
    content = struct.pack("<2i", *board.shape) + (board / highest).astype("<f4").tobytes()
    (assets / f"{NAME}.bin").write_bytes(content)
    size = (ROWS * FIELD_M / 2.0, COLUMNS * FIELD_M / 2.0, highest, 0.1)
    facts = {"name": NAME, "file": f"{NAME}.bin", "size": " ".join(map(repr, size))}
    ElementTree.SubElement(ElementTree.SubElement(root, "asset"), "hfield", facts)
    world = next(root.iter("worldbody"))
    ElementTree.SubElement(world, "geom", {"name": NAME, "type": "hfield", "hfield": NAME})


def simulated_numbers(model: mujoco.MjModel) -> dict[str, Reals]:
    """Return the model parameters that affect the simulation, by field name."""
    found: dict[str, Reals] = {}
    for name in dir(model):
        if name.startswith(("_", *_LOOKS)):
            continue
        value: Any = getattr(model, name)
        if getattr(value, "dtype", None) == np.float64 and 0 < value.size <= _MAX_NUMBERS:
            found[name] = tuple(map(float, value.ravel()))
    return found
