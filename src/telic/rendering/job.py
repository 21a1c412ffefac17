"""What is to be drawn of an episode, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from telic.core.config import Record

View = Literal["side", "front", "top", "three-quarter", "rear-quarter"]


class RenderJob(Record):
    """One picture or video to make of one recorded episode."""

    trajectory: Path = Field(description="recorded episode (.npz)")
    output: Path = Field(description=".mp4 is a video, .png a strip of still frames")
    env: str | None = Field(
        default=None,
        description="environment that was played, as the run's config.json says; None: the file's "
        "own word, which is taken for registered ids only",
    )
    env_args: dict[str, Any] = Field(default={}, description="its constructor arguments")
    trust: bool = Field(
        default=False,
        description="believe the file in what to import and which model to open",
    )
    width: int | None = Field(
        default=None,
        ge=32,
        le=4096,
        description="pixels; by default 480 with OpenGL, 320 with rays, 240 in a strip",
    )
    height: int | None = Field(
        default=None, ge=24, le=4096, description="pixels; by default three quarters of the width"
    )
    view: View | None = Field(
        default=None, description="where the camera stands; by default what suits the robot"
    )
    caption: bool | Literal["time"] = Field(
        default=True,
        description="draw time, step and return at the bottom; "
        '"time" alone for judges, who must not see the return',
    )
    fps: float = Field(
        default=30.0, gt=0, le=120, description="most frames per second; playback is real time"
    )
    fine: bool = Field(
        default=False, description="four pixels for one: smoother, twice the time (OpenGL only)"
    )
    frames: int = Field(default=6, ge=1, le=24, description="still frames in a strip")
    columns: int | None = Field(
        default=None, ge=1, description="still frames in a line; by default all in one"
    )
    near: bool = Field(
        default=False, description="follow the robot closely, also up and down, filling the frame"
    )
    ruler: bool = Field(
        default=False, description="mark heights above the floor at the left of every frame"
    )
    shift: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="how much later than usual still frames are, in distances between two of them",
    )
    between_s: tuple[float, float] | None = Field(
        default=None, description="part of the episode a strip shows, in seconds; by default all"
    )

    @field_validator("output")
    @classmethod
    def _check_output(cls, output: Path) -> Path:
        if output.suffix not in (".mp4", ".png"):
            raise ValueError(f"a rendering ends in .mp4 or .png, not {output.suffix!r}")
        return output

    @property
    def is_video(self) -> bool:
        """Say whether a video is wanted rather than a strip of pictures."""
        return self.output.suffix == ".mp4"


class Rendering(Record):
    """What became of a job; the output exists unless there is an error."""

    output: Path
    backend: str = Field(description="what drew it: egl, osmesa, cgl, rays, or gymnasium")
    error: str | None = None
    frames: int | None = None
    fps: float | None = None
    seconds: float | None = Field(default=None, description="time it took")
