"""Specifications and results of render jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from telic.core.config import Record

View = Literal["side", "front", "top", "three-quarter", "rear-quarter"]


class StillRow(Record):
    """Row of still images in a contact sheet, with height marks on each image."""

    words: str
    steps: tuple[int, ...] = Field(min_length=1, description="rows of the recording to draw")
    notes: tuple[str, ...] = Field(default=(), description="additional caption of each still")
    view: View | None = Field(default=None, description="camera view, chosen for the robot if None")
    near: bool = Field(
        default=False, description="whether to follow the robot closely in all directions"
    )


class FootTrace(Record):
    """Height of a foot at evenly spaced times of an episode."""

    name: str
    heights_m: tuple[float, ...] = Field(min_length=1)
    touches: tuple[bool, ...]
    seconds: float


class RenderJob(Record):
    """Specification of an image or video of a recorded episode."""

    trajectory: Path = Field(description="recorded episode (.npz)")
    output: Path = Field(description="output file, .mp4 for a video or .png for a strip of stills")
    env: str = Field(description="environment of the episode, not taken from the recording")
    env_args: dict[str, Any] = Field(default={}, description="environment arguments")
    width: int | None = Field(
        default=None,
        ge=32,
        le=4096,
        description="width in pixels, by default 480 with OpenGL, 320 with rays and 240 in a strip",
    )
    height: int | None = Field(
        default=None, ge=24, le=4096, description="height in pixels, by default 3/4 of the width"
    )
    view: View | None = Field(
        default=None, description="camera position, by default chosen for the robot"
    )
    caption: bool = Field(
        default=True, description="whether to show time, step and return (only time on sheets)"
    )
    fps: float = Field(
        default=30.0, gt=0, le=120, description="maximum frames per second of the real-time video"
    )
    frames: int = Field(default=6, ge=1, le=24, description="number of still frames in a strip")
    rows: tuple[StillRow, ...] = Field(
        default=(), description="rows of a contact sheet to draw instead of a strip"
    )
    traces: tuple[FootTrace, ...] = Field(default=(), description="charts below a contact sheet")

    @field_validator("output")
    @classmethod
    def _check_output(cls, output: Path) -> Path:
        if output.suffix not in (".mp4", ".png"):
            raise ValueError(f"the output must end in .mp4 or .png, not {output.suffix!r}")
        return output

    @property
    def is_video(self) -> bool:
        """True if the output is a video rather than an image."""
        return self.output.suffix == ".mp4"


class Rendering(Record):
    """Result of a render job. The output exists unless there is an error."""

    output: Path
    backend: str = Field(description="renderer: egl, osmesa, cgl, rays or gymnasium")
    error: str | None = None
