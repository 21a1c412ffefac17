"""Import motions into a library: read, retarget, measure, and add or reject each clip.

An invalid file does not abort the import: every clip yields a line with its outcome. Duplicates are
detected by content hash and skipped, so an interrupted import can be repeated.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from telic.core.tensors import use_one_thread
from telic.errors import BadFile, TelicError, UsageError
from telic.jobs.process import spawn_pool
from telic.motions._retarget import retarget
from telic.motions.checks import FilterLimits, WorstValue, ground_offset, measure
from telic.motions.clip import HumanTrack, MotionClip, MotionOrigin, Split
from telic.motions.formats import MAX_MOTION_FILE, read_motions
from telic.motions.formats._people import body_skeleton
from telic.motions.formats._robots import robot_clip
from telic.motions.formats._track import MotionTrack, ReadOptions, RobotTrack, SkeletonTrack
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import MotionRobot, motion_robot
from telic.storage.reading import check_file, file_hash, files_below

IntakeOutcome = Literal["added", "rejected", "duplicate", "unreadable"]
_MIN_SHIFT_M, _MAX_SHIFT_M = 0.01, 0.15  # ground offsets that are corrected


class ImportResult(NamedTuple):
    """Import outcome of a clip, or of a file without clips."""

    clip: str
    outcome: IntakeOutcome
    source: str
    why: str = ""
    seconds: float | None = None
    skate_before_m_s: float | None = None
    skate_after_m_s: float | None = None


class NewClip(NamedTuple):
    """Imported clip to be checked and added."""

    clip: MotionClip
    source: str
    skate_before_m_s: float | None = None
    measured: dict[str, WorstValue] | None = None


ClipCandidate = NewClip | ImportResult


def motion_files(places: Sequence[Path | str]) -> list[Path]:
    """Return the given files and the files in given folders. Raises UsageError for missing ones."""
    found: list[Path] = []
    for place in places:
        path = Path(place).expanduser()
        if path.is_dir():
            found += [file for file in files_below(path) if file.is_file()]
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"{path} does not exist.")
    if not found:
        raise UsageError("The given folders contain no files.")
    return found


def import_candidates(
    files: Sequence[Path],
    robot: str,
    origin: MotionOrigin,
    options: ReadOptions,
    held_out: str | None = None,
    jobs: int = 1,
) -> Iterator[ClipCandidate]:
    """Yield the measured clips in files for a robot, or the reason why a file is unreadable."""
    work = partial(_file_candidates, robot=robot, origin=origin, options=options, held=held_out)
    if jobs <= 1 or len(files) == 1:
        for file in files:
            yield from work(file)
        return
    with spawn_pool(jobs) as pool:
        try:
            for found in pool.map(partial(_on_one_thread, work), files):
                yield from found
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _on_one_thread(work: Callable[[Path], list[ClipCandidate]], file: Path) -> list[ClipCandidate]:
    use_one_thread()
    return work(file)


def _file_candidates(
    file: Path, robot: str, origin: MotionOrigin, options: ReadOptions, held: str | None
) -> list[ClipCandidate]:
    found: list[ClipCandidate] = []
    target, split = motion_robot(robot), _split_of(file.stem, held)
    try:
        check_file(file, MAX_MOTION_FILE)
        parameters = {**origin.parameters, "sha256": file_hash(file)[:16]}
        update = {"source": origin.source or file.name, "parameters": parameters}
        own = origin.model_copy(update=update)
        for track in read_motions(file, options):
            made = _candidate(track, target, own, str(file), options)
            if isinstance(made, NewClip):
                made = made._replace(clip=made.clip.replace(split=split))
            found.append(made)
    except TelicError as error:
        found.append(ImportResult(file.stem, "unreadable", str(file), str(error)))
    return found


def _split_of(name: str, held_out: str | None) -> Split:
    """Return the split of a file by name pattern, or by the hash of its name and a fraction.

    All clips of a file and their mirror images are in the same split.
    """
    if held_out is None:
        return "train"
    try:
        share = float(held_out)
    except ValueError:
        return "test" if fnmatch.fnmatch(name, held_out) else "train"
    if not 0.0 <= share <= 0.9:
        raise UsageError(f"--held-out {held_out} is neither a fraction (0 to 0.9) nor a pattern.")
    plain = name.lower().removesuffix("_m").removesuffix("_mirror").removesuffix("_mirrored")
    lot = int(hashlib.sha256(plain.encode()).hexdigest()[:8], 16) / 2**32
    return "train" if lot >= share else "test" if lot < share / 2 else "validation"


def _candidate(
    track: MotionTrack, robot: MotionRobot, origin: MotionOrigin, source: str, options: ReadOptions
) -> ClipCandidate:
    try:
        if isinstance(track, RobotTrack):
            try:
                clip = _on_ground(robot_clip(track, robot, origin, options), robot)
                return NewClip(clip, source, None, measure(robot, clip))
            except BadFile:  # another robot, whose bodies may be usable as a skeleton
                if track.joint_names is None or track.bodies is None or track.bodies.names is None:
                    raise
                if set(track.joint_names) & set(robot.joint_names):
                    raise
                track = body_skeleton(track, options)
        clip, before = retarget(track, robot, origin)
        return NewClip(clip, source, before, measure(robot, clip))
    except TelicError as error:
        return ImportResult(track.name, "unreadable", source, str(error))


def _on_ground(clip: MotionClip, robot: MotionRobot) -> MotionClip:
    """Shift a clip vertically to put its soles on the ground, because ground heights vary."""
    offset = ground_offset(robot, clip)
    if not _MIN_SHIFT_M < abs(offset) < _MAX_SHIFT_M:
        return clip
    moved = clip.root_pos - [0.0, 0.0, offset]
    step = f"shifted by {-offset:+.3f} m to the ground"
    return clip.replace(root_pos=moved, origin=clip.origin.then(step))


def library_candidates(library: MotionLibrary, robot: MotionRobot) -> Iterator[ClipCandidate]:
    """Yield the human motions of a library, retargeted to another robot."""
    for place, line in enumerate(library.clips):
        clip = library.clip(place)
        if clip.human is None:
            yield ImportResult(line.name, "unreadable", "library", "the clip has no human motion")
            continue
        track = person_track(clip, clip.human)
        found = _candidate(track, robot, line.origin, "library", ReadOptions())
        if isinstance(found, NewClip):
            found = found._replace(clip=found.clip.replace(split=line.split))
        yield found


def person_track(clip: MotionClip, human: HumanTrack) -> SkeletonTrack:
    """Return the human motion of a clip as a skeleton track."""
    points = {name: human.points[:, i].astype(float) for i, name in enumerate(human.names)}
    return SkeletonTrack(clip.name, clip.fps, points, human.root_quat.astype(float))


def add_clips(
    candidates: Iterable[ClipCandidate],
    robot: MotionRobot,
    out: Path,
    limits: FilterLimits | None,
    on_line: Callable[[ImportResult], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[ImportResult]:
    """Add clips to a library and yield the outcome for each clip."""
    writer: LibraryWriter | None = None
    if (out / "library.json").is_file():  # fail early if the library is of another robot
        writer = LibraryWriter(out, head_for(robot, []))
    try:
        for candidate in candidates:
            if should_stop():
                return
            if isinstance(candidate, ImportResult):
                line = candidate
            else:
                if writer is None:
                    writer = LibraryWriter(out, head_for(robot, [candidate.clip]))
                line = _add(candidate, robot, writer, limits)
            on_line(line)
            yield line
    finally:
        if writer is not None:
            writer.close()


def _add(
    candidate: NewClip, robot: MotionRobot, writer: LibraryWriter, limits: FilterLimits | None
) -> ImportResult:
    clip, source = candidate.clip, candidate.source
    if (same := writer.hashes.get(clip.content_hash())) is not None:
        return ImportResult(clip.name, "duplicate", source, f'same motion as "{same}"')
    number, free = 2, clip.name
    while free in writer.names:
        free, number = f"{clip.name} ({number})", number + 1
    clip = clip.replace(name=free)
    measured = candidate.measured or measure(robot, clip)
    reasons = [] if limits is None else limits.reasons(clip, measured)
    skate = measured["skate_m_s"].value if "skate_m_s" in measured else None
    facts = (clip.duration_s, candidate.skate_before_m_s, skate)
    if reasons:
        return ImportResult(free, "rejected", source, "; ".join(reasons), *facts)
    try:
        writer.add(clip, measured_values(measured))
    except BadFile as error:
        return ImportResult(free, "unreadable", source, str(error), *facts)
    return ImportResult(free, "added", source, "", *facts)


def measured_values(measured: dict[str, WorstValue]) -> dict[str, float]:
    """Return the measured values by test name."""
    return {name: round(each.value, 6) for name, each in measured.items()}
