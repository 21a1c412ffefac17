"""An evaluation of a tracker, and a sweep of its tokens, as reports that need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from telic.core.text import MISSING
from telic.report import document as doc
from telic.report.charts import ChartLine, LineChart, Point, Row, RowChart
from telic.tracking.reports import ClipResult, EncoderResult, TrackingReport
from telic.tracking.sweep import SweepPoint

_WORST = 10


def _number(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1%}"


def evaluation_report(
    report: TrackingReport, before: Sequence[TrackingReport] = (), films: Sequence[Path] = ()
) -> doc.Report:
    """Return what was measured of a tracker.

    Args:
        report: the measurement.
        before: those made while it was trained, for the curve.
        films: of the clips it follows worst, the worst first.
    """
    clips = len({each.clip for each in report.clips})
    everyone = (*report.encoders, *([report.control] if report.control else ()))
    sections = [
        doc.Section("How well it follows", (_encoder_table(everyone), _success_chart(everyone))),
        doc.Section("While it learned", _curve(before)),
        doc.Section("Tokens", _tokens(report)),
        doc.Section(
            "What it follows worst",
            (*(_film(path) for path in films), _clip_table(report.worst(_WORST))),
        ),
        doc.Section(
            "Every clip",
            (doc.Details(f"{len(report.clips)} plays", (_clip_table(report.worst(10_000)),)),),
        ),
    ]
    header = (
        doc.Text(f"{report.member} after {report.step:,} control steps", "where"),
        doc.Text(
            f"{clips} clips of the {report.split} split, each from its first frame with every "
            "encoder, without noise. A clip fails when the height of root, hands or feet or the "
            "turn of the root is off too far; in place, also when bodies are off by more than the "
            "limit in the world. Frames after a failure do not count."
        ),
    )
    kept = tuple(section for section in sections if section.blocks)
    return doc.Report(f"Tracker: {report.member}", kept, doc.Section("", header))


def _encoder_table(results: Sequence[EncoderResult]) -> doc.Table:
    heads = (
        *("encoder", "success", "in place", "played", "local mm", "world mm", "aligned mm"),
        *("m/s", "m/s²", "joints rad"),
    )
    rows = [
        (
            *(each.encoder, _share(each.success_rate), _share(each.global_success_rate)),
            *(_share(each.progress_rate), _number(each.mpjpe_l_mm), _number(each.mpjpe_g_mm)),
            *(_number(each.mpjpe_pa_mm), _number(each.velocity_m_s, 3)),
            *(_number(each.acceleration_m_s2, 2), _number(each.joint_rad, 3)),
        )
        for each in results
    ]
    return doc.Table(heads, rows)


def _success_chart(results: Sequence[EncoderResult]) -> doc.Figure:
    rows = tuple(Row(each.encoder, each.success_rate, each.interval) for each in results)
    chart = RowChart("Success by encoder, 95 % intervals over clips", rows, are_shares=True)
    return doc.Figure(chart, "Success, with 95 % intervals over clips")


def _curve(before: Sequence[TrackingReport]) -> tuple[doc.Block, ...]:
    if len(before) < 2:
        return ()

    def line(name: str, values: Sequence[float]) -> ChartLine:
        steps = [float(each.step) for each in before]
        points = [Point(x, y, y, y) for x, y in zip(steps, values, strict=True)]
        return ChartLine(name, points, points)

    def mean(name: str) -> list[float]:
        return [fmean(getattr(encoder, name) for encoder in each.encoders) for each in before]

    shares = (
        line("success", mean("success_rate")),
        line("in place", mean("global_success_rate")),
    )
    errors = (line("local error", mean("mpjpe_l_mm")),)
    along = "control steps"
    charts = (
        LineChart("Share of clips followed", shares, along, "share", from_zero=True),
        LineChart("Local error of bodies", errors, along, "mm", from_zero=True),
    )
    return (doc.Beside(tuple(doc.Figure(chart) for chart in charts)),)


def _tokens(report: TrackingReport) -> tuple[doc.Block, ...]:
    pairs = [
        (
            f"{each.one} / {each.other}",
            _share(each.equal_share),
            _share(each.chance),
            _number(each.distance, 2),
        )
        for each in report.agreement
    ]
    uses = [
        (
            each.encoder,
            _number(each.entropy_bits, 2),
            _share(each.dead_share),
            _share(each.saturated_share),
        )
        for each in report.tokens
    ]
    blocks: list[doc.Block] = []
    if pairs:
        heads = ("encoders", "equal codes", "of unrelated frames", "levels apart")
        blocks.append(doc.Table(heads, pairs, "How alike tokens of the same frame are"))
    if uses:
        heads = ("encoder", "bits used per number", "levels never used", "outermost levels")
        blocks.append(doc.Table(heads, uses, "How codes are used"))
    return tuple(blocks)


def _clip_table(results: Sequence[ClipResult]) -> doc.Table:
    heads = ("clip", "encoder", "followed", "in place", "played", "local mm", "world mm", "drift m")
    rows = [
        (
            *(each.clip, each.encoder, doc.Tick(each.success), doc.Tick(each.global_success)),
            *(_share(each.progress), _number(each.errors.mpjpe_l_mm)),
            *(_number(each.errors.mpjpe_g_mm), _number(each.errors.drift_m, 2)),
        )
        for each in results
    ]
    return doc.Table(heads, rows)


def _film(path: Path) -> doc.Video:
    words = path.stem.partition("_worst_")[2].replace("_", " ")
    return doc.Video(path, f"The robot and, as a ghost, its reference: {words}", plays=False)


def sweep_report(points: Sequence[SweepPoint]) -> doc.Report:
    """Return how well trackers follow by how much their tokens may say."""
    heads = (
        *("numbers", "levels", "bits a step", "bits used", "success", "in place"),
        *("local mm", "equal codes", "steps"),
    )
    order = sorted(points, key=lambda each: each.bits)
    rows = [
        (
            *(str(each.numbers), str(each.levels), _number(each.bits, 0)),
            *(_number(each.used_bits, 1), _share(each.success_rate)),
            *(_share(each.global_success_rate), _number(each.mpjpe_l_mm)),
            *(_share(each.agreement), f"{each.step:,}"),
        )
        for each in order
    ]

    def line(name: str, values: Sequence[float]) -> ChartLine:
        marks = [Point(each.bits, y, y, y) for each, y in zip(order, values, strict=True)]
        return ChartLine(name, marks, marks)

    errors = (line("local error", [each.mpjpe_l_mm for each in order]),)
    shares = (
        line("success", [each.success_rate for each in order]),
        line("in place", [each.global_success_rate for each in order]),
    )
    charts = (
        LineChart("Local error by bits", errors, "bits a step", "mm", from_zero=True),
        LineChart("Share followed by bits", shares, "bits a step", "share", from_zero=True),
    )
    figures = doc.Beside(tuple(doc.Figure(chart) for chart in charts))
    words = "Trackers that differ in nothing but how much a token can say, on held-out clips."
    return doc.Report(
        "Rate and accuracy of tokens",
        (doc.Section("By size of token", (doc.Table(heads, rows), figures)),),
        doc.Section("", (doc.Text(words),)),
    )
