"""Pictures of environments and robots as they stand at the beginning, drawn once and kept.

They are kept in the user's cache, not in the workspace; the name of a kept picture is made from the
model it shows.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from telic.errors import UsageError
from telic.web.place import WebPlace
from telic.web.verb_routes import check_env

_turn = threading.Lock()
"""one picture at a time: each takes a process that draws"""


def model_of(env: str) -> Path:
    """Return the model of an environment by name; raises UsageError where there is none here."""
    from telic.rendering.replay import model_file
    from telic.robots import robot_path
    from telic.robots.catalogue import is_fetched, named_robot, robot_names
    from telic.storage.trajectories import TrajectoryFacts

    check_env({"env": env})
    if env in robot_names() and not is_fetched(named_robot(env)):
        raise UsageError(
            f"The files of {env} are not here yet.", hint=f"Fetch them: telic robots fetch {env}"
        )
    located = str(robot_path(env) or env)
    path = model_file(TrajectoryFacts(env_id=located, dt_s=None))
    if path is None:
        raise UsageError(f"{env} has no MuJoCo model to draw.")
    return path


def portrait(env: str) -> Path:
    """Return a picture of an environment, drawn if it is not there yet."""
    from telic.rendering.portrait import draw_portraits
    from telic.robots.catalogue import cache_folder
    from telic.storage.reading import file_hash

    model = model_of(env)
    mark = hashlib.sha256(f"{model} {file_hash(model)}".encode()).hexdigest()[:16]
    picture = cache_folder() / "portraits" / f"{mark}.png"
    with _turn:
        if not picture.exists():
            picture.parent.mkdir(parents=True, exist_ok=True)
            draw_portraits([model], [picture])
    return picture


def routes(place: WebPlace) -> APIRouter:
    """Return the route of pictures."""
    router = APIRouter(tags=["pictures"])

    @router.get(
        "/pictures/{env}",
        response_class=FileResponse,
        responses={200: {"content": {"image/png": {}}}},
    )
    def env_picture(env: str) -> FileResponse:
        """Return a picture of an environment or a robot as it starts."""
        headers = {"cache-control": "private, max-age=86400"}
        return FileResponse(portrait(env), media_type="image/png", headers=headers)

    return router
