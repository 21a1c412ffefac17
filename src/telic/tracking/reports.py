"""Evaluation reports of trackers: records, tables and pages, without importing torch."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from telic.core.config import Record
from telic.core.stats import wilson
from telic.core.text import MISSING
from telic.report import document as doc
from telic.storage.files import read_record
from telic.storage.layout import MemberFolder, RunFolder


class FollowErrors(Record):
    """Tracking errors of one clip, or None if the clip is too short."""

    mpjpe_g_mm: float = Field(description="mean body position error in the world frame")
    mpjpe_l_mm: float = Field(description="mean body position error relative to the root")
    mpjpe_pa_mm: float = Field(description="mean error after similarity alignment per frame")
    velocity_mm: float | None = Field(description="mean velocity error in mm/frame")
    velocity_m_s: float | None = Field(description="mean velocity error in m/s")
    acceleration_mm: float | None = Field(description="mean acceleration error in mm/frame^2")
    acceleration_m_s2: float | None = Field(description="mean acceleration error in m/s^2")
    drift_m: float = Field(description="final horizontal error of the root")


class ClipResult(Record):
    """Tracking result of one clip with one encoder."""

    clip: str
    encoder: str
    success: bool = Field(description="whether height and orientation errors were within tolerance")
    global_success: bool = Field(description="success, and a mean body error within tolerance")
    progress: float = Field(description="fraction of the clip played before the failure")
    frames: int
    joint_rad: float
    turn_rad: float
    errors: FollowErrors


class EncoderResult(Record):
    """Tracking results of one encoder, aggregated over all clips."""

    encoder: str
    clips: int
    success_rate: float
    interval: tuple[float, float] | None = Field(description="95 % Wilson interval over clips")
    global_success_rate: float
    global_interval: tuple[float, float] | None = Field(default=None, description="as above")
    progress_rate: float
    mpjpe_g_mm: float = Field(description="mean error, weighted by frames")
    mpjpe_l_mm: float
    mpjpe_pa_mm: float
    velocity_m_s: float | None
    acceleration_m_s2: float | None
    joint_rad: float
    mpjpe_l_mm_of_successes: float | None


def summarize_encoder(encoder: str, results: Sequence[ClipResult]) -> EncoderResult:
    """Aggregate the results of one encoder."""
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
        interval=wilson(len(good), len(results)),
        global_success_rate=statistics.fmean(result.global_success for result in results),
        global_interval=wilson(sum(result.global_success for result in results), len(results)),
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


class TokenUsage(Record):
    """Codebook usage of one encoder."""

    encoder: str
    entropy_bits: float = Field(description="entropy per token dimension, at most log2(levels)")
    dead_share: float = Field(description="fraction of unused levels")
    saturated_share: float = Field(description="fraction of codes at the outermost levels")


class PairAgreement(Record):
    """Agreement between the tokens of two encoders on the same frames."""

    one: str
    other: str
    equal_share: float | None = Field(description="fraction of equal codes")
    chance: float | None = Field(description="fraction expected for unrelated frames")
    distance: float | None = Field(description="mean distance in levels")


class TrackingReport(Record):
    """Evaluation report of a tracker."""

    schema_version: int = 1
    step: int
    member: str
    split: str = Field(description="evaluated clips")
    conditions: str = Field(default="", description="robot, motions and tolerances of a success")
    encoders: tuple[EncoderResult, ...]
    control: EncoderResult | None = Field(
        default=None, description="baseline that holds the default pose, or None if not evaluated"
    )
    tokens: tuple[TokenUsage, ...]
    agreement: tuple[PairAgreement, ...]
    clips: tuple[ClipResult, ...]

    @property
    def success_rate(self) -> float:
        """Success rate over all clips and encoders."""
        return statistics.fmean(result.success for result in self.clips)

    def worst(self, count: int) -> list[ClipResult]:
        """Return the worst clips, with failed clips first and then by decreasing local error."""
        order = sorted(self.clips, key=lambda r: (r.success, -r.errors.mpjpe_l_mm))
        return order[:count]


class TrackingVerdict(Record):
    """Final verdict of a run, based on the success of all members on held-out clips."""

    plays: int
    successes: int
    success_rate: float
    interval: tuple[float, float] | None = Field(description="95 % Wilson interval over episodes")
    mpjpe_l_mm: float = Field(description="mean local error over episodes")


def verdict_of(reports: Sequence[TrackingReport]) -> TrackingVerdict:
    """Return the verdict for the last reports of a run's members."""
    plays = [clip for report in reports for clip in report.clips]
    good = sum(clip.success for clip in plays)
    return TrackingVerdict(
        plays=len(plays),
        successes=good,
        success_rate=good / max(len(plays), 1),
        interval=wilson(good, len(plays)),
        mpjpe_l_mm=statistics.fmean([clip.errors.mpjpe_l_mm for clip in plays] or [0.0]),
    )


def as_csv(report: TrackingReport) -> str:
    """Return the clips of a report as CSV with one line per clip."""
    errors = list(FollowErrors.model_fields)
    plain = [name for name in ClipResult.model_fields if name != "errors"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*plain, *errors])
    for clip in report.clips:
        own = [getattr(clip, name) for name in plain]
        # A spreadsheet would run a name such as "=1+1" as a formula.
        own = [re.sub(r"^(?=[=+@\t\r-])", "'", x) if isinstance(x, str) else x for x in own]
        writer.writerow([*own, *(getattr(clip.errors, name) for name in errors)])
    return out.getvalue()


