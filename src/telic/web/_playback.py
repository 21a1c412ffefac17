"""Recorded episodes and live policies for 3-D views.

Shapes are sent as JSON, and vertices, triangles and heights as binary data. Poses are little-endian
float32, (frames, bodies, 7), with the position in meters and the quaternion w x y z. The server
does not simulate. Recorded episodes are replayed through the model's kinematics, and live policies
run in the browser with MuJoCo and the exported network.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import mujoco
import numpy as np
from fastapi import APIRouter, Query, Response

from telic.authors.candidate import SessionIteration
from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.judges.validation import text_hash
from telic.judges.verdict import Verdict
from telic.motions.robot import motion_robot
from telic.rendering.look import load_dressed
from telic.rendering.replay import model_file
from telic.robots import robot_path
from telic.robots.terrain import Ground, TerrainKind, ground_in
from telic.sim.files import assets_dir
from telic.storage.files import read_fields, read_record
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.trajectories import (
    COMMANDS,
    REFERENCE,
    Environment,
    Trajectory,
    TrajectoryFacts,
    read_trajectory,
)
from telic.tracking.train import CONFIG, read_config
from telic.training.export.live import LivePolicy, live_policy
from telic.training.folder import environment_of
from telic.training.policy import find_policy, load_policy
from telic.training.videos import choose_member
from telic.web._files import ArtifactFile, find_file
from telic.web._place import NotTrained, WebPlace
from telic.web._replay import Timeline, replay

_HIDDEN_GROUP = 3
"""first group of geoms that is not drawn"""
_NUMBERS = "numbers"
"""file name of the mesh data of a live policy"""
_BYTES = "application/octet-stream"
_Motion = Literal["robot", "reference"]
Shape = Literal["plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
_SHAPES: tuple[Shape, ...] = (
    *("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"),
)
"""shape of each MuJoCo geom type"""
Number = Annotated[int | None, Query(ge=0, le=10**9, description="iteration of a session")]


class SceneGeom(Record):
    """A shape attached to a body."""

    body: int
    shape: Shape
    size: tuple[float, ...]
    """radius and half lengths, as in MuJoCo"""
    position: tuple[float, ...]
    quaternion: tuple[float, ...]
    """w x y z"""
    rgba: tuple[float, ...]
    mesh: int | None = None
    """index of its mesh or height field"""


class SceneMesh(Record):
    """Byte offsets of the vertices (float32) and triangles (uint32) of a mesh."""

    vertex_start: int
    vertices: int
    face_start: int
    faces: int


class SceneField(Record):
    """Byte offset of a height field's heights (float32, in [0, 1], row-major)."""

    start: int
    rows: int
    columns: int
    size: tuple[float, ...]
    """half widths in x and y, height scale and base depth"""


class ModelScene(Record):
    """Shapes of a model."""

    bodies: tuple[str, ...]
    geoms: tuple[SceneGeom, ...]
    meshes: tuple[SceneMesh, ...]
    fields: tuple[SceneField, ...]
    number_bytes: int
    """total size of meshes and height fields"""


class PlaybackFacts(Record):
    """Metadata of an episode, without its poses. Lists contain one value per frame."""

    bodies: int
    """number of bodies per pose"""
    dt_s: float | None
    env: str
    iteration: int | None
    member: str | None
    label: str | None
    rewards: tuple[float, ...]
    reward_terms: dict[str, tuple[float, ...]]
    commands: dict[str, tuple[float, ...]]
    """commanded velocity: forward and left in m/s, yaw to the left in rad/s"""
    has_reference: bool
    """whether the reference motion was recorded"""
    verdict: Verdict | None


class LiveAnswer(Record):
    """Policy that runs in the browser, with the robot to draw."""

    policy: LivePolicy
    scene: ModelScene
    member: str
    step: int


class _DrawnModel(NamedTuple):
    model: mujoco.MjModel
    scene: ModelScene
    numbers: bytes


