"""Reference motions: generate, import, list, show and filter clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.config import Record
from telic.core.events import LogMessage
from telic.core.request import VerbRequest, WatchedRequest, argument, option
from telic.core.verb import Wrapped, verb
from telic.errors import UsageError
from telic.motions.checks import FilterLimits, measure
from telic.motions.clip import MotionOrigin
from telic.motions.generate import generate
from telic.motions.intake import (
    IntakeLine,
    NewClip,
    known,
    motion_files,
    people_of,
    read_candidates,
    take_in,
)
from telic.motions.library import MotionLibrary
from telic.motions.mirror import SUFFIX, mirrored, symmetry
from telic.motions.robot import film, motion_robot

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
    library = MotionLibrary.open(request.library)
    if request.clip is None:
        words = request.match.lower()
        found = [
            line
            for line in library.clips
            if words in line.name.lower() or words in line.origin.source.lower()
        ]
        lines = [
            MotionLine(
                line.name,
                round(line.duration_s, 3),
                line.fps,
                line.split,
                line.origin.licence,
                line.origin.source,
                line.human_first >= 0,
            )
            for line in found[: request.most]
        ]
        hours = sum(line.duration_s for line in found) / 3600
        return MotionList(library.robot.name, len(found), hours, lines)
    clip = library.clip(request.clip)
    report = measure(library.robot, clip)
    if request.out is not None:
        settings: dict[str, Any] = {"view": request.view} if request.view else {}
        film(library.robot, clip, request.out, **settings)
    return MotionPage(
        clip=clip.name,
        robot=library.robot.name,
        seconds=round(clip.duration_s, 3),
        frames=clip.frames,
        fps=clip.fps,
        split=clip.split,
        **clip.origin.model_dump(include={"licence", "source", "steps", "parameters"}),
        human_points=clip.human.names if clip.human else (),
        measured=known(report),
        reasons=FilterLimits().reasons(report),
        output=str(request.out) if request.out else None,
    )


class IntakeRequest(WatchedRequest):
    """Motions that become clips of a library."""

    library: Path = option(
        "Folder of the library; made or added to.", "--library", "-l", default=_LIBRARY
    )
    limits: Sequence[str] = option(
        "Change a limit of the filter: name=value; repeatable.", "--limit", default=(), many=True
    )
    unfiltered: bool = option("Add every clip, whatever its quality.", default=False)

    def add(
        self, robot: str, library: Path, candidates: Iterator[NewClip | IntakeLine]
    ) -> MotionIntake:
        """Add clips to a library and report each."""

        def tell(line: IntakeLine) -> None:
            why = f": {line.why}" if line.why else ""
            self.on_event(LogMessage(message=f"{line.clip} {line.outcome}{why}"))

        limits = None if self.unfiltered else FilterLimits().override(self.limits)
        taken = take_in(candidates, motion_robot(robot), library, limits, tell, self.should_stop)
        lines = list(taken)
        counts = Counter(line.outcome for line in lines)
        return MotionIntake(str(library), robot, {**counts}, lines)


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
    robot = motion_robot(request.robot)
    libraries = [each for each in request.files if (Path(each) / "library.json").is_file()]
    if libraries and len(libraries) < len(request.files):
        raise UsageError("Libraries and files cannot be imported together.", hint="One by one.")
    if libraries:
        candidates = people_of(MotionLibrary.open(*libraries), robot)
    else:
        origin = MotionOrigin(source=request.source, licence=request.licence)
        candidates = read_candidates(motion_files(request.files), robot, origin)
    return request.add(request.robot, request.library, candidates)


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
    there: list[str] = []
    if (request.library / "library.json").is_file():
        there = MotionLibrary.open(request.library).names
    made = generate(
        motion_robot(request.robot),
        request.count,
        families=request.families,
        seed=request.seed,
        held_share=request.held_share,
        skip=frozenset(there),
    )
    candidates = (NewClip(clip, "generated") for clip in made)
    return request.add(request.robot, request.library, candidates)


class FilterMotionsRequest(IntakeRequest):
    """A library to filter or mirror."""

    library: Path = option("Folder of the library.", "--library", "-l", default=_LIBRARY)
    out: Path = option("New folder for the clips that pass.", "--out", "-o")
    mirror: bool = option("Also add every clip with left and right exchanged.", default=False)


@verb(FilterMotionsRequest, examples=_EXAMPLES)
def filter_motions(request: FilterMotionsRequest) -> MotionIntake:
    """Write a library of the clips within the limits; report why the others are left out."""
    library = MotionLibrary.open(request.library)
    if request.out.resolve() == request.library.resolve():
        raise UsageError("The new library needs a folder of its own.", hint="Give another --out.")
    if request.mirror:
        symmetry(library.robot)  # raises for a robot without left and right

    def candidates() -> Iterator[NewClip]:
        for name in library.names:
            clip = library.clip(name)
            yield NewClip(clip, str(request.library))
            twin = f"{name}{SUFFIX}"
            if request.mirror and not name.endswith(SUFFIX) and twin not in library.names:
                yield NewClip(mirrored(library.robot, clip), str(request.library))

    return request.add(library.robot.name, request.out, candidates())
