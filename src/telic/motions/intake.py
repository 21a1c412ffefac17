"""Take motions into a library: read, brought to the robot, measured, and kept or left out with why.

Nothing stops at a bad file: each clip has a line that says what became of it. What is in the
library already, by name or by content, is not taken twice, so whatever was broken off goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from telic.errors import BadFile, TelicError, UsageError
from telic.motions.checks import ClipReport, FilterLimits, measure
from telic.motions.clip import HumanTrack, MotionClip, MotionOrigin
from telic.motions.formats import read_motions
from telic.motions.formats.track import RobotTrack, SkeletonTrack, Track, robot_clip
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.retarget import retarget
from telic.motions.robot import MotionRobot
from telic.storage.reading import file_hash, files_below

Outcome = Literal["added", "left out", "there already", "refused"]


class IntakeLine(NamedTuple):
    """What became of one clip, or of a file that holds none."""

    clip: str
    outcome: Outcome
    source: str
    why: str = ""
    seconds: float | None = None
    slid_before_m_s: float | None = None
    """of a person's motion: how fast the feet slid that stood, scaled to the robot"""
    slid_after_m_s: float | None = None


class NewClip(NamedTuple):
    """A clip that may be taken in."""

    clip: MotionClip
    source: str
    slid_before_m_s: float | None = None


def motion_files(places: Sequence[Path | str]) -> list[Path]:
    """Return files, and those below folders; raises UsageError for a place that is not there."""
    found: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        if path.is_dir():
            found += [file for file in files_below(path) if file.is_file()]
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"There is no file or folder {path}.")
    if not found:
        raise UsageError("There are no files in what was named.")
    return found


def read_candidates(
    files: Sequence[Path], robot: MotionRobot, origin: MotionOrigin, *, people_only: bool = False
) -> Iterator[NewClip | IntakeLine]:
    """Yield the clips of files as the robot's; of what cannot be read, the line that says why."""
    for file in files:
        own = origin.model_copy(
            update={
                "source": origin.source or file.name,
                "parameters": {**origin.parameters, "sha256": file_hash(file)[:16]},
            }
        )
        try:
            for track in read_motions(file):
                yield _candidate(track, robot, own, str(file), people_only)
        except TelicError as error:
            yield IntakeLine(file.stem, "refused", str(file), str(error))


def _candidate(
    track: Track, robot: MotionRobot, origin: MotionOrigin, source: str, people_only: bool
) -> NewClip | IntakeLine:
    try:
        if isinstance(track, RobotTrack):
            if people_only:
                why = "it is a robot's motion, and only a person's can be retargeted"
                return IntakeLine(track.name, "refused", source, why)
            return NewClip(robot_clip(track, robot, origin), source)
        made = retarget(track, robot, origin)
        return NewClip(made.clip, source, made.slid_before_m_s)
    except TelicError as error:
        return IntakeLine(track.name, "refused", source, str(error))


def people_of(library: MotionLibrary, robot: MotionRobot) -> Iterator[NewClip | IntakeLine]:
    """Yield the human sides of a library's clips as motions of another robot."""
    for place, line in enumerate(library.clips):
        clip = library.clip(place)
        if clip.human is None:
            yield IntakeLine(line.name, "refused", "library", "it has no human side")
            continue
        track = person_track(clip, clip.human)
        found = _candidate(track, robot, line.origin, "library", people_only=True)
        if isinstance(found, NewClip):
            found = found._replace(clip=found.clip.replace(split=line.split))
        yield found


def person_track(clip: MotionClip, human: HumanTrack) -> SkeletonTrack:
    """Return the person of a clip as a motion of its own."""
    points = {name: human.points[:, i].astype(float) for i, name in enumerate(human.names)}
    return SkeletonTrack(clip.name, clip.fps, points, human.root_quat.astype(float))


def take_in(
    candidates: Iterable[NewClip | IntakeLine],
    robot: MotionRobot,
    out: Path,
    limits: FilterLimits | None,
    tell: Callable[[IntakeLine], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[IntakeLine]:
    """Yield what becomes of each clip while they are put into a library.

    Args:
        candidates: the clips.
        robot: whose they are.
        out: folder of the library; made if it is not there.
        limits: how bad a clip may be; None: all are taken.
        tell: hears each line at once.
        should_stop: polled between clips.
    """
    writer: LibraryWriter | None = None
    if (out / "library.json").is_file():  # of another robot, nothing need be read or made
        writer = LibraryWriter(out, head_for(robot, []))
    try:
        for candidate in candidates:
            if should_stop():
                return
            if isinstance(candidate, IntakeLine):
                line = candidate
            else:
                if writer is None:
                    writer = LibraryWriter(out, head_for(robot, [candidate.clip]))
                line = _taken(candidate, robot, writer, limits)
            tell(line)
            yield line
    finally:
        if writer is not None:
            writer.close()


def _taken(
    candidate: NewClip, robot: MotionRobot, writer: LibraryWriter, limits: FilterLimits | None
) -> IntakeLine:
    clip = candidate.clip
    if (same := writer.hashes.get(clip.content_hash())) is not None:
        return IntakeLine(clip.name, "there already", candidate.source, f'as "{same}"')
    clip = clip.replace(name=_free_name(clip.name, writer))
    report = measure(robot, clip)
    reasons = [] if limits is None else limits.of(clip).reasons(report)
    facts = (clip.duration_s, candidate.slid_before_m_s, report.slide_m_s)
    if reasons:
        return IntakeLine(clip.name, "left out", candidate.source, "; ".join(reasons), *facts)
    try:
        writer.add(clip, known(report))
    except BadFile as error:
        return IntakeLine(clip.name, "refused", candidate.source, str(error), *facts)
    return IntakeLine(clip.name, "added", candidate.source, "", *facts)


def known(report: ClipReport) -> dict[str, float]:
    """Return what could be measured, by name."""
    return {name: round(value, 6) for name, value in report._asdict().items() if value is not None}


def _free_name(name: str, writer: LibraryWriter) -> str:
    number, free = 2, name
    while free in writer.names:
        free, number = f"{name} ({number})", number + 1
    return free
