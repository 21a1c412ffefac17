"""Generate, import, list, show and filter reference motions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic import motions
from telic.core.events import LogMessage
from telic.core.request import VerbRequest, WatchedRequest, argument, option
from telic.core.verb import verb
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.motions.intake import ClipCandidate, ImportResult

_EXAMPLES = """
telic motions generate --robot planar-biped --count 40        into the folder "motions"
telic motions show                                            clips of a library
telic motions show walk-0-0000 -o walk.mp4                    details and a video of the reference
telic motions import 01_01.bvh --robot unitree-g1 -l g1       human motion, retargeted
telic motions import lafan1/ --robot unitree-g1 --fps 30 --held-out "*subject5*" --jobs 8
telic motions filter -l g1 -o good --limit joint_speed=20     clips within the limits
telic motions filter -l g1 -o both --mirror                   left and right exchanged, too
"""
_LIBRARY = Path("motions")
_MAX_LISTED = 200


class _MotionRequest(VerbRequest):
    """Request for all clips of a library or a single clip."""

    clip: str | None = argument("Clip to show. Default: list all clips.", default=None)
    library: Path = option("Library folder.", "--library", "-l", default=_LIBRARY)
    match: str = option("List only clips whose name or source contains this text.", default="")
    out: Path | None = option(
        "Video (.mp4) or image strip (.png) of the clip.", "--out", "-o", default=None
    )


@verb(_MotionRequest, examples=_EXAMPLES)
def show_motions(request: _MotionRequest) -> dict[str, Any]:
    """List the clips of a library, or show one clip with its metrics and video."""
    library = motions.library.MotionLibrary.open(request.library)
    robot = {"robot": library.robot.name}
    if request.clip is None:
        words = request.match.lower()
        found = [x for x in library.clips if words in f"{x.name}\n{x.origin.source}".lower()]
        lines = [
            {
                "clip": line.name,
                "seconds": round(line.duration_s, 3),
                "fps": line.fps,
                "split": line.split,
                "license": line.origin.license,
                "source": line.origin.source,
                "has_human": line.human_first >= 0,
            }
            for line in found[:_MAX_LISTED]
        ]
        hours = sum(line.duration_s for line in found) / 3600
        return {**robot, "total": len(found), "hours": hours, "clips": lines}
    clip = library.clip(request.clip)
    measured = motions.checks.measure(library.robot, clip)
    if request.out is not None:
        motions.robot.render_clip(library.robot, clip, request.out)
    return {
        "clip": clip.name,
        **robot,
        "seconds": round(clip.duration_s, 3),
        "frames": clip.frames,
        "fps": clip.fps,
        "split": clip.split,
        **clip.origin.model_dump(include={"license", "source", "steps", "parameters"}),
        "human_points": clip.human.names if clip.human else (),
        "measured": motions.intake.measured_values(measured),
        "reasons": motions.checks.FilterLimits().reasons(clip, measured),
        "output": str(request.out) if request.out else None,
    }


class _IntakeRequest(WatchedRequest):
    """Request to add motions to a library."""

    library: Path = option(
        "Library folder. Created if missing.", "--library", "-l", default=_LIBRARY
    )
    limits: Sequence[str] = option(
        "Filter limit: name=value, or none to accept every clip. Repeatable.",
        "--limit",
        default=(),
        many=True,
    )


def _add(request: _IntakeRequest, robot: str, candidates: Iterator[ClipCandidate]) -> MotionIntake:
    def emit(line: ImportResult) -> None:
        why = f": {line.why}" if line.why else ""
        request.on_event(LogMessage(message=f"{line.clip} {line.outcome}{why}"))

    is_off = list(request.limits) == ["none"]
    limits = None if is_off else motions.checks.FilterLimits().override(request.limits)
    out = request.out if isinstance(request, _FilterMotionsRequest) else request.library
    lines = list(
        motions.intake.add_clips(
            candidates, motions.robot.motion_robot(robot), out, limits, emit, request.should_stop
        )
    )
    return MotionIntake(str(out), robot, {**Counter(line.outcome for line in lines)}, lines)


class MotionIntake(NamedTuple):
    """Clips that were added, and rejected clips with reasons."""

    library: str
    robot: str
    counts: dict[str, int]
    lines: list[ImportResult]


def _nothing_added(intake: MotionIntake) -> int:
    return int(not {"added", "duplicate"} & set(intake.counts))


class _ImportMotionsRequest(_IntakeRequest):
    """Motion files."""

    files: Sequence[str] = argument("Files or folders.", many=True, metavar="FILE ...")
    robot: str = option(
        "Robot: planar-biped, a robot name, Humanoid-v5, or a file.", "--robot", "-r"
    )
    fps: float | None = option(
        "Frame rate, for files that do not store one.", default=None, minimum=1.0
    )
    up: Literal["y", "z"] | None = option("Vertical axis. Default: detected.", default=None)
    scale: float | None = option(
        "Meters per unit of length. Default: detected.", default=None, minimum=1e-6
    )
    joints: str | None = option(
        "Order of unnamed columns: model, isaac, 23, 23-locked-wrists, 27-locked-waist or 21.",
        default=None,
    )
    cut: str | None = option("Part of each clip to import, in seconds, e.g. 2:10.", default=None)
    held_out: str | None = option(
        'Files for validation and test, as a fraction (0.1) or a pattern ("*subject5*").',
        default=None,
    )
    jobs: int = option("Number of processes.", "--jobs", "-j", default=1, minimum=1)
    license: str | None = option("License of these motions.", default=None)


@verb(_ImportMotionsRequest, examples=_EXAMPLES, exit_code=_nothing_added)
def import_motions(request: _ImportMotionsRequest) -> MotionIntake:
    """Import motion files: BVH, AMASS, GMR, TWIST2, ASAP, PBHC, BeyondMimic or Unitree.

    Formats are detected from the file contents, and pickles are never executed. Human motions and
    motions of other robots are retargeted to the robot.
    """
    target = motions.robot.motion_robot(request.robot)
    libraries = [each for each in request.files if (Path(each) / "library.json").is_file()]
    if libraries and len(libraries) < len(request.files):
        raise UsageError("Libraries and files cannot be imported together.", hint="Use two runs.")
    if libraries:
        opened = map(motions.library.MotionLibrary.open, libraries)
        made = (motions.intake.library_candidates(each, target) for each in opened)
        return _add(request, request.robot, chain.from_iterable(made))
    cut = None
    if request.cut is not None:
        first, _, last = request.cut.partition(":")
        try:
            cut = (float(first or 0.0), float(last or "inf"))
        except ValueError:
            raise UsageError(f"Invalid --cut {request.cut}. Expected START:END in s.") from None
    options = motions.intake.ReadOptions(
        request.fps, request.up, request.scale, request.joints, cut
    )
    candidates = motions.intake.import_candidates(
        motions.intake.motion_files(request.files),
        request.robot,
        motions.clip.MotionOrigin(license=request.license),
        options,
        request.held_out,
        request.jobs,
    )
    return _add(request, request.robot, candidates)


class _GenerateMotionsRequest(_IntakeRequest):
    """Request to generate motions."""

    robot: str = option("Bipedal robot: planar-biped, a robot name, or a file.", "--robot", "-r")
    count: int = option(
        "Number of clips.", "--count", "-n", default=20, minimum=1, maximum=1_000_000
    )
    families: Sequence[str] = option(
        "Motion family, e.g. walk. Repeatable.", "--family", default=(), many=True
    )
    seed: int = option("Random seed of the motion parameters.", default=0)
    held_share: float = option(
        "Fraction of clips for validation and test.", default=0.2, minimum=0.0, maximum=0.9
    )


@verb(_GenerateMotionsRequest, examples=_EXAMPLES, exit_code=_nothing_added)
def generate_motions(request: _GenerateMotionsRequest) -> MotionIntake:
    """Generate walks, squats, hops and waves for a biped. The same seed gives the same clips."""
    known: list[str] = []
    if (request.library / "library.json").is_file():
        known = motions.library.MotionLibrary.open(request.library).names
    made = motions.generate.generate(
        motions.robot.motion_robot(request.robot),
        request.count,
        families=request.families,
        seed=request.seed,
        held_share=request.held_share,
        skip=frozenset(known),
    )
    return _add(
        request, request.robot, (motions.intake.NewClip(clip, "generated") for clip in made)
    )


class _FilterMotionsRequest(_IntakeRequest):
    """Request to filter or mirror a library."""

    library: Path = option("Library folder.", "--library", "-l", default=_LIBRARY)
    out: Path = option("New folder for the clips that pass.", "--out", "-o")
    mirror: bool = option("Also add the left-right mirror image of every clip.", default=False)


@verb(_FilterMotionsRequest, examples=_EXAMPLES, exit_code=_nothing_added)
def filter_motions(request: _FilterMotionsRequest) -> MotionIntake:
    """Copy clips within the limits to a new library and report why the others were rejected."""
    new, suffix = motions.intake.NewClip, motions.cycle.SUFFIX
    library = motions.library.MotionLibrary.open(request.library)
    if request.out.resolve() == request.library.resolve():
        raise UsageError(
            "The new library must be in a different folder.", hint="Choose another --out."
        )
    if request.mirror:
        motions.cycle.symmetry(library.robot)  # raises for a robot without left-right symmetry

    def candidates() -> Iterator[ClipCandidate]:
        for name in library.names:
            clip = library.clip(name)
            yield new(clip, str(request.library))
            is_twin = name.endswith(suffix) or f"{name}{suffix}" in library.names
            if request.mirror and not is_twin:
                yield new(motions.cycle.mirrored(library.robot, clip), str(request.library))

    return _add(request, library.robot.name, candidates())
