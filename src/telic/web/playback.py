"""Recorded episodes for a player: poses, reward terms and what the judge saw, on one clock.

Shapes are a document; points and triangles of meshes are numbers beside it. Poses are float32,
little-endian, (frames, bodies, 7): place in metres and orientation as w x y z. Nothing is simulated
again: the model is put into every recorded state.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Response
from pydantic import Field

from telic.authors.candidate import SessionIteration
from telic.core.config import Record
from telic.errors import TelicError, UsageError
from telic.judges.verdict import Verdict
from telic.rendering.look import load_dressed
from telic.rendering.replay import assets_dir, model_file
from telic.robots import robot_path
from telic.robots.terrain import ground_in
from telic.storage.files import read_record
from telic.storage.trajectories import (
    COMMANDS,
    REFERENCE,
    Environment,
    Trajectory,
    TrajectoryFacts,
    read_trajectory,
)
from telic.training.folder import environment_of
from telic.web.artefacts import FoundFile, find_file
from telic.web.place import WebPlace
from telic.web.trackings import robot_environment

if TYPE_CHECKING:
    import mujoco
    import numpy as np

    from telic.robots.terrain import Ground

_KEPT = 6
"""models that stay in memory"""
_HIDDEN = 3
"""first group of geoms that is not drawn"""
Shape = Literal["plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
_SHAPES: dict[int, Shape] = {
    0: "plane",
    1: "hfield",
    2: "sphere",
    3: "capsule",
    4: "ellipsoid",
    5: "cylinder",
    6: "box",
    7: "mesh",
}
_KEPT_HEADERS = {"cache-control": "private, max-age=3600"}
Number = Annotated[int | None, Query(ge=0, le=10**9, description="iteration of a session")]


class SceneGeom(Record):
    """One shape, fixed to a body."""

    body: int
    shape: Shape
    size: tuple[float, ...]
    """radius and half lengths, as MuJoCo has them"""
    position: tuple[float, ...]
    quaternion: tuple[float, ...]
    """w x y z"""
    rgba: tuple[float, ...]
    mesh: int | None = None
    """its number among the meshes, or among the height fields"""


class SceneMesh(Record):
    """Where the points (float32) and the triangles (uint32) of a mesh lie among the numbers."""

    vertex_start: int
    """byte"""
    vertices: int
    face_start: int
    faces: int


class SceneField(Record):
    """Where the heights (float32, from 0 to 1, by rows) of a field lie among the numbers."""

    start: int
    """byte"""
    rows: int
    columns: int
    size: tuple[float, ...]
    """half width in x and y, height of 1, depth below"""


class SceneBody(Record):
    """A body of a model."""

    name: str
    parent: int


class ModelScene(Record):
    """The shapes of a model."""

    env: str
    bodies: tuple[SceneBody, ...]
    geoms: tuple[SceneGeom, ...]
    meshes: tuple[SceneMesh, ...]
    fields: tuple[SceneField, ...]
    extent_m: float
    centre: tuple[float, ...]
    number_bytes: int
    """of meshes and fields together"""


class PlaybackFacts(Record):
    """An episode beside its poses; lists have a value for every frame."""

    frames: int
    bodies: int
    """of a pose; 0: the environment has no model to draw"""
    dt_s: float | None
    env: str
    iteration: int | None
    member: str | None
    label: str | None
    total_return: float | None
    rewards: tuple[float, ...]
    reward_terms: dict[str, tuple[float, ...]]
    commands: dict[str, tuple[float, ...]]
    """what a robot was told: m/s ahead, m/s left, rad/s left"""
    actions: tuple[tuple[float, ...], ...]
    action_names: tuple[str, ...]
    ended: bool
    """whether it ended before its time"""
    has_reference: bool
    """whether a motion that was to be followed was recorded beside it"""
    verdict: Verdict | None = Field(description="what judges said of this very episode")


def _environment(place: WebPlace, name: str, iteration: int | None) -> Environment:
    """Return where an episode was played, as the run was asked; never as a recording says."""
    run = place.run(name, iteration)
    return robot_environment(run) or environment_of(run)


def _episode(place: WebPlace, name: str, key: str) -> tuple[FoundFile, Trajectory]:
    found = find_file(place, place.thing(name, "run", "session"), key)
    if found.file.kind != "recording":
        raise UsageError(f"{found.file.name} is no recorded episode.")
    environment = _environment(place, name, found.file.iteration)
    return found, read_trajectory(place.inside(found.path), environment)


def _verdict(place: WebPlace, name: str, found: FoundFile) -> Verdict | None:
    """Return what was said of a judged episode."""
    file = found.file
    if not file.is_judged or file.iteration is None or not (file.label or "").isdecimal():
        return None
    judgment = place.iteration(name, file.iteration).judgment
    if not judgment.exists():
        return None
    members = read_record(judgment, SessionIteration).members
    score = next((each for each in members if each.member == file.member), None)
    number = int(file.label or 0) - 1
    verdicts = score.judgement.verdicts if score else ()
    return verdicts[number] if 0 <= number < len(verdicts) else None


def _column(trajectory: Trajectory, name: str) -> tuple[float, ...]:
    if name not in trajectory or trajectory[name].ndim != 1:
        return ()
    return tuple(map(float, trajectory[name]))


def read_playback(place: WebPlace, models: DrawnModels, name: str, key: str) -> PlaybackFacts:
    """Return what belongs to the poses of an episode."""
    found, trajectory = _episode(place, name, key)
    facts = trajectory.facts
    try:
        bodies = models.of(facts.environment).model.nbody
    except TelicError:
        bodies = 0
    terms: dict[str, tuple[float, ...]] = {}
    if "reward_terms" in trajectory and trajectory["reward_terms"].ndim == 2:
        columns = trajectory["reward_terms"].T
        terms = {
            term: tuple(map(float, column))
            for term, column in zip(facts.reward_term_names, columns, strict=False)
        }
    actions = trajectory.columns.get("action", ())
    return PlaybackFacts(
        frames=len(trajectory),
        bodies=bodies,
        dt_s=facts.dt_s,
        env=facts.env_id,
        iteration=found.file.iteration,
        member=found.file.member,
        label=found.file.label,
        total_return=facts.total_return,
        rewards=_column(trajectory, "reward"),
        reward_terms=terms,
        commands={each: _column(trajectory, each) for each in COMMANDS if each in trajectory},
        actions=tuple(tuple(map(float, row)) for row in actions if getattr(row, "ndim", 0) == 1),
        action_names=facts.action_names,
        ended=bool(trajectory["terminated"].any()) if "terminated" in trajectory else False,
        has_reference=REFERENCE in trajectory,
        verdict=_verdict(place, name, found),
    )


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of a player."""
    router, models = APIRouter(tags=["playback"]), DrawnModels()

    @router.get("/things/{thing}/scene")
    def read_scene(thing: str, iteration: Number = None) -> ModelScene:
        """Return the shapes of the model that a thing was trained on."""
        return models.of(_environment(place, thing, iteration)).scene

    @router.get(
        "/things/{thing}/scene/numbers",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}},
    )
    def read_numbers(thing: str, iteration: Number = None) -> Response:
        """Return the points and triangles of the meshes; the scene says where each begins."""
        numbers = models.of(_environment(place, thing, iteration)).numbers
        return _binary(numbers)

    @router.get("/things/{thing}/playback/{key}")
    def read_episode(thing: str, key: str) -> PlaybackFacts:
        """Return rewards, terms, commands and the verdict of a recorded episode."""
        return read_playback(place, models, thing, key)

    @router.get(
        "/things/{thing}/playback/{key}/poses",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}},
    )
    def read_poses(thing: str, key: str, of: Literal["robot", "reference"] = "robot") -> Response:
        """Return float32 (frames, bodies, 7), little-endian: x y z, w x y z of every body.

        Those of the robot, or of the motion that it was to follow.
        """
        _, trajectory = _episode(place, thing, key)
        model = models.of(trajectory.facts.environment).model
        column = REFERENCE if of == "reference" else "qpos"
        return _binary(body_poses(model, trajectory, column).astype("<f4").tobytes())

    return router


