"""Motion tracking: train, evaluate and export trackers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.core.request import (
    PlacedRequest,
    RunsRequest,
    argument,
    option,
)
from telic.core.text import file_name, integers
from telic.core.verb import Wrapped, verb
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.motions.clip import Split
    from telic.storage.layout import MemberFolder, RunFolder
    from telic.tracking.export import TrackerExport
    from telic.tracking.reports import TrackingReport
    from telic.tracking.sweep import SweepPoint
    from telic.tracking.train import TrackingOptions

_EXAMPLES = """
telic track train                                      the planar biped, minutes on two CPU cores

telic track train --seeds 1-3 --set losses.alignment=0.5

telic track train --preset quarter --library motions/g1 --device cuda

telic track eval latest --videos 3                     held-out clips, every encoder, worst as video

telic track sweep --dims 4,8 --levels 4,8,32            token sizes

telic track export latest --tokens                     ONNX; and the robot with tokens as actions
"""


class TrackRequest(PlacedRequest):
    """Trackers to train."""

    preset: str = option("Preset: planar, quarter or release.", default="planar")
    settings: Sequence[str] = option(
        "Change a setting: --set command.frames=8; repeatable.", "--set", default=(), many=True
    )
    library: str | None = option("Folder of motions; default: generated ones.", default=None)
    seeds: Sequence[int] = option("Training seeds: 1,2,3 or 1-3.", default=(1,), read=integers)
    steps: int | None = option("Control steps per seed; default: the preset's.", default=None)
    device: str = option("cpu or cuda.", default="cpu")
    threads: int | None = option("Physics threads; default all cores.", default=None)
    evaluations: int = option("Evaluations during training.", default=4, minimum=1)
    name: str | None = option("Name of the run folder.", default=None)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    dry_run: bool = option("Print the resolved settings and stop.", default=False)


def _overrides(request: TrackRequest) -> list[str]:
    import json

    chosen = list(request.settings)
    if request.library is not None:
        chosen.append(f"motions.library={json.dumps(str(Path(request.library).absolute()))}")
    if request.steps is not None:
        chosen.append(f"trainer.steps={request.steps}")
    return chosen


@dataclass(frozen=True)
class TrackedRun(Wrapped):
    """A training of trackers, and how its members follow clips they never saw."""

    path: str
    status: str
    reports: list[TrackingReport]


def _options(request: TrackRequest) -> TrackingOptions:
    from telic.tracking.train import TrackingOptions

    return TrackingOptions(
        seeds=request.seeds,
        name=request.name,
        fresh=request.fresh,
        device=request.device,
        threads=request.threads,
        evaluations=request.evaluations,
        on_event=request.on_event,
        should_stop=request.should_stop,
    )


def _unfinished(result: Any) -> int:
    return int(getattr(result, "status", "completed") != "completed")


@dataclass(frozen=True)
class TrackSettings(Wrapped):
    """Every setting of a tracking run by its dotted name."""

    settings: dict[str, Any]


@verb(TrackRequest, examples=_EXAMPLES, exit_code=_unfinished)
def train(request: TrackRequest) -> TrackedRun | TrackSettings:
    """Train policies that track reference motions through a shared token space."""
    if request.dry_run:
        from telic.core.config import dotted
        from telic.tracking.presets import preset

        settings = preset(request.preset, _overrides(request)).model_dump(mode="json")
        return TrackSettings(dotted(settings))
    if request.on is not None:
        from telic.verbs.elsewhere import do_elsewhere, tracked_in

        return do_elsewhere(request, ("track", "train"), "track:train", tracked_in)
    from telic.storage.layout import RunFolder
    from telic.tracking.presets import preset
    from telic.tracking.reports import latest_reports
    from telic.tracking.train import train_tracker

    config = preset(request.preset, _overrides(request))
    run = train_tracker(config, Path(request.runs_dir), _options(request))
    return TrackedRun(str(run.path), run.status, latest_reports(RunFolder(run.path)))


class SweepRequest(TrackRequest):
    """Sizes of tokens to compare."""

    dims: Sequence[int] = option("Numbers of a token: 4,8,16.", default=(4, 8, 16), read=integers)
    levels: Sequence[int] = option("Levels of a number: 4,32.", default=(4, 32), read=integers)


@dataclass(frozen=True)
class TokenSweep(Wrapped):
    """How well trackers follow by how much their tokens can say."""

    points: list[SweepPoint]
    page: str
    is_whole: bool


def _partial(found: TokenSweep) -> int:
    return int(not found.is_whole)


@verb(SweepRequest, examples=_EXAMPLES, exit_code=_partial)
def sweep(request: SweepRequest) -> TokenSweep:
    """Train the same tracker with several token sizes: rate and accuracy as one page."""
    from telic.core.events import LogMessage
    from telic.report.html import render_page
    from telic.storage.files import write_text
    from telic.tracking.page import sweep_report
    from telic.tracking.presets import preset
    from telic.tracking.sweep import sizes
    from telic.tracking.sweep import sweep as train_all

    config, chosen = (
        preset(request.preset, _overrides(request)),
        sizes(request.dims, request.levels),
    )
    page = Path(request.runs_dir) / f"{file_name(request.name or 'sweep')}.html"
    points: list[SweepPoint] = []
    for point in train_all(config, Path(request.runs_dir), chosen, _options(request)):
        points.append(point)
        told = f"{point.bits:.0f} bits: success {point.success_rate:.0%}, {point.mpjpe_l_mm:.1f} mm"
        request.on_event(LogMessage(message=told))
        write_text(page, render_page(sweep_report(points), page.parent))
    return TokenSweep(points, str(page), len(points) == len(chosen))


class TrackerRequest(RunsRequest):
    """A tracker of a run."""

    run: str = argument("The run: latest, its name, or a folder.", default="latest")
    seed: int | None = option("Which member; default: the first.", default=None)
    step: int | None = option("Which of its trackers; default: the last.", default=None)


def _run(request: TrackerRequest) -> RunFolder:
    from telic.storage.layout import RunFolder, list_runs

    if Path(request.run).is_dir():
        return RunFolder(Path(request.run))
    if request.run != "latest":
        return RunFolder(Path(request.runs_dir) / request.run)
    from telic.tracking.train import CONFIG

    runs = list_runs(Path(request.runs_dir))
    found = next((each for each in runs if (each.path / CONFIG).exists()), None)
    if found is None:
        raise UsageError(
            f"There is no tracking run in {request.runs_dir}.", hint="Make one: telic track train"
        )
    return found


class Chosen(NamedTuple):
    """A tracker's file and where it belongs."""

    run: RunFolder
    member: MemberFolder
    path: Path
    step: int


