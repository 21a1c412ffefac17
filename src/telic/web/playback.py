"""Recorded episodes for a player: poses, reward terms and what the judge saw, on one clock."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from telic.authors.candidate import SessionIteration
from telic.core.config import Record
from telic.errors import TelicError, UsageError
from telic.judges.verdict import Verdict
from telic.storage.files import read_record
from telic.storage.trajectories import COMMANDS, Environment, Trajectory, read_trajectory
from telic.training.folder import environment_of
from telic.web.artefacts import FoundFile, find_file
from telic.web.place import WebPlace
from telic.web.scenes import DrawnModels, ModelScene, body_poses

_KEPT_HEADERS = {"cache-control": "private, max-age=3600"}
Number = Annotated[int | None, Query(ge=0, le=10**9, description="iteration of a session")]


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
    verdict: Verdict | None = Field(description="what judges said of this very episode")


def _environment(place: WebPlace, name: str, iteration: int | None) -> Environment:
    """Return where an episode was played, as the run was asked; never as a recording says."""
    return environment_of(place.run(name, iteration))


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
    def read_poses(thing: str, key: str) -> Response:
        """Return float32 (frames, bodies, 7), little-endian: x y z, w x y z of every body."""
        _, trajectory = _episode(place, thing, key)
        model = models.of(trajectory.facts.environment).model
        return _binary(body_poses(model, trajectory).astype("<f4").tobytes())

    return router


def _binary(content: bytes, **headers: Any) -> Response:
    return Response(content, media_type="application/octet-stream", headers=_KEPT_HEADERS | headers)
