"""Reference motions: make them, take in those of others, look at them, leave out bad ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.events import LogMessage
from telic.core.request import VerbRequest, WatchedRequest, argument, option
from telic.core.verb import Wrapped, verb
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.motions.checks import FilterLimits
    from telic.motions.intake import IntakeLine, NewClip
    from telic.motions.library import MotionLibrary

_EXAMPLES = """
telic motions generate --robot planar-biped --count 40        into the folder "motions"

telic motions list                                            its clips

telic motions show walk-0-0000 -o walk.mp4                    facts, and a video of the reference

telic motions import 01_01.bvh --robot unitree-g1 -l g1       a person's motion, retargeted
"""
_LIBRARY = "motions"


class LibraryRequest(VerbRequest):
    """A library of motions."""

    library: Path = option(
        "Folder of the library.",
        "--library",
        "-l",
        default=Path(_LIBRARY),
    )

    def open(self) -> MotionLibrary:
        """Return it; raises BadFile that says how to make one."""
        from telic.motions.library import MotionLibrary

        return MotionLibrary.open(self.library)


# ---- looking


class MotionListRequest(LibraryRequest):
    """Clips of a library."""

    match: str = option("Only clips whose name or source holds this.", default="")
    most: int = option("Clips to list at most.", default=50, minimum=1)


class MotionLine(NamedTuple):
    """What a list says of one clip."""

    clip: str
    seconds: float
    fps: float
    split: str
    licence: str | None
    source: str
    has_human: bool


@dataclass(frozen=True)
class MotionList:
    """Clips of a library."""

    robot: str
    total: int
    """clips that match, listed or not"""
    hours: float
    clips: list[MotionLine]

    def as_data(self) -> dict[str, Any]:
        """Return the totals and the clips."""
        return vars(self)


@verb(MotionListRequest, examples=_EXAMPLES)
def list_motions(request: MotionListRequest) -> MotionList:
    """List the clips of a library: length, split, licence, where they are from."""
    library = request.open()
    words = request.match.lower()
    found = [
        line
        for line in library.clips
        if words in line.name.lower() or words in line.origin.source.lower()
    ]
    lines = [
        MotionLine(
            clip=line.name,
            seconds=round(line.duration_s, 3),
            fps=line.fps,
            split=line.split,
            licence=line.origin.licence,
            source=line.origin.source,
            has_human=line.human_first >= 0,
        )
        for line in found[: request.most]
    ]
    hours = sum(line.duration_s for line in found) / 3600
    return MotionList(library.robot.name, len(found), hours, lines)


class MotionRequest(LibraryRequest):
    """One clip of a library."""

    clip: str = argument("Its name: see telic motions list.")
    out: Path | None = option(
        "Also render the clip: a video (.mp4) or a strip of pictures (.png).",
        "--out",
        "-o",
        default=None,
    )
    view: str | None = option(
        "side, front, top, three-quarter or rear-quarter; default: chosen.", default=None
    )


class MotionPage(NamedTuple):
    """What is known of one clip."""

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
def show_motion(request: MotionRequest) -> MotionPage:
    """Show a clip: origin, processing steps, measurements; render it on its robot with --out."""
    from telic.motions.checks import FilterLimits, measure
    from telic.motions.intake import known

    library = request.open()
    clip = library.clip(request.clip)
    report = measure(library.robot, clip)
    if request.out is not None:
        from telic.motions.robot import film

        settings: dict[str, Any] = {"view": request.view} if request.view else {}
        film(library.robot, clip, request.out, **settings)
    return MotionPage(
        clip=clip.name,
        robot=library.robot.name,
        seconds=round(clip.duration_s, 3),
        frames=clip.frames,
        fps=clip.fps,
        split=clip.split,
        licence=clip.origin.licence,
        source=clip.origin.source,
        steps=clip.origin.steps,
        parameters=clip.origin.parameters,
        human_points=clip.human.names if clip.human else (),
        measured=known(report),
        reasons=FilterLimits().reasons(report),
        output=str(request.out) if request.out else None,
    )


# ---- making and taking in


class IntakeRequest(WatchedRequest):
    """Motions that become clips of a library."""

    robot: str = option(
        "Whose motions they become: planar-biped, a robot's name, Humanoid-v5, or a file.",
        "--robot",
        "-r",
    )
    library: Path = option(
        "Folder of the library; made or added to.", "--library", "-l", default=Path(_LIBRARY)
    )
    limits: Sequence[str] = option(
        "Another limit of the filter, as name=value.", "--limit", default=(), many=True
    )
    unfiltered: bool = option("Take in all, however bad.", default=False)

    def filter(self) -> FilterLimits | None:
        """Return how bad a clip may be."""
        from telic.motions.checks import FilterLimits

        return None if self.unfiltered else FilterLimits().override(self.limits)

    def take(self, candidates: Iterator[NewClip | IntakeLine]) -> MotionIntake:
        """Put clips into the library, telling of each."""
        from telic.motions.intake import take_in
        from telic.motions.robot import motion_robot

        def tell(line: IntakeLine) -> None:
            why = f": {line.why}" if line.why else ""
            self.on_event(LogMessage(message=f"{line.clip} {line.outcome}{why}"))

        robot, limits = motion_robot(self.robot), self.filter()
        lines = list(take_in(candidates, robot, self.library, limits, tell, self.should_stop))
        counts = Counter(line.outcome for line in lines)
        return MotionIntake(str(self.library), self.robot, dict(counts), lines)


@dataclass(frozen=True)
class MotionIntake(Wrapped):
    """What became of motions that were to be taken in."""

    library: str
    robot: str
    counts: dict[str, int]
    lines: list[IntakeLine]


class ImportMotionsRequest(IntakeRequest):
    """Files of motions."""

    files: Sequence[str] = argument("Files, or folders of them.", many=True, metavar="FILE ...")
    licence: str | None = option("Licence of these motions.", default=None)
    source: str = option("Where they are from; default: the file's name.", default="")


@verb(ImportMotionsRequest, examples=_EXAMPLES)
def import_motions(request: ImportMotionsRequest) -> MotionIntake:
    """Import BVH, NPZ, pickles (never executed), DeepMimic, SMPL, tables or another library.

    Motions of people are retargeted to the robot.
    """
    from telic.motions.clip import MotionOrigin
    from telic.motions.intake import motion_files, people_of, read_candidates
    from telic.motions.library import MotionLibrary
    from telic.motions.robot import motion_robot

    robot = motion_robot(request.robot)
    libraries = [each for each in request.files if (Path(each) / "library.json").is_file()]
    if libraries and len(libraries) < len(request.files):
        raise UsageError("Libraries and files cannot be taken in together.", hint="One by one.")
    if libraries:
        return request.take(people_of(MotionLibrary.open(*libraries), robot))
    origin = MotionOrigin(source=request.source, licence=request.licence)
    files = motion_files(request.files)
    return request.take(read_candidates(files, robot, origin))


class GenerateMotionsRequest(IntakeRequest):
    """Motions to make."""

    count: int = option("How many.", "--count", "-n", default=20, minimum=1, maximum=1_000_000)
    families: Sequence[str] = option(
        "Only this kind, such as walk; may be repeated.", "--family", default=(), many=True
    )
    seed: int = option("Of their parameters.", default=0)
    held_share: float = option(
        "Share kept for validation and tests.", default=0.2, minimum=0.0, maximum=0.9
    )


@verb(GenerateMotionsRequest, examples=_EXAMPLES)
def generate_motions(request: GenerateMotionsRequest) -> MotionIntake:
    """Make motions for a robot on two legs: walks, squats, hops, waves; the same for a seed."""
    from telic.motions.generate import generate
    from telic.motions.intake import NewClip
    from telic.motions.library import MotionLibrary
    from telic.motions.robot import motion_robot

    robot = motion_robot(request.robot)
    there: list[str] = []
    if (request.library / "library.json").is_file():
        there = MotionLibrary.open(request.library).names
    made = generate(
        robot,
        request.count,
        families=request.families,
        seed=request.seed,
        held_share=request.held_share,
        skip=frozenset(there),
    )
    return request.take(NewClip(clip, "generated") for clip in made)


class FilterMotionsRequest(IntakeRequest):
    """A library to sort."""

    robot: str = option("Its robot; default: the library's.", "--robot", default="")
    library: Path = option(
        "Folder of the library to sort.", "--library", "-l", default=Path(_LIBRARY)
    )
    out: Path = option("New folder for the good ones.", "--out", "-o")


@verb(FilterMotionsRequest, examples=_EXAMPLES)
def filter_motions(request: FilterMotionsRequest) -> MotionIntake:
    """Write a library of the clips that are good enough; say of the others why they are not."""
    from telic.motions.intake import NewClip
    from telic.motions.library import MotionLibrary

    library = MotionLibrary.open(request.library)
    if request.out.resolve() == request.library.resolve():
        raise UsageError("The good clips need a folder of their own.", hint="Give another --out.")
    clips = (library.clip(place) for place in range(len(library.clips)))
    into = request.replace(robot=library.robot.name, library=request.out)
    return into.take(NewClip(clip, str(request.library)) for clip in clips)


class MirrorMotionsRequest(IntakeRequest):
    """A library to mirror."""

    robot: str = option("Its robot; default: the library's.", "--robot", default="")
    library: Path = option("Folder of the library.", "--library", "-l", default=Path(_LIBRARY))
    out: Path | None = option(
        "Folder for the mirrored ones; default: the library itself.", "--out", "-o", default=None
    )


@verb(MirrorMotionsRequest, examples=_EXAMPLES)
def mirror_motions(request: MirrorMotionsRequest) -> MotionIntake:
    """Add every clip once more, left and right exchanged; each stays in its split."""
    from telic.motions.intake import NewClip
    from telic.motions.library import MotionLibrary
    from telic.motions.mirror import SUFFIX, mirrored, symmetry

    library = MotionLibrary.open(request.library)
    symmetry(library.robot)
    there = {*library.names}
    names = [name for name in library.names if not name.endswith(SUFFIX)]
    clips = (library.clip(name) for name in names if f"{name}{SUFFIX}" not in there)
    into = request.replace(robot=library.robot.name, library=request.out or request.library)
    found = (mirrored(library.robot, clip) for clip in clips)
    return into.take(NewClip(clip, str(request.library)) for clip in found)