class _LiveFiles(NamedTuple):
    answer: LiveAnswer
    files: dict[str, bytes]


# ---------------------------------------------------------------------------- models


def _drawn(environment: Environment) -> _DrawnModel:
    """Return the model of an environment. Raises UsageError if it has none."""
    env, arguments = environment
    facts = TrajectoryFacts(env_id=str(robot_path(env) or env), env_kwargs=arguments, dt_s=None)
    path = model_file(facts)
    if path is None:
        raise UsageError(f"{env} has no MuJoCo model to render.", hint="Watch the videos instead.")
    return _drawn_file(path, ground_in(facts.env_kwargs))


@lru_cache(maxsize=6)
def _drawn_file(path: Path, ground: Ground) -> _DrawnModel:
    is_own = path.is_relative_to(assets_dir())
    return draw_model(load_dressed(path, repaint=is_own, ground=ground))


def draw_model(model: mujoco.MjModel) -> _DrawnModel:
    """Return the shapes of a model, and the binary data of its meshes and height fields."""
    numbers, meshes, fields = bytearray(), list[SceneMesh](), list[SceneField]()
    for index in range(model.nmesh):
        first, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
        face, faces = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
        start = len(numbers)
        numbers += model.mesh_vert[first : first + count].astype("<f4").tobytes()
        meshes.append(
            SceneMesh(vertex_start=start, vertices=count, face_start=len(numbers), faces=faces)
        )
        numbers += model.mesh_face[face : face + faces].astype("<u4").tobytes()
    for index in range(model.nhfield):
        rows, columns = int(model.hfield_nrow[index]), int(model.hfield_ncol[index])
        first, size = int(model.hfield_adr[index]), _floats(model.hfield_size[index])
        fields.append(SceneField(start=len(numbers), rows=rows, columns=columns, size=size))
        numbers += model.hfield_data[first : first + rows * columns].astype("<f4").tobytes()
    geoms: list[SceneGeom] = []
    for index in range(model.ngeom):
        kind, material = int(model.geom_type[index]), int(model.geom_matid[index])
        rgba = model.geom_rgba[index] if material < 0 else model.mat_rgba[material]
        is_hidden = rgba[3] <= 0 or model.geom_group[index] >= _HIDDEN_GROUP
        if is_hidden or not 0 <= kind < len(_SHAPES):
            continue
        data = int(model.geom_dataid[index])
        geoms.append(
            SceneGeom(
                body=int(model.geom_bodyid[index]),
                shape=_SHAPES[kind],
                size=_floats(model.geom_size[index]),
                position=_floats(model.geom_pos[index]),
                quaternion=_floats(model.geom_quat[index]),
                rgba=_floats(rgba),
                mesh=data if _SHAPES[kind] in ("mesh", "hfield") and data >= 0 else None,
            )
        )
    scene = ModelScene(
        bodies=tuple(model.body(index).name for index in range(model.nbody)),
        geoms=tuple(geoms),
        meshes=tuple(meshes),
        fields=tuple(fields),
        number_bytes=len(numbers),
    )
    return _DrawnModel(model, scene, bytes(numbers))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


# ---------------------------------------------------------------------------- episodes


def _environment(run: RunFolder) -> Environment:
    """Return the environment named in a run's request, never the one named in a recording."""
    if (run.path / CONFIG).exists():  # a tracker
        return str(motion_robot(read_config(run).robot.name).file), {}
    return environment_of(run)


def _environment_at(place: WebPlace, artifact: str, iteration: int | None) -> Environment:
    """Return the environment of an artifact, also of a session that has not trained yet."""
    try:
        return _environment(place.run(artifact, iteration))
    except NotTrained:
        return read_fields(place.session(artifact).config, env=str)["env"], {}


def _episode(place: WebPlace, artifact: str, key: str) -> tuple[ArtifactFile, Trajectory]:
    file, path = find_file(place, place.artifact(artifact, "run", "session"), key)
    if file.kind != "recording":
        raise UsageError(f"{file.name} is not a recorded episode.")
    return file, read_trajectory(path, _environment_at(place, artifact, file.iteration))