class TrackerFile(NamedTuple):
    """Tracker file of a training run."""

    path: Path
    member: str
    step: int


def trackers(run: RunFolder) -> list[TrackerFile]:
    """Return all tracker files of a run, sorted by step."""
    found = [
        TrackerFile(path, member.name, int(match[1]))
        for member in run.members()
        for path in member.checkpoints_dir.glob("tracker_*.pt")
        if (match := re.fullmatch(r"tracker_([0-9]{1,18})\.pt", path.name))
    ]
    return sorted(found, key=lambda each: (each.step, each.member))


def reports_of(member: MemberFolder) -> list[TrackingReport]:
    """Return the evaluation reports of a member, sorted by step."""
    files = (member.path / "evaluations").glob("report_*.json")
    reports = [read_record(path, TrackingReport) for path in files]
    return sorted(reports, key=lambda report: report.step)


def latest_reports(run: RunFolder) -> list[TrackingReport]:
    """Return the latest report of every member."""
    return [own[-1] for own in map(reports_of, run.members()) if own]


_WORST = 10


def _number(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1%}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return MISSING if bounds is None else f"{bounds[0]:.1%} to {bounds[1]:.1%}"


def _table(columns: dict[str, list[Any]], title: str = "") -> doc.Table:
    """Build a table from columns by header. Trailing spaces distinguish equal headers."""
    heads = tuple(head.strip() for head in columns)
    return doc.Table(heads, list(zip(*columns.values(), strict=True)), title)


def evaluation_report(report: TrackingReport, videos: Sequence[Path] = ()) -> doc.Report:
    """Return the evaluation page of a tracker, with videos of the worst clips."""
    every = (*report.encoders, *([report.control] if report.control else ()))
    accuracy = _table(
        {
            "encoder": [x.encoder for x in every],
            "success": [_share(x.success_rate) for x in every],
            "95 % interval": [_interval(x.interval) for x in every],
            "in place": [_share(x.global_success_rate) for x in every],
            "95 % interval ": [_interval(x.global_interval) for x in every],
            "progress": [_share(x.progress_rate) for x in every],
            "local mm": [_number(x.mpjpe_l_mm) for x in every],
            "world mm": [_number(x.mpjpe_g_mm) for x in every],
            "aligned mm": [_number(x.mpjpe_pa_mm) for x in every],
            "m/s": [_number(x.velocity_m_s, 3) for x in every],
            "m/s²": [_number(x.acceleration_m_s2, 2) for x in every],
            "joints rad": [_number(x.joint_rad, 3) for x in every],
        }
    )
    alike = _table(
        {
            "encoders": [f"{x.one} / {x.other}" for x in report.agreement],
            "equal codes": [_share(x.equal_share) for x in report.agreement],
            "unrelated frames": [_share(x.chance) for x in report.agreement],
            "mean distance, levels": [_number(x.distance, 2) for x in report.agreement],
        },
        "Token agreement between encoders on the same frames",
    )
    uses = _table(
        {
            "encoder": [x.encoder for x in report.tokens],
            "entropy, bits": [_number(x.entropy_bits, 2) for x in report.tokens],
            "unused levels": [_share(x.dead_share) for x in report.tokens],
            "outermost levels": [_share(x.saturated_share) for x in report.tokens],
        },
        "Codebook usage",
    )
    tokens = tuple(table for table in (alike, uses) if table.rows)
    overlays = [
        doc.Video(
            path,
            "The robot with its reference overlaid: "
            + path.stem.partition("_worst_")[2].replace("_", " "),
            plays=False,
        )
        for path in videos
    ]
    whole = doc.Details(f"{len(report.clips)} plays", (_clip_table(report.worst(10_000)),))
    sections = (
        doc.Section("Tracking accuracy", (accuracy,)),
        *((doc.Section("Tokens", tokens),) if tokens else ()),
        doc.Section("Worst clips", (*overlays, _clip_table(report.worst(_WORST)))),
        doc.Section("Every clip", (whole,)),
    )
    clips = len({each.clip for each in report.clips})
    header = (
        doc.Text(f"{report.member} after {report.step:,} control steps", "where"),
        doc.Text(
            f"{clips} clips of the {report.split} split, each from its first frame with every "
            "encoder, without noise. A clip fails if the height error of the root, a hand or a "
            "foot, or the root's orientation error, exceeds its tolerance; 'in place' also "
            "limits the mean body position error. Frames after a failure are ignored. "
            f"Conditions: {report.conditions or 'not recorded'}."
        ),
    )
    return doc.Report(f"Tracker: {report.member}", sections, doc.Section("", header))


def _clip_table(results: Sequence[ClipResult]) -> doc.Table:
    return _table(
        {
            "clip": [x.clip for x in results],
            "encoder": [x.encoder for x in results],
            "followed": [doc.Tick(x.success) for x in results],
            "in place": [doc.Tick(x.global_success) for x in results],
            "played": [_share(x.progress) for x in results],
            "local mm": [_number(x.errors.mpjpe_l_mm) for x in results],
            "world mm": [_number(x.errors.mpjpe_g_mm) for x in results],
            "drift m": [_number(x.errors.drift_m, 2) for x in results],
        }
    )
