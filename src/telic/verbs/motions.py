"""Reference motions: generate, import, list, show and filter clips. The work is in `_motions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic.core.config import Record
from telic.core.request import VerbRequest, WatchedRequest, argument, option
from telic.core.verb import Wrapped, verb

if TYPE_CHECKING:
    from telic.motions.intake import IntakeLine

_EXAMPLES = """
telic motions generate --robot planar-biped --count 40        into the folder "motions"

telic motions show                                            clips of a library

telic motions show walk-0-0000 -o walk.mp4                    facts, and a video of the reference

telic motions import 01_01.bvh --robot unitree-g1 -l g1       a person's motion, retargeted

telic motions filter -l g1 -o good --limit joint_speed=20     clips within the limits

telic motions filter -l g1 -o both --mirror                   left and right exchanged, too
"""
_LIBRARY = Path("motions")


class MotionRequest(VerbRequest):
    """The clips of a library, or one of them."""

    clip: str | None = argument("Clip to show; default: list all.", default=None)
    library: Path = option("Folder of the library.", "--library", "-l", default=_LIBRARY)
    match: str = option("List only clips whose name or source contains this.", default="")
    most: int = option("Maximum number of clips to list.", default=50, minimum=1)
    out: Path | None = option(
        "Render the clip: a video (.mp4) or a strip of pictures (.png).",
        "--out",
        "-o",
        default=None,
    )
    view: str | None = option(
        "side, front, top, three-quarter or rear-quarter; default: chosen.", default=None
    )


class MotionLine(NamedTuple):
    """One clip in a list."""

    clip: str
    seconds: float
    fps: float
    split: str
    licence: str | None
    source: str
    has_human: bool


class MotionList(NamedTuple):
    """Clips of a library."""

    robot: str
    total: int
    """clips that match, listed or not"""
    hours: float
    clips: list[MotionLine]


class MotionPage(Record):
    """Facts and measurements of one clip."""

    clip: str
    robot: str
    seconds: float
    frames: int
    fps: float
    split: str
    licence: str | None
    source: str
    steps: tuple[str, ...]
    parameters: dict[str, float | str]
    human_points: tuple[str, ...]
    measured: dict[str, float]
    reasons: list[str]
    """why it should not be trained on"""
    output: str | None
    """the rendered clip"""


@verb(MotionRequest, examples=_EXAMPLES)
def show_motions(request: MotionRequest) -> MotionList | MotionPage:
    """List the clips of a library, or show one: origin, processing steps, measurements, a video."""
    from telic.verbs import _motions

    return _motions.show(request)


class IntakeRequest(WatchedRequest):
    """Motions that become clips of a library."""

    library: Path = option(
        "Folder of the library; made or added to.", "--library", "-l", default=_LIBRARY
    )
    limits: Sequence[str] = option(
        "Change a limit of the filter: name=value; repeatable.", "--limit", default=(), many=True
    )
    unfiltered: bool = option("Add every clip, whatever its quality.", default=False)


@dataclass(frozen=True)
class MotionIntake(Wrapped):
    """Clips that were added, left out or refused."""

    library: str
    robot: str
    counts: dict[str, int]
    lines: list[IntakeLine]


class ImportMotionsRequest(IntakeRequest):
    """Files of motions."""

    files: Sequence[str] = argument("Files, or folders of them.", many=True, metavar="FILE ...")
    robot: str = option(
        "Robot of the clips: planar-biped, a robot's name, Humanoid-v5, or a file.",
        "--robot",
        "-r",
    )
    licence: str | None = option("Licence of these motions.", default=None)
    source: str = option("Where they are from; default: the file's name.", default="")


@verb(ImportMotionsRequest, examples=_EXAMPLES)
def import_motions(request: ImportMotionsRequest) -> MotionIntake:
    """Import BVH, NPZ, pickles (never executed), DeepMimic, SMPL, tables or another library.

    Motions of people are retargeted to the robot.
    """
    from telic.verbs import _motions

    return _motions.import_motions(request)


class GenerateMotionsRequest(IntakeRequest):
    """Motions to generate."""

    robot: str = option("A robot on two legs: planar-biped, its name, or a file.", "--robot", "-r")
    count: int = option(
        "Number of clips.", "--count", "-n", default=20, minimum=1, maximum=1_000_000
    )
    families: Sequence[str] = option(
        "Only this family, such as walk; repeatable.", "--family", default=(), many=True
    )
    seed: int = option("Random seed of their parameters.", default=0)
    held_share: float = option(
        "Share kept for validation and tests.", default=0.2, minimum=0.0, maximum=0.9
    )


@verb(GenerateMotionsRequest, examples=_EXAMPLES)
def generate_motions(request: GenerateMotionsRequest) -> MotionIntake:
    """Generate motions for a robot on two legs: walks, squats, hops, waves; the same for a seed."""
    from telic.verbs import _motions

    return _motions.generate_motions(request)


class FilterMotionsRequest(IntakeRequest):
    """A library to filter or mirror."""

    library: Path = option("Folder of the library.", "--library", "-l", default=_LIBRARY)
    out: Path = option("New folder for the clips that pass.", "--out", "-o")
    mirror: bool = option("Also add every clip with left and right exchanged.", default=False)


@verb(FilterMotionsRequest, examples=_EXAMPLES)
def filter_motions(request: FilterMotionsRequest) -> MotionIntake:
    """Write a library of the clips within the limits; report why the others are left out."""
    from telic.verbs import _motions

    return _motions.filter_motions(request)
