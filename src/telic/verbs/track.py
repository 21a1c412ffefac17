"""Motion tracking: train, evaluate and export trackers; `_track` does it and loads torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telic.core.request import PlacedRequest, RunsRequest, argument, option
from telic.core.text import integers
from telic.core.verb import Wrapped, verb

if TYPE_CHECKING:
    from telic.tracking.reports import SweepPoint, TrackingReport
    from telic.tracking.tracker import TrackerExport

_EXAMPLES = """
telic track train                                      the planar biped, minutes on two CPU cores

telic track train --seeds 1-3 --set losses.alignment=0.5

telic track train --preset quarter --library motions/g1 --device cuda

telic track train --dims 4,8 --levels 4,8,32           compare token sizes

telic track eval latest --videos 3                     held-out clips, every encoder, worst as video

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
    dims: Sequence[int] = option(
        "Compare token dimensions: 4,8,16; one run per size.", default=(), read=integers
    )
    levels: Sequence[int] = option(
        "Compare quantization levels: 4,32; one run per size.", default=(), read=integers
    )

    @property
    def overrides(self) -> list[str]:
        """Settings that differ from the preset."""
        chosen = list(self.settings)
        if self.library is not None:
            chosen.append(f"motions.library={json.dumps(str(Path(self.library).absolute()))}")
        if self.steps is not None:
            chosen.append(f"trainer.steps={self.steps}")
        return chosen


@dataclass(frozen=True)
class TrackedRun(Wrapped):
    """A training of trackers, and how its members track held-out clips."""

    path: str
    status: str
    reports: list[TrackingReport]


@dataclass(frozen=True)
class TrackSettings(Wrapped):
    """Every setting of a tracking run by its dotted name."""

    settings: dict[str, Any]


@dataclass(frozen=True)
class TokenSweep(Wrapped):
    """Tracking accuracy by token size."""

    points: list[SweepPoint]
    page: str
    status: str


def _unfinished(result: Any) -> int:
    return int(getattr(result, "status", "completed") != "completed")


@verb(TrackRequest, examples=_EXAMPLES, exit_code=_unfinished)
def train(request: TrackRequest) -> TrackedRun | TrackSettings | TokenSweep:
    """Train policies that track reference motions through a shared token space.

    With --dims or --levels, train one tracker per token size and write a page of accuracy by bits.
    """
    from telic.verbs import _track

    return _track.train(request)


class TrackerRequest(RunsRequest):
    """A tracker of a run."""

    run: str = argument("The run: latest, its name, or a folder.", default="latest")
    seed: int | None = option("Which member; default: the first.", default=None)
    step: int | None = option("Which of its trackers; default: the last.", default=None)


class EvalRequest(TrackerRequest):
    """A tracker to evaluate."""

    split: Literal["held-out", "train", "validation", "test"] = option(
        "Which clips; held-out: test, or validation where there are none.", default="held-out"
    )
    library: str | None = option("Folder of other motions than those of the run.", default=None)
    videos: int = option(
        "Number of videos of the worst clips, with the reference as a ghost.", default=0, minimum=0
    )
    device: str = option("cpu or cuda.", default="cpu")


@dataclass(frozen=True)
class TrackerEvaluation(Wrapped):
    """An evaluation of a tracker on clips, and its files."""

    report: TrackingReport
    files: list[str]


@verb(EvalRequest, examples=_EXAMPLES)
def eval(request: EvalRequest) -> TrackerEvaluation:
    """Evaluate a tracker on clips, by encoder and clip; render the worst."""
    from telic.verbs import _track

    return _track.evaluate(request)


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
    from telic.verbs import _track

    return _track.export(request)
