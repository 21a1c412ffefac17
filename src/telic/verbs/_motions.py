"""The work of `telic motions`: show, import, generate and filter clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from telic.core.events import LogMessage
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
from telic.verbs.motions import (
    FilterMotionsRequest,
    GenerateMotionsRequest,
    ImportMotionsRequest,
    IntakeRequest,
    MotionIntake,
    MotionLine,
    MotionList,
    MotionPage,
    MotionRequest,
)


def show(request: MotionRequest) -> MotionList | MotionPage:
    """List clips, or describe and render one."""
    library = MotionLibrary.open(request.library)
    if request.clip is None:
        return _list(library, request)
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
        licence=clip.origin.licence,
        source=clip.origin.source,
        steps=clip.origin.steps,
        parameters=clip.origin.parameters,
        human_points=clip.human.names if clip.human else (),
        measured=known(report),
        reasons=FilterLimits().reasons(report),
        output=str(request.out) if request.out else None,
    )


def _list(library: MotionLibrary, request: MotionRequest) -> MotionList:
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


def _take(
    request: IntakeRequest, robot: str, library: Path, candidates: Iterator[NewClip | IntakeLine]
) -> MotionIntake:
    """Add clips to a library and report each."""

    def tell(line: IntakeLine) -> None:
        why = f": {line.why}" if line.why else ""
        request.on_event(LogMessage(message=f"{line.clip} {line.outcome}{why}"))

    limits = None if request.unfiltered else FilterLimits().override(request.limits)
    taken = take_in(candidates, motion_robot(robot), library, limits, tell, request.should_stop)
    lines = list(taken)
    counts: dict[str, int] = {**Counter(line.outcome for line in lines)}
    return MotionIntake(str(library), robot, counts, lines)


def import_motions(request: ImportMotionsRequest) -> MotionIntake:
    """Import files, or the human motions of other libraries."""
    robot = motion_robot(request.robot)
    libraries = [each for each in request.files if (Path(each) / "library.json").is_file()]
    if libraries and len(libraries) < len(request.files):
        raise UsageError("Libraries and files cannot be taken in together.", hint="One by one.")
    if libraries:
        candidates = people_of(MotionLibrary.open(*libraries), robot)
    else:
        origin = MotionOrigin(source=request.source, licence=request.licence)
        candidates = read_candidates(motion_files(request.files), robot, origin)
    return _take(request, request.robot, request.library, candidates)


def generate_motions(request: GenerateMotionsRequest) -> MotionIntake:
    """Generate clips that the library does not have yet."""
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
    return _take(request, request.robot, request.library, candidates)


def filter_motions(request: FilterMotionsRequest) -> MotionIntake:
    """Copy the clips within the limits, and their mirror images if asked for."""
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

    return _take(request, library.robot.name, request.out, candidates())