def _binary(content: bytes, **headers: Any) -> Response:
    return Response(content, media_type="application/octet-stream", headers=_KEPT_HEADERS | headers)


# ---------------------------------------------------------------------------- what is drawn


class DrawnModel(NamedTuple):
    """A model, its shapes, and the numbers of its meshes."""

    model: mujoco.MjModel
    scene: ModelScene
    numbers: bytes


class DrawnModels:
    """Models that were loaded, the latest used of them."""

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[Path, Ground], DrawnModel] = OrderedDict()
        self._turn = threading.Lock()

    def of(self, environment: Environment) -> DrawnModel:
        """Return the model of an environment; raises UsageError where it has none."""
        env, arguments = environment
        located = str(robot_path(env) or env)
        facts = TrajectoryFacts(env_id=located, env_kwargs=arguments, dt_s=None)
        path = model_file(facts)
        if path is None:
            raise UsageError(
                f"{env} has no MuJoCo model to draw.", hint="Watch its videos instead."
            )
        ground = ground_in(facts.env_kwargs)
        with self._turn:
            key = (path, ground)
            if key not in self._models:
                is_own = path.is_relative_to(assets_dir())
                model = load_dressed(path, repaint=is_own, ground=ground)
                self._models[key] = _drawn(env, model)
            self._models.move_to_end(key)
            while len(self._models) > _KEPT:
                self._models.popitem(last=False)
            return self._models[key]


