"""Start page with previews of intents (criteria and forecast) and pictures of robots.

Previews use the composer's interpretation, which is free and writes nothing. A selected model only
interprets the intent when the session starts. Pictures of known robots are part of telic
(scripts/pictures.py). Other pictures are rendered once and stored in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse

from telic.authors.author import MeasurableIntent
from telic.authors.request import SessionConfig
from telic.core.request import command_words
from telic.errors import UsageError
from telic.rendering import draw_portrait
from telic.rendering.replay import model_file
from telic.robots import robot_path
from telic.robots.catalogue import cache_folder
from telic.session.budget import Forecast, session_forecast
from telic.storage.reading import file_hash
from telic.storage.trajectories import TrajectoryFacts
from telic.training.plan import steps_factor
from telic.verbs import catalogue
from telic.web._place import WebPlace
from telic.web._verb_routes import body_of, given_values, read_intent, require_here

_READ = ("criteria", "doubts", "not_understood", "dropped", "covered")
PICTURES = Path(__file__).parent / "pictures"
_turn = threading.Lock()
"""renders one picture at a time in a separate process"""


class IntentPreview(MeasurableIntent):
    """Preview of a session, with its criteria, forecast and equivalent command."""

    forecast: Forecast | None
    """None if a model is used, since it is known only after the model has written the reward"""
    config: SessionConfig
    """request including all defaults"""
    command: str


def _preview(place: WebPlace, values: Mapping[str, Any]) -> IntentPreview:
    config, written = read_intent(values)
    read: dict[str, Any] = {"criteria": config.criteria or (), "forecast": None}
    if written is not None:
        steps = (config.steps or written.steps) * steps_factor(config.device)
        read = {name: getattr(written, name) for name in _READ}
        read["forecast"] = session_forecast(config, steps, place.runs_dir)
    words = command_words(catalogue.load_verb("session:run").request, values)
    return IntentPreview(**read, config=config, command=shlex.join(["telic", "run", *words]))


def model_of(env: str) -> Path:
    """Return the model of an environment by name. Raises UsageError if it is not available."""
    require_here(env, f"Download them: telic robots {env}")
    located = str(robot_path(env) or env)
    path = model_file(TrajectoryFacts(env_id=located, dt_s=None))
    if path is None:
        raise UsageError(f"{env} has no MuJoCo model to render.")
    return path


def _portrait(env: str) -> Path:
    """Return the picture of an environment from the package, or render one on this machine."""
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
    """Return the routes for the start page."""
    router = APIRouter(tags=["start"])

    verb = catalogue.load_verb("session:run")

    def read_preview(asked: Any) -> IntentPreview:
        """Return the criteria, forecast and command of a session without starting it."""
        return _preview(place, given_values(verb, asked))

    read_preview.__annotations__["asked"] = body_of(verb, "PreviewRunRequest", ())
    router.add_api_route("/preview/run", read_preview, methods=["POST"])

    @router.get(
        "/pictures/{env}",
        response_class=FileResponse,
        responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
    )
    def env_picture(env: str) -> FileResponse:
        """Return a picture of an environment or robot in its initial state."""
        headers = {"cache-control": "private, max-age=86400"}
        return FileResponse(_portrait(env), headers=headers)

    return router
