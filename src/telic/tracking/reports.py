"""What was measured of trackers, as records and as files: they are read without torch."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from telic.core.config import Record
from telic.core.stats import bootstrap
from telic.storage.layout import MemberFolder, RunFolder


class FollowErrors(Record):
    """Errors of one played clip; None: too short to tell."""

    mpjpe_g_mm: float = Field(description="mean error of bodies in the world")
    mpjpe_l_mm: float = Field(description="the same relative to the root")
    mpjpe_pa_mm: float = Field(description="after the best similarity of each frame")
    velocity_mm: float | None = Field(description="mean error of the change per frame, mm/frame")
    velocity_m_s: float | None = Field(description="the same, m/s")
    acceleration_mm: float | None = Field(description="of second differences, mm/frame^2")
    acceleration_m_s2: float | None = Field(description="the same, m/s^2")
    drift_m: float = Field(description="horizontal error of the root at the end")


class ClipResult(Record):
    """How one clip was followed, driven by one encoder."""

    clip: str
    encoder: str
    success: bool = Field(description="root height, end heights and root turn stayed near")
    global_success: bool = Field(description="and the mean error of bodies, place included")
    progress: float = Field(description="share of the clip that was played before it failed")
    frames: int
    joint_rad: float
    turn_rad: float
    errors: FollowErrors


class EncoderResult(Record):
    """How clips were followed, driven by one encoder."""

    encoder: str
    clips: int
    success_rate: float
    interval: tuple[float, float] | None = Field(description="95 %, bootstrapped over clips")
    global_success_rate: float
    progress_rate: float
    mpjpe_g_mm: float = Field(description="weighted by frames, as all errors are")
    mpjpe_l_mm: float
    mpjpe_pa_mm: float
    velocity_m_s: float | None
    acceleration_m_s2: float | None
    joint_rad: float
    mpjpe_l_mm_of_successes: float | None


def summarise_encoder(encoder: str, results: Sequence[ClipResult]) -> EncoderResult:
    """Summarise the clips that one encoder drove."""
    frames = [result.frames for result in results]

    def weighted(values: Sequence[float | None]) -> float | None:
        known = [(v, n) for v, n in zip(values, frames, strict=True) if v is not None]
        total = sum(n for _, n in known)
        return sum(v * n for v, n in known) / total if total else None

    def of(name: str) -> float:
        return weighted([getattr(result.errors, name) for result in results]) or 0.0

    good = [result for result in results if result.success]
    return EncoderResult(
        encoder=encoder,
        clips=len(results),
        success_rate=statistics.fmean(result.success for result in results),
        interval=bootstrap([float(result.success) for result in results]),
        global_success_rate=statistics.fmean(result.global_success for result in results),
        progress_rate=statistics.fmean(result.progress for result in results),
        mpjpe_g_mm=of("mpjpe_g_mm"),
        mpjpe_l_mm=of("mpjpe_l_mm"),
        mpjpe_pa_mm=of("mpjpe_pa_mm"),
        velocity_m_s=weighted([result.errors.velocity_m_s for result in results]),
        acceleration_m_s2=weighted([result.errors.acceleration_m_s2 for result in results]),
        joint_rad=weighted([result.joint_rad for result in results]) or 0.0,
        mpjpe_l_mm_of_successes=statistics.fmean(result.errors.mpjpe_l_mm for result in good)
        if good
        else None,
    )


class TokenUse(Record):
    """How one encoder uses the codes."""

    encoder: str
    entropy_bits: float = Field(description="of one number of a token")
    dead_share: float = Field(description="levels that never occurred")
    saturated_share: float = Field(description="numbers at the outermost levels")


class PairAgreement(Record):
    """How alike the tokens of two encoders are for the same frames."""

    one: str
    other: str
    equal_share: float | None = Field(description="codes that are equal")
    chance: float | None = Field(description="what it would be for unrelated frames")
    distance: float | None = Field(description="mean number of levels between them")


class TrackingReport(Record):
    """What an evaluation of a tracker found."""

    schema_version: int = 1
    step: int
    member: str
    split: str = Field(description="which clips were played")
    encoders: tuple[EncoderResult, ...]
    control: EncoderResult | None = Field(
        default=None, description="a robot that only holds its resting pose; None: not played"
    )
    tokens: tuple[TokenUse, ...]
    agreement: tuple[PairAgreement, ...]
    clips: tuple[ClipResult, ...]

    @property
    def success_rate(self) -> float:
        """Success over all encoders and clips."""
        return statistics.fmean(result.success for result in self.clips)

    def worst(self, count: int) -> list[ClipResult]:
        """Return failed clips first, the largest local error first."""
        order = sorted(self.clips, key=lambda r: (r.success, -r.errors.mpjpe_l_mm))
        return order[:count]


def as_csv(report: TrackingReport) -> str:
    """Return a report's clips as a table, one line each."""
    errors = list(FollowErrors.model_fields)
    plain = [name for name in ClipResult.model_fields if name != "errors"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*plain, *errors])
    for clip in report.clips:
        own = [getattr(clip, name) for name in plain]
        writer.writerow([*own, *(getattr(clip.errors, name) for name in errors)])
    return out.getvalue()


class TrackerFile(NamedTuple):
    """A tracker that a training has kept."""

    path: Path
    member: str
    step: int


def trackers(run: RunFolder) -> list[TrackerFile]:
    """Return all trackers of a run, by step."""
    found = [
        TrackerFile(path, member.name, int(match[1]))
        for member in run.members()
        for path in member.checkpoints_dir.glob("tracker_*.pt")
        if (match := re.fullmatch(r"tracker_([0-9]{1,18})\.pt", path.name))
    ]
    return sorted(found, key=lambda each: (each.step, each.member))


def reports_of(member: MemberFolder) -> list[TrackingReport]:
    """Return what was measured of a member while it was trained, by step."""
    files = (member.path / "evaluations").glob("report_*.json")
    order = sorted(files, key=lambda path: int(path.stem.partition("_")[2]))
    return [TrackingReport.model_validate_json(path.read_bytes()) for path in order]


def latest_reports(run: RunFolder) -> list[TrackingReport]:
    """Return the latest report of every member."""
    return [own[-1] for own in map(reports_of, run.members()) if own]
