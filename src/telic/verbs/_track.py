"""The work of `telic track`: train, compare token sizes, evaluate and export."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from telic.core.config import dotted
from telic.core.events import LogMessage
from telic.core.text import file_name
from telic.errors import UsageError
from telic.motions.clip import Split
from telic.report.html import render_page
from telic.storage.files import write_json, write_text
from telic.storage.layout import MemberFolder, RunFolder, list_runs
from telic.tracking.config import preset
from telic.tracking.deploy import export_with
from telic.tracking.evaluate import ClipPlayer, clip_video, played_clips
from telic.tracking.loop import token_sizes, train_one, train_trackers
from telic.tracking.reports import (
    SweepPoint,
    as_csv,
    evaluation_report,
    latest_reports,
    reports_of,
    sweep_report,
    trackers,
)
from telic.tracking.task import open_motions
from telic.tracking.tracker import TrackerExport, load_tracker
from telic.tracking.train import CONFIG, TrackingOptions, read_config
from telic.training.run import Run
from telic.verbs.elsewhere import do_elsewhere
from telic.verbs.track import (
    EvalRequest,
    ExportTrackerRequest,
    TokenSweep,
    TrackedRun,
    TrackerEvaluation,
    TrackerRequest,
    TrackRequest,
    TrackSettings,
)


def train(request: TrackRequest) -> TrackedRun | TrackSettings | TokenSweep:
    """Train one tracker, or one per token size."""
    config = preset(request.preset, request.overrides)
    if request.dry_run:
        return TrackSettings(dotted(config.model_dump(mode="json")))
    if request.on is not None:
        return _tracked(do_elsewhere(request, ("track", "train"), "track:train"))
    runs_dir = Path(request.runs_dir)
    options = TrackingOptions(
        seeds=request.seeds,
        name=request.name,
        fresh=request.fresh,
        device=request.device,
        threads=request.threads,
        evaluations=request.evaluations,
        on_event=request.on_event,
        should_stop=request.should_stop,
    )
    if not request.dims and not request.levels:
        return _tracked(train_one(config, runs_dir, options))
    prefix = file_name(request.name or "sweep")
    configs = token_sizes(config, prefix, request.dims, request.levels)
    page = runs_dir / f"{prefix}.html"

    def show(points: list[SweepPoint]) -> None:
        last = points[-1]
        found = f"success {last.success_rate:.0%}, {last.mpjpe_l_mm:.1f} mm"
        request.on_event(LogMessage(message=f"{last.bits:.0f} bits: {found}"))
        write_text(page, render_page(sweep_report(points), page.parent))

    points = train_trackers(configs, runs_dir, options, runs_dir / f"{prefix}.jsonl", show)
    return TokenSweep(points, str(page), "completed" if len(points) == len(configs) else "stopped")


def _tracked(run: Run) -> TrackedRun:
    return TrackedRun(str(run.path), run.status, latest_reports(RunFolder(run.path)))


class _Chosen(NamedTuple):
    """A tracker's file and where it belongs."""

    run: RunFolder
    member: MemberFolder
    path: Path
    step: int


def _run(request: TrackerRequest) -> RunFolder:
    if Path(request.run).is_dir():
        return RunFolder(Path(request.run))
    if request.run != "latest":
        return RunFolder(Path(request.runs_dir) / request.run)
    runs = list_runs(Path(request.runs_dir))
    found = next((each for each in runs if (each.path / CONFIG).exists()), None)
    if found is None:
        raise UsageError(
            f"There is no tracking run in {request.runs_dir}.", hint="Make one: telic track train"
        )
    return found


def _chosen(request: TrackerRequest) -> _Chosen:
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
    return _Chosen(run, member, last.path, last.step)


def evaluate(request: EvalRequest) -> TrackerEvaluation:
    """Play clips, write the report as JSON, CSV and a page, and render the worst clips."""
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
    )
    report = player.evaluate(tracker, split)
    report = report.model_copy(update={"control": player.control()})
    folder = chosen.member.path / "evaluations"
    stem = f"eval_{chosen.step}_{split}"
    files = [folder / f"{stem}.{suffix}" for suffix in ("json", "csv", "html")]
    write_json(files[0], report)
    write_text(files[1], as_csv(report))
    videos: list[Path] = []
    for place, worst in enumerate(report.worst(request.videos), start=1):
        clip = file_name(f"{worst.clip}_{worst.encoder}")
        videos.append(folder / f"{stem}_worst_{place}_{clip}.mp4")
        clip_video(player, tracker, worst, videos[-1])
    player.close()
    page = evaluation_report(report, reports_of(chosen.member), videos)
    write_text(files[2], render_page(page, folder))
    return TrackerEvaluation(report, [str(path) for path in (*files, *videos)])


def _split(asked: str, there: list[Split]) -> Split:
    if asked == "held-out":
        return "test" if "test" in there else "validation" if "validation" in there else "train"
    return "train" if asked == "train" else "test" if asked == "test" else "validation"


def export(request: ExportTrackerRequest) -> TrackerExport:
    """Write a tracker as ONNX."""
    chosen = _chosen(request)
    folder = Path(request.output) if request.output else chosen.member.path / "onnx"
    return export_with(load_tracker(chosen.path), folder, request.clip, tokens=request.tokens)
