"""Train, evaluate and export motion trackers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic import tracking
from telic.core.config import dotted
from telic.core.request import PlacedRequest, RunsRequest, argument, option
from telic.core.text import integer_list, safe_name
from telic.core.verb import VerbResult, verb
from telic.errors import UsageError
from telic.report.html import render_page
from telic.report.sinks import logs
from telic.storage.files import require_output, write_json, write_text
from telic.storage.keys import is_own_folder, permit
from telic.storage.layout import MemberFolder, RunFolder, list_runs
from telic.storage.reading import given_text
from telic.storage.workspace import Workspace
from telic.verbs.elsewhere import do_elsewhere

if TYPE_CHECKING:
    from telic.tracking.reports import TrackingReport
    from telic.tracking.tracker import TrackerExport
    from telic.training.run import Run

_EXAMPLES = """
telic track train                                      planar biped, minutes on two CPU cores
telic track train --seeds 1-3 --set losses.alignment=0.5
telic track train --preset quarter --library motions/g1 --device cuda
telic track eval latest --videos 3                     held-out clips, videos of the worst ones
telic track export latest --tokens                     ONNX, and the robot with tokens as actions
"""


class _TrackRequest(PlacedRequest):
    """Request to train trackers."""

    preset: str = option("Preset: planar, quarter or release.", default="planar")
    settings: Sequence[str] = option(
        "Override a setting: --set command.frames=8. Repeatable.", "--set", default=(), many=True
    )
    library: str | None = option("Motion library folder. Default: generated motions.", default=None)
    terms: Path | None = option(
        "Python file with custom reward terms, penalties and terminations.", default=None
    )
    seeds: Sequence[int] = option("Training seeds: 1,2,3 or 1-3.", default=(1,), read=integer_list)
    steps: int | None = option("Control steps per seed. Default: set by the preset.", default=None)
    device: str = option("Device: cpu or cuda.", default="cpu")
    threads: int | None = option("Physics threads. Default: all cores.", default=None)
    evaluations: int = option("Number of evaluations during training.", default=4, minimum=1)
    name: str | None = option("Name of the run folder.", default=None)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    dry_run: bool = option("Print the resolved settings and exit.", default=False)

    @property
    def overrides(self) -> list[str]:
        """Settings that differ from the preset."""
        chosen = list(self.settings)
        if self.library is not None:
            chosen.append(f"motions.library={json.dumps(str(Path(self.library).absolute()))}")
        if self.steps is not None:
            chosen.append(f"trainer.steps={self.steps}")
        return chosen


class TrackedRun(NamedTuple):
    """Training run of trackers, with the tracking success of its members on held-out clips."""

    path: str
    status: str
    reports: list[TrackingReport]


def _unfinished(result: Any) -> int:
    return int(getattr(result, "status", "completed") != "completed")


@verb(_TrackRequest, examples=_EXAMPLES, exit_code=_unfinished)
@logs
def train_tracking(request: _TrackRequest) -> TrackedRun | VerbResult[dict[str, Any]]:
    """Train policies that track reference motions through a shared token space."""
    source = ""
    if request.terms is not None:
        source = given_text(request.terms, "The terms")
        permit(tracking.own_terms.permission(source))
    rewards = tracking.own_terms.load_terms(source).rewards
    config = tracking.config.preset(request.preset, request.overrides, source, rewards)
    if request.dry_run:
        return VerbResult(dotted(config.model_dump(mode="json")))
    if request.on is not None:
        return _tracked(do_elsewhere(request, ("track", "train"), "track:train_tracking"))
    names = ("seeds", "name", "fresh", "device", "threads", "evaluations", "on_event")
    given = {name: getattr(request, name) for name in (*names, "should_stop")}
    options = tracking.train.TrackingOptions(**given)
    return _tracked(tracking.train.train_tracker(config, Path(request.runs_dir), options))


def _tracked(run: Run) -> TrackedRun:
    reports = tracking.reports.latest_reports(RunFolder(run.path))
    return TrackedRun(str(run.path), run.status, reports)


class _TrackerRequest(RunsRequest):
    """Request for a tracker of a run."""

    run: str = argument("Run: latest, its name, or a folder.", default="latest")
    seed: int | None = option("Member of the run. Default: the first.", default=None)
    step: int | None = option("Step of the tracker. Default: the last.", default=None)

    def choose(self) -> _ChosenTracker:
        """Return the requested tracker."""
        every = list_runs(Path(self.runs_dir)) if self.run == "latest" else ()
        own = (each.name for each in every if (each.path / tracking.train.CONFIG).exists())
        run = Workspace(self.runs_dir).run(next(own, self.run))  # refuses links
        tracking.train.read_config(run)
        known = tracking.reports.trackers(run)
        wanted = f"_seed_{self.seed}" if self.seed is not None else known[0].member if known else ""
        known = [x for x in known if x.member.endswith(wanted) and self.step in (None, x.step)]
        if not known:
            raise UsageError(
                f"{run.name} does not have the requested tracker.",
                hint="Each evaluation saves a tracker as <member>/checkpoints/tracker_<step>.pt.",
            )
        last = known[-1]
        return _ChosenTracker(run, MemberFolder(run.path / last.member), last.path, last.step)


class _ChosenTracker(NamedTuple):
    """File of a tracker with its run, member and step."""

    run: RunFolder
    member: MemberFolder
    path: Path
    step: int


class _EvalRequest(_TrackerRequest):
    """Request to evaluate a tracker."""

    split: Literal["held-out", "train", "validation", "test"] = option(
        "Clips to evaluate. 'held-out': test clips, else validation clips.", default="held-out"
    )
    library: str | None = option("Motion folder. Default: the motions of the run.", default=None)
    videos: int = option(
        "Number of worst clips to render, with the reference overlaid.", default=0, minimum=0
    )
    device: str = option("Device: cpu or cuda.", default="cpu")


class TrackerEvaluation(NamedTuple):
    """Evaluation of a tracker on clips, and its files."""

    report: TrackingReport
    files: list[str]


@verb(_EvalRequest, examples=_EXAMPLES)
def eval(request: _EvalRequest) -> TrackerEvaluation:
    """Evaluate a tracker per encoder and clip and render the worst clips."""
    chosen = request.choose()
    config = tracking.train.read_config(chosen.run)
    if not is_own_folder(chosen.run.path):  # its tolerances would decide about success
        config = config.model_copy(update={"evaluation": tracking.config.EvaluationGroup()})
    if request.library is not None:
        motions = config.motions.model_copy(update={"library": request.library})
        config = config.model_copy(update={"motions": motions})
    library = tracking.task.open_motions(config)
    held = library.first_split("test", "validation")
    split = held if request.split == "held-out" else request.split
    tracker = tracking.tracker.load_tracker(chosen.path).to(request.device)
    clips = tracking.evaluate.played_clips(config, library, split)
    player = tracking.evaluate.ClipPlayer(config, library, clips, device=request.device)
    report, _ = player.measure(tracker, split)
    report = report.model_copy(update={"control": player.control()})
    folder = chosen.member.path / "evaluations"
    stem = f"eval_{chosen.step}_{split}"
    files = [folder / f"{stem}.{suffix}" for suffix in ("json", "csv", "html")]
    write_json(files[0], report)
    write_text(files[1], tracking.reports.as_csv(report))
    videos: list[Path] = []
    for place, worst in enumerate(report.worst(request.videos), start=1):
        clip = safe_name(f"{worst.clip}_{worst.encoder}")
        videos.append(folder / f"{stem}_worst_{place}_{clip}.mp4")
        tracking.evaluate.clip_video(player, tracker, worst, videos[-1])
    player.close()
    page = tracking.reports.evaluation_report(report, videos)
    write_text(files[2], render_page(page, folder))
    return TrackerEvaluation(report, [str(path) for path in (*files, *videos)])


class _ExportTrackerRequest(_TrackerRequest):
    """Request to export a tracker to ONNX."""

    output: str | None = option(
        "Output folder. Default: next to the tracker.", "--output", "-o", default=None
    )
    clip: str | None = option("Also export a bundle that tracks only this clip.", default=None)
    tokens: bool = option(
        "Also export tokens/robot.xml, a robot with tokens as actions, for telic run --env FILE.",
        "--tokens",
        default=False,
    )


@verb(_ExportTrackerRequest, examples=_EXAMPLES)
def export_tracking(request: _ExportTrackerRequest) -> TrackerExport:
    """Export a tracker's encoders, decoder and full policy to ONNX, and verify each network."""
    chosen = request.choose()
    folder = Path(request.output) if request.output else chosen.member.path / "onnx"
    require_output(folder, tracking.tracker.EXPORTED)
    tracker = tracking.tracker.load_tracker(chosen.path)
    return tracking.deploy.export_with(tracker, folder, request.clip, tokens=request.tokens)
