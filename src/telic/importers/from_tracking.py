"""A training of motion trackers as a study: its configuration is the candidate, each seed a run.

The claim is about clips that were held out: the share that is followed, over every encoder and
seed, with an interval over clips. A second training is a study of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from telic.core.confidence import proven_mean
from telic.core.stats import bootstrap
from telic.importers.records import (
    Claim,
    EvidenceSheet,
    ImportedCandidate,
    ImportedRun,
    ImportedStudy,
    Ruling,
    began_at,
    budget_of,
)
from telic.storage.files import read_json, read_record
from telic.storage.layout import MemberFolder, RunFolder, list_runs
from telic.studies.canonical import candidate_id, content_hash, slug_of
from telic.studies.documents.candidate import CheckResult, Expected, Hypothesis, Origin, Plan
from telic.studies.documents.contract import Amounts
from telic.studies.documents.metrics import Extractor, MetricSpec, Primary, Protocol
from telic.studies.evidence.claims import ArmSummary
from telic.tracking.reports import TrackingReport, latest_reports, reports_of
from telic.training.job import TrainJob

METRIC = "success_rate"
TARGET = 0.95
"""share of held-out clips that a tracker is to follow"""
_CONFIG = "tracking.json"
_HOUR_S = 3600.0


class TrackingImporter:
    """Trainings of motion trackers as a source of studies."""

    kind = "tracking"

    def is_one(self, path: Path) -> bool:
        """Say whether a folder holds a training of trackers."""
        return (path / _CONFIG).is_file()

    def listed(self, runs_dir: Path) -> list[Path]:
        """Return the folders of all trainings of trackers, the newest first."""
        return [run.path for run in list_runs(runs_dir) if self.is_one(run.path)]

    def read(self, path: Path) -> ImportedStudy:
        """Read a training, finished or not."""
        return _TrackingReader(RunFolder(path)).read()


class _TrackingReader:
    """Reads one training of trackers."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = read_json(folder.path / _CONFIG)
        self.job = read_record(folder.config, TrainJob)
        self.robot: str = self.settings["robot"]["name"]
        self.seeds = tuple(member.seed for member in self.job.members)
        whole_batches = self.job.iterations * self.job.settings.batch_size
        self._steps = whole_batches * len(self.seeds)
        self.summary: dict[str, Any] | None = (
            read_json(folder.summary) if folder.summary.is_file() else None
        )

    def read(self) -> ImportedStudy:
        """Return the whole study."""
        folder, evaluation = self.folder, self.settings["evaluation"]
        return ImportedStudy(
            source=TrackingImporter.kind,
            name=folder.name,
            path=folder.path,
            task_id=slug_of(f"follow motions {self.robot}", longest=63),
            study_id=slug_of(folder.name, longest=63),
            kind="tracking",
            statement=f"{self.robot} follows reference motions, whoever tells them",
            success=f"{TARGET:.0%} of held-out clips are followed to their end, over every encoder",
            env_ids=(self.job.env,),
            spec=MetricSpec(
                primary=Primary(
                    key=METRIC, direction="max", aggregate="last", target=TARGET, bounds=(0, 1)
                ),
                replication_unit="motion_clip",
                guardrails=(),
                no_guardrails_because="a robot that falls, or stays behind, does not follow",
                extractor=Extractor(kind="jsonl", path="metrics.jsonl"),
            ),
            protocol=Protocol(
                env_ids=(self.job.env,),
                env_config_hash=content_hash({**evaluation, "motions": self.settings["motions"]}),
                # of each clip: one by every encoder
                episodes=len(self.settings["networks"]["encoders"]),
                deterministic=True,
                checkpoint_selection="last",
            ),
            kinds=("config",),
            budget=budget_of(env_steps=float(self._steps)),
            seeds=self.seeds,
            continues_with=f"telic resume {folder.name}",
            settings=self.settings,
            candidates=(self._candidate(),),
            ended=None if self.summary is None else str(self.summary["status"]),
        )

    def _candidate(self) -> ImportedCandidate:
        preset: str = self.settings["preset"]
        runs = tuple(run for member in self.folder.members() if (run := self._run(member)))
        is_over = self.summary is not None and len(runs) == len(self.seeds)
        claim = self._claim(runs) if is_over else None
        encoders = ", ".join(self.settings["networks"]["encoders"])
        return ImportedCandidate(
            name=candidate_id(1, f"{preset} tracker"),
            kind="config",
            parents=(),
            hypothesis=Hypothesis(
                statement=f"one policy follows what {encoders} tell it through the same tokens",
                expected=Expected(metric=METRIC, direction="max", magnitude=TARGET),
                falsifier=f"less than {TARGET:.0%} of held-out clips are followed",
            ),
            origin=Origin(engine="telic.track"),
            plan=Plan(phases=("promotion",), seeds={"promotion": self.seeds}, steps=self.job.steps),
            files={_CONFIG: json.dumps(self.settings, indent=2, sort_keys=True).encode()},
            runs=runs,
            is_over=is_over,
            claim=claim,
            ruling=None if claim is None else _ruling(claim),
        )

    # ------------------------------------------------------------------ a seed

    def _run(self, member: MemberFolder) -> ImportedRun | None:
        """Return the training of one seed; None: it has not ended."""
        reports = reports_of(member)
        if self.summary is None or not member.summary.is_file() or not reports:
            return None
        last = reports[-1]
        seed = next(each.seed for each in self.job.members if each.name == member.name)
        rows = tuple(_row(report) for report in reports)
        seconds = float(self.summary["training_time_s"])
        facts = last.model_dump(mode="json", exclude={"clips", "schema_version"})
        facts["not_followed"] = [f"{c.clip} ({c.encoder})" for c in last.clips if not c.success]
        told = f"{last.success_rate:.0%} of {len(last.clips)} plays of {last.split} clips followed"
        return ImportedRun(
            key=member.name,
            began_at=began_at(self.folder.name, self.folder.config),
            phase="promotion",
            seed=seed,
            kind="train",
            primary=last.success_rate,
            # Seeds that train together share a process: each is charged its part of the time.
            cost=Amounts(
                wall_clock_h=seconds / _HOUR_S / len(self.seeds), env_steps=last.step, launches=1
            ),
            argv=("telic", "track", "train", "--preset", self.settings["preset"]),
            steps=float(last.step),
            rows=rows,
            curves={
                key: tuple((float(row["step"]), float(row[key])) for row in rows)
                for key in rows[0]
                if key != "step"
            },
            sheets=(EvidenceSheet("eval", facts, "telic.track", told),),
            origin=member.path,
        )

    def _claim(self, runs: tuple[ImportedRun, ...]) -> Claim:
        """Return what held-out clips prove, each a mean of its plays: a few prove little."""
        plays: dict[str, list[float]] = {}
        reports = latest_reports(self.folder)
        for report in reports:
            for clip in report.clips:
                plays.setdefault(clip.clip, []).append(float(clip.success))
        shares = [fmean(own) for own in plays.values()]
        low = proven_mean(shares)
        is_held_out = all(report.split != "train" for report in reports)
        is_met = low >= TARGET and is_held_out
        why = f"{len(shares)} clips prove at least {low:.0%}; the target is {TARGET:.0%}"
        unseen = () if is_held_out else ("no clip was held out: it was measured on its own",)
        return Claim(
            verdict="target_met" if is_met else "target_missed",
            keys=tuple(run.key for run in runs),
            against=None,
            checks=(
                CheckResult(id="T02", passed=True, value=len(shares)),
                CheckResult(id="T04", passed=is_met, value=low, why="" if is_met else why),
            ),
            reasons=unseen,
            measured=ArmSummary(
                n=len(shares),
                seeds=self.seeds,
                runs=(),
                scores=tuple(shares),
                iqm=fmean(shares),
                ci=bootstrap(shares),
            ),
        )


def _row(report: TrackingReport) -> dict[str, Any]:
    """Return a line of the log: what was measured after so many steps."""
    row: dict[str, Any] = {"step": report.step, METRIC: report.success_rate}
    for each in report.encoders:
        row[f"{METRIC}/{each.encoder}"] = each.success_rate
        row[f"mpjpe_l_mm/{each.encoder}"] = each.mpjpe_l_mm
    for pair in report.agreement:
        if pair.equal_share is not None:
            row[f"equal_codes/{pair.one}/{pair.other}"] = pair.equal_share
    return row


def _ruling(claim: Claim) -> Ruling:
    assert claim.measured is not None
    followed = f"{fmean(claim.measured.scores):.0%} of {claim.measured.n} held-out clips"
    if claim.verdict == "target_met":
        return Ruling("accept", f"passed: {followed} are followed")
    why = claim.reasons[0] if claim.reasons else claim.checks[-1].why
    return Ruling("reject", f"not passed: {followed} are followed; {why}")
