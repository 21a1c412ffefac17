"""The start page: criteria and forecast of an intent before it is started, pictures of robots.

The composer reads the intent, which costs nothing and writes nothing; a model may read it
differently. Pictures of known robots come with telic (scripts/pictures.py); others are drawn once
and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from pydantic import Field

from telic.authors.author import MeasurableIntent
from telic.authors.request import ENV, ITERATIONS, SEEDS, SessionConfig
from telic.composer.compose import compose
from telic.core.config import Record
from telic.envs.catalogue import describe
from telic.errors import UsageError
from telic.rendering import draw_portrait
from telic.rendering.replay import model_file
from telic.robots import robot_path
from telic.robots.catalogue import cache_folder, is_fetched, named_robot, robot_names
from telic.session import motion
from telic.session.budget import Forecast, session_forecast
from telic.storage.reading import file_hash
from telic.storage.trajectories import TrajectoryFacts
from telic.training.plan import steps_factor
from telic.web.place import WebPlace
from telic.web.verb_routes import check_env

PICTURES = Path(__file__).parent / "pictures"
_turn = threading.Lock()
"""one picture at a time: each starts a process that renders"""


class IntentPreview(MeasurableIntent):
    """Criteria and forecast of an intent."""

    forecast: Forecast


class PreviewQuery(Record):
    """An intent to preview."""

    intent: Annotated[str, Field(min_length=1, max_length=2000)]
    env: Annotated[str, Field(max_length=200)] = ENV
    seeds: Annotated[tuple[int, ...], Field(min_length=1, max_length=64)] = SEEDS
    iterations: Annotated[int, Field(ge=1, le=1000)] = ITERATIONS
    steps: Annotated[int, Field(ge=1, le=10**12)] | None = None


def _preview(place: WebPlace, query: PreviewQuery) -> IntentPreview:
    _require_here(query.env, "They are fetched when you press Start; criteria are shown then.")
    config = SessionConfig.parse(query.model_dump())
    spec = describe(query.env)
    written = compose(query.intent, spec, reference=motion.chosen(config, spec))
    steps = written.steps * steps_factor(config.device)
    return IntentPreview(
        criteria=written.criteria,
        doubts=written.doubts,
        not_understood=written.not_understood,
        dropped=written.dropped,
        covered=written.covered,
        forecast=session_forecast(config, steps, place.runs_dir),
    )


def _require_here(env: str, hint: str) -> None:
    """Raise Refused for an unregistered environment, UsageError for a robot not fetched yet."""
    check_env({"env": env})
    if env in robot_names() and not is_fetched(named_robot(env)):
        raise UsageError(f"The files of {env} are not on this machine yet.", hint=hint)


def model_of(env: str) -> Path:
    """Return the model of an environment by name; raises UsageError where there is none here."""
    _require_here(env, f"Fetch them: telic robots {env}")
    located = str(robot_path(env) or env)
    path = model_file(TrajectoryFacts(env_id=located, dt_s=None))
    if path is None:
        raise UsageError(f"{env} has no MuJoCo model to draw.")
    return path


def _portrait(env: str) -> Path:
    """Return a picture of an environment: one that came with telic, or one rendered here."""
    if (known := {path.stem: path for path in PICTURES.glob("*.jpg")}.get(env)) is not None:
        return known
    model = model_of(env)
    mark = hashlib.sha256(f"{model} {file_hash(model)}".encode()).hexdigest()[:16]
    picture = cache_folder() / "portraits" / f"{mark}.png"
    with _turn:
        if not picture.exists():
            picture.parent.mkdir(parents=True, exist_ok=True)
            draw_portrait(model, picture)
    return picture


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of the start page."""
    router = APIRouter(tags=["start"])

    @router.get("/preview")
    def read_preview(query: Annotated[PreviewQuery, Query()]) -> IntentPreview:
        """Return the criteria and the forecast of an intent; starts, writes and fetches nothing."""
        return _preview(place, query)

    @router.get(
        "/pictures/{env}",
        response_class=FileResponse,
        responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
    )
    def env_picture(env: str) -> FileResponse:
        """Return a picture of an environment or a robot in its initial state."""
        headers = {"cache-control": "private, max-age=86400"}
        return FileResponse(_portrait(env), headers=headers)

    return router
