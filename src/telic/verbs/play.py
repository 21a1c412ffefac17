"""Render a policy: a recorded episode, a new one, or one under commanded velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.request import option
from telic.core.verb import verb
from telic.training.folder import environment_of
from telic.verbs.artifacts import PolicyRequest

_EXAMPLES = """
telic play                                     the best policy of the latest session or run

telic play --seed 7 --view top -o seen.mp4     a new episode, seen from above

telic play --command 0.5,0,0.3                 commanded velocity: forward, left, turn
"""


class PlayRequest(PolicyRequest):
    """An episode to render."""

    episode: str = option("Recorded episode: p10, median or p90.", default="median")
    seed: int | None = option("Seed of a new episode instead.", default=None)
    view: str | None = option(
        "side, front, top, three-quarter or rear-quarter; default: chosen.", default=None
    )
    size: str | None = option("Width x height in pixels, e.g. 640x480.", default=None)
    out: Path | None = option("Video file to write.", "--out", "-o", default=None)
    command: str | None = option(
        "Commanded velocity: m/s forward, m/s left, rad/s left.", default=None
    )


@verb(PlayRequest, examples=_EXAMPLES)
def play(request: PlayRequest) -> dict[str, Any]:
    """Render an episode of a trained policy as an mp4; of a session, the policy it judged best."""
    from telic.training.videos import choose_member, play_run

    policy = request.choose()
    trajectory: Path | None = None
    if request.command is not None:
        from telic.training.policy import commanded_episode

        member, environment = choose_member(policy.run, policy.member), environment_of(policy.run)
        seed = request.seed or 0
        trajectory = commanded_episode(member, policy.step, seed, environment, request.command)
    return play_run(
        policy.run,
        member=policy.member,
        step=policy.step,
        episode=request.episode,
        seed=request.seed,
        view=request.view,
        size=request.size,
        out=request.out,
        trajectory=trajectory,
    )