def _verdict(place: WebPlace, artifact: str, file: ArtifactFile) -> Verdict | None:
    """Return the verdict of a judged episode."""
    if not file.is_judged or file.iteration is None or not (file.label or "").isdecimal():
        return None
    judgment = place.iteration(artifact, file.iteration).judgment
    if not judgment.exists():
        return None
    members = read_record(judgment, SessionIteration).members
    scored = [each.judgment.verdicts for each in members if each.member == file.member]
    index = int(file.label or 0) - 1
    return scored[0][index] if scored and 0 <= index < len(scored[0]) else None


def _course(place: WebPlace, artifact: str, file: ArtifactFile, path: Path) -> Timeline:
    """Evaluate the judge and the reward of a judged episode over time."""
    judge, run = read_text(place.session(artifact).judge), place.run(artifact, file.iteration)
    judgment = place.iteration(artifact, file.iteration or 0).judgment
    if read_record(judgment, SessionIteration).judge_hash not in (None, text_hash(judge)):
        raise UsageError("The judge was revised after this episode was judged.")
    code = MemberFolder(run.path / (file.member or "")).reward_code
    reward = read_text(code) if code.exists() else None
    return _replayed(path, path.stat().st_mtime_ns, judge, reward, run.path)


@lru_cache(maxsize=64)
def _replayed(path: Path, changed: int, judge: str, reward: str | None, run: Path) -> Timeline:
    """Replay an episode. `changed` is part of the cache key."""
    return replay(path, judge, reward, _environment(RunFolder(run)))


def _column(trajectory: Trajectory, name: str) -> tuple[float, ...]:
    if name not in trajectory or trajectory[name].ndim != 1:
        return ()
    return tuple(map(float, trajectory[name]))


def _terms(trajectory: Trajectory) -> dict[str, tuple[float, ...]]:
    if "reward_terms" not in trajectory or trajectory["reward_terms"].ndim != 2:
        return {}
    columns = zip(trajectory.facts.reward_term_names, trajectory["reward_terms"].T, strict=False)
    return {term: tuple(map(float, column)) for term, column in columns}


def _body_poses(model: mujoco.MjModel, trajectory: Trajectory, column: str) -> np.ndarray:
    """Return all body poses, (frames, bodies, 7), truncated at the first NaN state."""
    if column not in trajectory or trajectory[column].shape[1:] != (model.nq,):
        raise UsageError(
            "The recording does not match the model.",
            hint="It was recorded with a different version of the model. Record it again.",
        )
    states = trajectory[column]
    broken = np.flatnonzero(~np.isfinite(states).all(1))
    states = states[: broken[0]] if len(broken) else states
    poses = np.empty((len(states), model.nbody, 7), dtype="<f4")
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


# ---------------------------------------------------------------------------- live policies


def _live(place: WebPlace, artifact: str, iteration: int | None, ground: TerrainKind) -> _LiveFiles:
    """Return the best policy of a session or run, with the files for the browser."""
    found = place.artifact(artifact, "run", "session")
    summary, optional = SessionFolder(found.path).summary, int | None
    member = step = None
    if found.kind == "session" and iteration is None and summary.exists():
        fields = {"best_iteration": optional, "best_step": optional, "best_member": str | None}
        best = read_fields(summary, **fields)
        if best["best_iteration"] is not None:
            iteration, member, step = best["best_iteration"], best["best_member"], best["best_step"]
    run = place.run(artifact, iteration)
    folder = choose_member(run, member)
    file = place.inside(find_policy(folder.path, step))
    return _live_files(file, file.stat().st_mtime_ns, run.path, ground)


