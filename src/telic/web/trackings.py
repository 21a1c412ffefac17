"""What a training of trackers came to: how each encoder follows the clips, and which worst."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter

from telic.core.config import Record
from telic.motions.robot import motion_robot
from telic.storage.layout import RunFolder
from telic.storage.trajectories import Environment
from telic.tracking.config import MotionsGroup
from telic.tracking.reports import ClipResult, EncoderResult, TokenUse, TrackingReport, reports_of
from telic.tracking.train import CONFIG, read_config
from telic.web.place import WebPlace

_WORST = 12


class TrackingLine(Record):
    """One measurement of a tracker."""

    member: str
    step: int
    split: str
    encoders: tuple[EncoderResult, ...]
    control: EncoderResult | None
    tokens: tuple[TokenUse, ...]
    worst: tuple[ClipResult, ...]
    """failed clips first, the largest error first"""
    clips: int


class TrackingDetail(Record):
    """A training of trackers."""

    robot: str
    library: str
    measured: tuple[TrackingLine, ...]
    """by step"""


def read_tracking(run: RunFolder) -> TrackingDetail | None:
    """Return what is known of the trackers of a run; None: it trains something else."""
    if not (run.path / CONFIG).exists():
        return None
    config = read_config(run)
    reports = [report for member in run.members() for report in reports_of(member)]
    lines = {(each.member, each.step, each.split): _line(each) for each in reports}
    measured = sorted(lines.values(), key=lambda line: (line.step, line.member))
    return TrackingDetail(
        robot=Path(config.robot.name).name,
        library=_named(config.motions),
        measured=tuple(measured),
    )


def robot_environment(run: RunFolder) -> Environment | None:
    """Return the model of the robot that trackers move; None: the run trains something else."""
    if not (run.path / CONFIG).exists():
        return None
    return str(motion_robot(read_config(run).robot.name).file), {}


def _named(motions: MotionsGroup) -> str:
    if motions.library is None:
        return f"{motions.generated} generated clips"
    return Path(motions.library).name  # where it lies is nobody's business


def _line(report: TrackingReport) -> TrackingLine:
    return TrackingLine(
        member=report.member,
        step=report.step,
        split=report.split,
        encoders=report.encoders,
        control=report.control,
        tokens=report.tokens,
        worst=tuple(report.worst(_WORST)),
        clips=len({each.clip for each in report.clips}),
    )


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of trackers."""
    router = APIRouter(tags=["trackings"])

    @router.get("/things/{thing}/tracking")
    def read_trackers(thing: str) -> TrackingDetail | None:
        """Return how the trackers of a run follow their clips; null: it trains something else."""
        return read_tracking(RunFolder(place.thing(thing, "run").path))

    return router
