"""The parts of tracking for `telic.loop`: train a tracker for each configuration, and measure it.

One configuration is a plain training; several with other token sizes are a sweep of accuracy over
bits. Each is a run with a name; the journal says which are finished.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from telic.core.events import Listener
from telic.errors import UsageError
from telic.loop import Loop
from telic.storage.files import read_record
from telic.storage.journal import Journal
from telic.storage.layout import RunFolder
from telic.tracking.config import TrackingConfig
from telic.tracking.reports import SweepPoint, TrackingReport, latest_reports
from telic.tracking.train import (
    TrackingOptions,
    check_schedules,
    read_config,
    run_name,
    train_tracker,
)
from telic.training.folder import read_result
from telic.training.job import TrainJob
from telic.training.run import Run


class _Stopped(Exception):
    """A training was asked to stop: it has no verdict yet."""


class TrackerParts:
    """What tracking does in each step of the loop."""

    candidate_type, verdict_type = TrackingConfig, SweepPoint

    def __init__(
        self,
        configs: Mapping[str, TrackingConfig],
        runs_dir: Path,
        options: TrackingOptions,
        on_point: Callable[[list[SweepPoint]], None],
    ) -> None:
        """Prepare to train; see `train_trackers`."""
        self.points: list[SweepPoint] = []
        self._configs, self._runs_dir, self._options = list(configs.items()), runs_dir, options
        self._on_point = on_point

    def propose(self, number: int) -> TrackingConfig | None:
        """Return the next configuration."""
        if number > len(self._configs):
            return None
        check_schedules(self._configs[number - 1][1])
        return self._configs[number - 1][1]

    def check(self, number: int, candidate: TrackingConfig) -> None:
        """Refuse to mix trackers of other settings under one name."""
        name, config = self._configs[number - 1]
        if candidate != config:
            raise UsageError(
                f"{self._runs_dir / name} holds a tracker with other settings.",
                hint="Choose another --name, or --fresh.",
            )

    def run(self, number: int, candidate: TrackingConfig) -> RunFolder:
        """Train a tracker, or resume its training."""
        name, options = self._configs[number - 1][0], self._options
        if options.should_stop():
            raise _Stopped
        run = train_tracker(candidate, self._runs_dir, options._replace(name=name))
        if run.status != "completed":
            raise _Stopped
        return RunFolder(run.path)

    def judge(self, number: int, candidate: TrackingConfig, result: RunFolder) -> SweepPoint:
        """Return how well the members of the run track held-out clips."""
        return measured_point(result, candidate, latest_reports(result))

    def decide(self, number: int, candidate: TrackingConfig, verdict: SweepPoint) -> None:
        """Keep the result and continue with the next configuration."""
        self.check(number, candidate)
        self.points.append(verdict)
        self._on_point(self.points)


def train_trackers(
    configs: Mapping[str, TrackingConfig],
    runs_dir: Path,
    options: TrackingOptions,
    journal: Path,
    on_point: Callable[[list[SweepPoint]], None] = lambda points: None,
) -> list[SweepPoint]:
    """Train a tracker for each configuration, and return the results of those that are finished.

    Args:
        configs: by the name of their run.
        runs_dir: where the runs go.
        options: how to train; its `should_stop` ends the loop between and within trainings.
        journal: the file that says what is finished.
        on_point: called with the results so far after each one.
    """
    if options.fresh:
        journal.unlink(missing_ok=True)
    parts = TrackerParts(configs, runs_dir, options, on_point)
    with contextlib.suppress(_Stopped):
        Loop(Journal(journal, f"tracking {journal.stem}"), parts).run()
    return parts.points


def train_one(config: TrackingConfig, runs_dir: Path, options: TrackingOptions) -> Run:
    """Train trackers of one configuration, or resume the same training."""
    folder = RunFolder(runs_dir / run_name(config, runs_dir, options))
    journal = folder.path / "journal.jsonl"
    train_trackers({folder.name: config}, runs_dir, options, journal)
    return Run(folder.path, read_result(folder))


def resume_tracker(run: RunFolder, on_event: Listener, should_stop: Callable[[], bool]) -> Run:
    """Resume an interrupted training as it was requested."""
    job = read_record(run.config, TrainJob)
    options = TrackingOptions(
        seeds=[member.seed for member in job.members],
        name=run.name,
        device=job.device,
        threads=job.threads,
        evaluations=job.evaluations,
        on_event=on_event,
        should_stop=should_stop,
        save_every_s=job.save_every_s,
    )
    return train_one(read_config(run), run.path.parent, options)


def token_sizes(
    config: TrackingConfig, prefix: str, dims: Sequence[int], levels: Sequence[int]
) -> dict[str, TrackingConfig]:
    """Return a configuration by name for every token size, small ones first."""
    networks = config.networks
    sizes = {
        (dim, n) for dim in dims or (networks.token_dim,) for n in levels or (networks.levels,)
    }
    return {
        f"{prefix}-{dim}x{n}": config.model_copy(
            update={"networks": networks.replace(token_dim=dim, levels=n)}
        )
        for dim, n in sorted(sizes, key=lambda size: size[0] * math.log2(size[1]))
    }


def measured_point(
    run: RunFolder, config: TrackingConfig, reports: Sequence[TrackingReport]
) -> SweepPoint:
    """Return the means over the members of a run."""
    if not reports:
        raise UsageError(f"{run.path} was never evaluated.", hint="Train it again with --fresh.")
    networks = config.networks
    numbers = networks.tokens * networks.token_dim
    encoders = [encoder for report in reports for encoder in report.encoders]
    pairs = [pair.equal_share for report in reports for pair in report.agreement]
    equal = [share for share in pairs if share is not None]
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
