"""The confined side of judging. Entry of the sandbox worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.judges.code import judge_here

_JUDGE_S = 60.0


def prepare(payload: dict[str, Any], channel: Any) -> None:
    """Nothing to open: episodes are read confined."""


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Judge every episode."""
    channel.beat(_JUDGE_S, "judging")
    verdicts = judge_here(payload["source"], [Path(each) for each in payload["paths"]])
    return {"verdicts": [each.model_dump(mode="json") for each in verdicts]}