def _chosen(request: TrackerRequest) -> Chosen:
    from telic.tracking.reports import trackers
    from telic.tracking.train import read_config

    run = _run(request)
    read_config(run)
    known = trackers(run)
    if request.seed is not None:
        known = [each for each in known if each.member.endswith(f"_seed_{request.seed}")]
    elif known:
        known = [each for each in known if each.member == known[0].member]
    if request.step is not None:
        known = [each for each in known if each.step == request.step]
    if not known:
        raise UsageError(
            f"{run.name} has no such tracker.",
            hint="They appear at each evaluation, in <member>/checkpoints/tracker_<step>.pt.",
        )
    last = known[-1]
    member = next(each for each in run.members() if each.name == last.member)
    return Chosen(run, member, last.path, last.step)


class EvalRequest(TrackerRequest):
    """A tracker to measure."""

    split: Literal["held-out", "train", "validation", "test"] = option(
        "Which clips; held-out: test, or validation where there are none.", default="held-out"
    )
    library: str | None = option("Folder of other motions than those of the run.", default=None)
    videos: int = option(
        "Number of videos of the worst clips, with the reference as a ghost.", default=0, minimum=0
    )
    device: str = option("cpu or cuda.", default="cpu")
    threads: int | None = option("Physics threads; default all cores.", default=None)


@dataclass(frozen=True)
class TrackerEvaluation(Wrapped):
    """How a tracker follows clips, with the files that say so."""

    report: TrackingReport
    files: list[str]


@verb(EvalRequest, examples=_EXAMPLES)
def eval(request: EvalRequest) -> TrackerEvaluation:
    """Evaluate a tracker on clips, by encoder and clip; render the worst."""
    from telic.report.html import render_page
    from telic.storage.files import write_json, write_text
    from telic.tracking.environment import open_motions
    from telic.tracking.evaluate import ClipPlayer, played_clips
    from telic.tracking.page import evaluation_report
    from telic.tracking.reports import as_csv, reports_of
    from telic.tracking.tracker import load_tracker
    from telic.tracking.train import read_config
    from telic.tracking.video import clip_video

    chosen = _chosen(request)
    config = read_config(chosen.run)
    if request.library is not None:
        motions = config.motions.model_copy(update={"library": request.library})
        config = config.model_copy(update={"motions": motions})
    library = open_motions(config)
    split = _split(request.split, [line.split for line in library.clips])
    tracker = load_tracker(chosen.path).to(request.device)
    player = ClipPlayer(
        config,
        library,
        played_clips(config, library, split),
        device=request.device,
        threads=request.threads,
    )
    report = player.evaluate(tracker, split)
    report = report.model_copy(update={"control": player.control()})
    folder = chosen.member.path / "evaluations"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"eval_{chosen.step}_{split}"
    files = [folder / f"{stem}.json", folder / f"{stem}.csv"]
    write_json(files[0], report)
    files[1].write_text(as_csv(report))
    films: list[Path] = []
    for place, worst in enumerate(report.worst(request.videos), start=1):
        named = file_name(f"{worst.clip}_{worst.encoder}")
        films.append(folder / f"{stem}_worst_{place}_{named}.mp4")
        clip_video(player, tracker, worst, films[-1])
    player.close()
    page = folder / f"{stem}.html"
    told = evaluation_report(report, reports_of(chosen.member), films)
    write_text(page, render_page(told, folder))
    files += [page, *films]
    return TrackerEvaluation(report, [str(path) for path in files])


def _split(asked: str, there: list[Split]) -> Split:
    if asked == "held-out":
        return "test" if "test" in there else "validation" if "validation" in there else "train"
    return "train" if asked == "train" else "test" if asked == "test" else "validation"


class ExportTrackerRequest(TrackerRequest):
    """A tracker to write as ONNX."""

    output: str | None = option(
        "Folder for the files; default: beside the tracker.", "--output", "-o", default=None
    )
    clip: str | None = option("Also a folder that follows this clip without telic.", default=None)
    tokens: bool = option(
        "Also tokens/robot.xml, the robot with tokens as actions: telic run ... --env FILE.",
        "--tokens",
        default=False,
    )


@verb(ExportTrackerRequest, examples=_EXAMPLES)
def export(request: ExportTrackerRequest) -> TrackerExport:
    """Export a tracker as ONNX: encoders, decoder and the whole; each is verified."""
    from telic.tracking.deploy import export_with
    from telic.tracking.tracker import load_tracker

    chosen = _chosen(request)
    folder = Path(request.output) if request.output else chosen.member.path / "onnx"
    return export_with(load_tracker(chosen.path), folder, request.clip, tokens=request.tokens)
