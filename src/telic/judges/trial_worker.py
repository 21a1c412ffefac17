"""The confined side of a trial. Entry of the sandbox worker."""

from __future__ import annotations

from typing import Any

from telic.judges.puppet import Motion
from telic.judges.trial import try_here

_TRIAL_S = 120.0


def prepare(payload: dict[str, Any], channel: Any) -> None:
    """Nothing to open: examples are simulated confined."""


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Make the examples, reward and judge them."""
    channel.beat(_TRIAL_S, "trying reward and judge on examples")
    motions = [Motion.model_validate(each) for each in payload["motions"]]
    tried = try_here(
        payload["env"], payload["env_args"], payload["reward"], payload["judge"], motions
    )
    return {"examples": [each.model_dump(mode="json") for each in tried]}