def _drawn(env: str, model: mujoco.MjModel) -> DrawnModel:
    numbers = bytearray()
    meshes = tuple(_mesh(model, number, numbers) for number in range(model.nmesh))
    fields = tuple(_field(model, number, numbers) for number in range(model.nhfield))
    geoms = (_geom(model, number) for number in range(model.ngeom))
    scene = ModelScene(
        env=env,
        bodies=tuple(
            SceneBody(name=model.body(number).name, parent=int(model.body_parentid[number]))
            for number in range(model.nbody)
        ),
        geoms=tuple(geom for geom in geoms if geom is not None),
        meshes=meshes,
        fields=fields,
        extent_m=float(model.stat.extent),
        centre=_floats(model.stat.center),
        number_bytes=len(numbers),
    )
    return DrawnModel(model, scene, bytes(numbers))


def _geom(model: mujoco.MjModel, number: int) -> SceneGeom | None:
    shape = _SHAPES.get(int(model.geom_type[number]))
    material = int(model.geom_matid[number])
    rgba = model.geom_rgba[number] if material < 0 else model.mat_rgba[material]
    if shape is None or rgba[3] <= 0 or model.geom_group[number] >= _HIDDEN:
        return None
    data = int(model.geom_dataid[number])
    return SceneGeom(
        body=int(model.geom_bodyid[number]),
        shape=shape,
        size=_floats(model.geom_size[number]),
        position=_floats(model.geom_pos[number]),
        quaternion=_floats(model.geom_quat[number]),
        rgba=_floats(rgba),
        mesh=data if shape in ("mesh", "hfield") and data >= 0 else None,
    )


def _mesh(model: mujoco.MjModel, number: int, numbers: bytearray) -> SceneMesh:
    start, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
    vertices = model.mesh_vert[start : start + count]
    first, faces = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
    places = len(numbers), len(numbers) + count * 12
    numbers += vertices.astype("<f4").tobytes()
    numbers += model.mesh_face[first : first + faces].astype("<u4").tobytes()
    return SceneMesh(vertex_start=places[0], vertices=count, face_start=places[1], faces=faces)


def _field(model: mujoco.MjModel, number: int, numbers: bytearray) -> SceneField:
    rows, columns = int(model.hfield_nrow[number]), int(model.hfield_ncol[number])
    first, start = int(model.hfield_adr[number]), len(numbers)
    numbers += model.hfield_data[first : first + rows * columns].astype("<f4").tobytes()
    size = _floats(model.hfield_size[number])
    return SceneField(start=start, rows=rows, columns=columns, size=size)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def body_poses(model: mujoco.MjModel, trajectory: Trajectory, column: str = "qpos") -> np.ndarray:
    """Return where the bodies were, (frames, bodies, 7) float32, as far as numbers were recorded.

    Raises UsageError for an episode of another model.
    """
    import mujoco
    import numpy as np

    if column not in trajectory or trajectory[column].shape[1:] != (model.nq,):
        raise UsageError(
            "The recording does not fit the model.",
            hint="It was made with another version of the model; record it again.",
        )
    states = trajectory[column]
    broken = np.flatnonzero(~np.isfinite(states).all(1))
    states = states[: broken[0]] if len(broken) else states
    poses = np.empty((len(states), model.nbody, 7), dtype=np.float32)
    data = mujoco.MjData(model)
    for row, state in enumerate(states):
        data.qpos[:] = state
        for name in ("mocap_pos", "mocap_quat"):
            if name in trajectory:
                getattr(data, name)[:] = trajectory[name][row]
        mujoco.mj_kinematics(model, data)
        poses[row, :, :3] = data.xpos
        poses[row, :, 3:] = data.xquat
    return poses
