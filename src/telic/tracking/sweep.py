"""Rate and accuracy: the same tracker trained with tokens that can say more or less.

A point is a run of its own with a name of its own. What is finished is read, what was interrupted
goes on, so that the same command always goes on with a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from telic.errors import UsageError
from telic.storage.layout import RunFolder
from telic.tracking.config import TrackingConfig
from telic.tracking.reports import SweepPoint, TrackingReport, latest_reports
from telic.tracking.train import CONFIG, TrackingOptions, read_config, train_tracker
from telic.training.folder import status_of


class TokenSize(NamedTuple):
    """How much a token can say."""

    dim: int
    levels: int


def sizes(dims: Sequence[int], levels: Sequence[int]) -> list[TokenSize]:
    """Return every combination, each once, small ones first."""
    found = {TokenSize(dim, level) for dim in dims for level in levels}
    return sorted(found, key=lambda size: size.dim * math.log2(size.levels))


def sweep(
    config: TrackingConfig,
    runs_dir: Path,
    chosen: Sequence[TokenSize],
    options: TrackingOptions,
) -> Iterator[SweepPoint]:
    """Train a tracker of every size and yield how well it follows; stops where it is asked to."""
    prefix = options.name or "sweep"
    for size in chosen:
        if options.should_stop():
            return
        networks = config.networks.replace(token_dim=size.dim, levels=size.levels)
        own = config.model_copy(update={"networks": networks})
        name = f"{prefix}-{size.dim}x{size.levels}"
        folder = RunFolder(runs_dir / name)
        if not _is_finished(folder, own) or options.fresh:
            run = train_tracker(own, runs_dir, options._replace(name=name))
            if run.status != "completed":
                return
        yield point_of(folder, own, latest_reports(folder))


def _is_finished(folder: RunFolder, config: TrackingConfig) -> bool:
    if not (folder.path / CONFIG).exists():
        return False
    if read_config(folder) != config:
        raise UsageError(
            f"{folder.path} holds a tracker with other settings.",
            hint="Give the sweep another --name.",
        )
    return status_of(folder) == "completed"


def point_of(
    run: RunFolder, config: TrackingConfig, reports: Sequence[TrackingReport]
) -> SweepPoint:
    """Return what the reports of a run's members come to."""
    if not reports:
        raise UsageError(f"{run.path} was never evaluated.", hint="Train it anew with --fresh.")
    networks = config.networks
    numbers = networks.tokens * networks.token_dim
    encoders = [encoder for report in reports for encoder in report.encoders]
    equal = [
        pair.equal_share
        for report in reports
        for pair in report.agreement
        if pair.equal_share is not None
    ]
    used = [use.entropy_bits for report in reports for use in report.tokens]
    return SweepPoint(
        run=str(run.path),
        numbers=numbers,
        levels=networks.levels,
        bits=numbers * math.log2(networks.levels),
        used_bits=numbers * fmean(used),
        success_rate=fmean(each.success_rate for each in encoders),
        global_success_rate=fmean(each.global_success_rate for each in encoders),
        mpjpe_l_mm=fmean(each.mpjpe_l_mm for each in encoders),
        agreement=fmean(equal) if equal else None,
        step=max(report.step for report in reports),
    )