@lru_cache(maxsize=4)
def _live_files(file: Path, changed: int, run: Path, ground: TerrainKind) -> _LiveFiles:
    """Export a policy for the browser. `changed` is part of the cache key."""
    (env, arguments), policy = environment_of(RunFolder(run)), load_policy(file)
    live = live_policy(policy, (env, arguments), ground)
    drawn = _drawn((env, {**arguments, "terrain": ground}))
    answer = LiveAnswer(
        policy=live.about,
        scene=drawn.scene,
        member=file.parent.parent.name,
        step=int(policy.facts["step"]),
    )
    return _LiveFiles(answer, {**live.files, _NUMBERS: drawn.numbers})


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for the 3-D views."""
    router = APIRouter(tags=["playback"])
    binary: dict[str, Any] = {
        "response_class": Response,
        "responses": {200: {"content": {_BYTES: {}}}},
    }

    def packed(content: bytes) -> Response:
        headers = {"cache-control": "private, max-age=600"}
        return Response(content, media_type=_BYTES, headers=headers)

    @router.get("/artifacts/{artifact}/scene")
    def read_scene(artifact: str, iteration: Number = None) -> ModelScene:
        """Return the shapes of the model on which an artifact was trained."""
        return _drawn(_environment_at(place, artifact, iteration)).scene

    @router.get("/artifacts/{artifact}/scene/numbers", **binary)
    def read_numbers(artifact: str, iteration: Number = None) -> Response:
        """Return the vertices and triangles of all meshes, at the offsets listed in the scene."""
        return packed(_drawn(_environment_at(place, artifact, iteration)).numbers)

    @router.get("/artifacts/{artifact}/playback/{key}")
    def read_episode(artifact: str, key: str) -> PlaybackFacts:
        """Return the rewards, terms, commands and verdict of a recorded episode."""
        file, trajectory = _episode(place, artifact, key)
        facts = trajectory.facts
        return PlaybackFacts(
            bodies=_drawn(facts.environment).model.nbody,
            dt_s=facts.dt_s,
            env=facts.env_id,
            iteration=file.iteration,
            member=file.member,
            label=file.label,
            rewards=_column(trajectory, "reward"),
            reward_terms=_terms(trajectory),
            commands={name: _column(trajectory, name) for name in COMMANDS if name in trajectory},
            has_reference=REFERENCE in trajectory,
            verdict=_verdict(place, artifact, file),
        )

    @router.get("/artifacts/{artifact}/playback/{key}/poses", **binary)
    def read_poses(artifact: str, key: str, of: _Motion = "robot") -> Response:
        """Return the poses of the robot or reference: float32 (frames, bodies, 7), xyz and wxyz."""
        _, trajectory = _episode(place, artifact, key)
        model = _drawn(trajectory.facts.environment).model
        column = REFERENCE if of == "reference" else "qpos"
        return packed(_body_poses(model, trajectory, column).tobytes())

    @router.get("/artifacts/{artifact}/playback/{key}/course")
    def read_course(artifact: str, key: str) -> Timeline:
        """Return criteria and reward terms of a judged episode over time, computed in a sandbox."""
        file, path = find_file(place, place.artifact(artifact, "session"), key)
        if not file.is_judged:
            raise UsageError(f"{file.name} is not a judged episode.")
        return _course(place, artifact, file, path)

    @router.get("/artifacts/{artifact}/live")
    def read_live(
        artifact: str, iteration: Number = None, ground: TerrainKind = "flat"
    ) -> LiveAnswer:
        """Return the data for running an artifact's policy in the browser."""
        return _live(place, artifact, iteration, ground).answer

    @router.get("/artifacts/{artifact}/live/{name:path}", **binary)
    def read_live_file(
        artifact: str, name: str, iteration: Number = None, ground: TerrainKind = "flat"
    ) -> Response:
        """Return a file of a live policy, such as the scene, an asset, the network or mesh data."""
        files = _live(place, artifact, iteration, ground).files
        if name not in files:
            raise UnknownName("file", name[:200], list(files))
        return packed(files[name])

    return router
