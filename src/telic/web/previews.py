"""An intent before it is started: what would be measured, and what it would take.

The composer reads it, which costs nothing and leaves nothing behind; with a model, its own reading
may differ, and is shown on the session's page.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from telic.authors.author import MeasurableIntent
from telic.composer.compose import compose
from telic.core.config import Record
from telic.envs.catalogue import describe
from telic.errors import UsageError
from telic.session import ENV, ITERATIONS, SEEDS
from telic.session.budget import Allowance
from telic.session.forecast import Forecast, session_forecast
from telic.session.records import SessionConfig
from telic.storage.layout import SessionFolder
from telic.training.plan import steps_factor
from telic.web.place import WebPlace
from telic.web.verb_routes import check_env

_NOWHERE = "preview"


class IntentPreview(MeasurableIntent):
    """What an intent would be measured by, and what it would take."""

    forecast: Forecast


class PreviewQuery(Record):
    """An intent that somebody thinks about."""

    intent: Annotated[str, Field(min_length=1, max_length=2000)]
    env: Annotated[str, Field(max_length=200)] = ENV
    seeds: Annotated[tuple[int, ...], Field(min_length=1, max_length=64)] = SEEDS
    iterations: Annotated[int, Field(ge=1, le=1000)] = ITERATIONS
    steps: Annotated[int, Field(ge=1, le=10**12)] | None = None


def preview(place: WebPlace, query: PreviewQuery) -> IntentPreview:
    """Read an intent by rules; starts, writes and fetches nothing."""
    check_env({"env": query.env})
    _require_here(query.env)
    config = SessionConfig.parse(query.model_dump())
    written = compose(query.intent, describe(query.env))
    folder = SessionFolder(place.runs_dir / _NOWHERE)  # only its parent is looked at
    steps = written.steps * steps_factor(config.device)
    return IntentPreview(
        criteria=written.criteria,
        doubts=written.doubts,
        not_understood=written.not_understood,
        dropped=written.dropped,
        covered=written.covered,
        forecast=session_forecast(config, steps, folder, Allowance()),
    )


def _require_here(env: str) -> None:
    """Raise UsageError for a robot whose files would have to be fetched."""
    from telic.robots.catalogue import is_fetched, named_robot, robot_names

    if env in robot_names() and not is_fetched(named_robot(env)):
        raise UsageError(
            f"The files of {env} are not on this machine yet.",
            hint="They are fetched when you press Start; criteria are shown then.",
        )


def routes(place: WebPlace) -> APIRouter:
    """Return the route of previews."""
    router = APIRouter(tags=["start"])

    @router.get("/preview")
    def read_preview(query: Annotated[PreviewQuery, Query()]) -> IntentPreview:
        """Say what an intent would be measured by and what it would take; starts nothing."""
        return preview(place, query)

    return router
