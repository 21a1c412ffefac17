"""A policy that runs in the page: what it needs to know, its scene, its files.

Nothing is stepped here. The page has MuJoCo and the exported policy, and simulates by itself; what
it is given says how telic observes and acts, and a short episode by which it proves that it agrees.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Response

from telic.core.config import Record
from telic.errors import UnknownName
from telic.robots.terrain import TerrainKind
from telic.storage.files import read_fields
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.training.export.live import LivePolicy, live_policy
from telic.training.folder import environment_of
from telic.training.policy import find_policy, load_policy
from telic.training.videos import choose_member
from telic.web.place import WebPlace
from telic.web.playback import DrawnModels, ModelScene

_KEPT = 4
_NUMBERS = "numbers"
"""name of the file of points and triangles"""
_KEPT_HEADERS = {"cache-control": "private, max-age=600"}
Number = Annotated[int | None, Query(ge=0, le=10**9, description="iteration of a session")]


class LiveAnswer(Record):
    """A policy to run, and the robot to draw."""

    policy: LivePolicy
    scene: ModelScene
    member: str
    step: int


class LivePolicies:
    """Policies that were made ready to run elsewhere, the latest used of them."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._made: OrderedDict[tuple[str, int, str], _Ready] = OrderedDict()
        self._turn = threading.Lock()
        self._models = DrawnModels()

    def of(self, name: str, iteration: int | None, ground: TerrainKind) -> _Ready:
        """Return the policy of a thing; raises UsageError where it cannot run elsewhere."""
        run, member, step = _chosen(self._place, name, iteration)
        folder = choose_member(run, member)
        file = self._place.inside(find_policy(folder.path, step))
        key = (str(file), file.stat().st_mtime_ns, ground)
        with self._turn:
            if key not in self._made:
                self._made[key] = self._ready(run, folder, file, ground)
            self._made.move_to_end(key)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
            return self._made[key]

    def _ready(
        self, run: RunFolder, folder: MemberFolder, file: Path, ground: TerrainKind
    ) -> _Ready:
        environment = environment_of(run)
        policy = load_policy(file)
        reward = read_text(folder.reward_code) if folder.reward_code.exists() else None
        live = live_policy(policy, reward, environment, ground)
        drawn = self._models.of((environment[0], {**environment[1], "terrain": ground}))
        answer = LiveAnswer(
            policy=live.about,
            scene=drawn.scene,
            member=folder.name,
            step=int(policy.facts["step"]),
        )
        return _Ready(answer, {**live.files, _NUMBERS: drawn.numbers})


class _Ready(NamedTuple):
    answer: LiveAnswer
    files: dict[str, bytes]


def _chosen(
    place: WebPlace, name: str, iteration: int | None
) -> tuple[RunFolder, str | None, int | None]:
    """Return the policy that a session hands out; of others, the one that evaluated best."""
    thing = place.thing(name, "run", "session")
    if thing.kind == "session" and iteration is None:
        summary, number = SessionFolder(thing.path).summary, int | None
        if summary.exists():
            best = {"best_iteration": number, "best_step": number, "best_member": str | None}
            facts = read_fields(summary, **best)
            if facts["best_iteration"] is not None:
                run = place.iteration(name, facts["best_iteration"]).run
                return run, facts["best_member"], facts["best_step"]
    return place.run(name, iteration), None, None


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of policies that run in a page."""
    router, policies = APIRouter(tags=["live"]), LivePolicies(place)

    @router.get("/things/{thing}/live")
    def read_live(thing: str, iteration: Number = None, ground: TerrainKind = "flat") -> LiveAnswer:
        """Return what a page needs to run the policy of a thing by itself."""
        return policies.of(thing, iteration, ground).answer

    @router.get(
        "/things/{thing}/live/{name:path}",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}},
    )
    def read_live_file(
        thing: str, name: str, iteration: Number = None, ground: TerrainKind = "flat"
    ) -> Response:
        """Return a file of it: the scene, an asset, the policy, or the numbers of the shapes."""
        files = policies.of(thing, iteration, ground).files
        if name not in files:
            raise UnknownName("file", name[:200], list(files))
        return Response(files[name], media_type="application/octet-stream", headers=_KEPT_HEADERS)

    return router
