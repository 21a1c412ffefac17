"""A prompt-to-policy session as a study: every iteration is a candidate, every policy a run.

A session's claim is about the target, not about an improvement: enough training seeds must prove
the threshold on fresh episodes. The parent is shown beside it, for comparison only: an iteration
may train longer than its parent, so the difference is no claim.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    Selection,
    SessionIteration,
    structure_text,
)
from telic.importers.records import (
    Claim,
    Curve,
    EvidenceSheet,
    ImportedCandidate,
    ImportedRun,
    ImportedStudy,
    ModelCall,
    Ruling,
    began_at,
    budget_of,
    judgement_sheets,
)
from telic.llm.client import REPLIES
from telic.session.branch import origin_of
from telic.session.outcome import OUTCOMES, outcome_words
from telic.session.records import SessionConfig, read_summary, state_of
from telic.storage.files import read_json, read_json_lines, read_record
from telic.storage.layout import (
    IterationFolder,
    MemberFolder,
    RunFolder,
    SessionFolder,
    list_sessions,
)
from telic.storage.reading import file_hash
from telic.storage.scalars import read_rows
from telic.storage.workspace import kind_of
from telic.studies.canonical import candidate_id, content_hash, slug_of
from telic.studies.documents.candidate import (
    CheckResult,
    Expected,
    Hypothesis,
    Origin,
    Override,
    Plan,
)
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.documents.metrics import Extractor, MetricSpec, Primary, Protocol
from telic.studies.evidence.axis import to_series
from telic.studies.evidence.measurement import thinned

METRIC = "score"
_HOUR_S = 3600.0
_TERM = "reward_term_"
_LOGGED = {"episodic_return": "return", "episode_length": "episode_length", "entropy": "entropy"}


class SessionImporter:
    """Sessions as a source of studies."""

    kind = "session"

    def is_one(self, path: Path) -> bool:
        """Say whether a folder holds a session."""
        return kind_of(path) == "session"

    def listed(self, runs_dir: Path) -> list[Path]:
        """Return the folders of all sessions, the newest first."""
        return [folder.path for folder in list_sessions(runs_dir)]

    def read(self, path: Path) -> ImportedStudy:
        """Read a session, finished or not."""
        return _SessionReader(SessionFolder(path)).read()


class _SessionReader:
    """Reads one session."""

    def __init__(self, folder: SessionFolder) -> None:
        self.folder = folder
        self.config = read_record(folder.config, SessionConfig)

    def read(self) -> ImportedStudy:
        """Return the whole study."""
        config, folder = self.config, self.folder
        candidates = [
            self._candidate(number)
            for number in folder.iterations()
            if folder.iteration(number).candidate.is_file()
        ]
        judge = {folder.judge.name: file_hash(folder.judge)} if folder.judge.is_file() else {}
        return ImportedStudy(
            source=SessionImporter.kind,
            name=folder.name,
            path=folder.path,
            task_id=slug_of(f"{config.intent} {config.env}", longest=63),
            study_id=slug_of(folder.name, longest=63),
            kind="reward_loop",
            statement=config.intent,
            success=self._success,
            env_ids=(config.env,),
            spec=MetricSpec(
                primary=Primary(
                    key=METRIC,
                    direction="max",
                    aggregate="last",
                    target=config.threshold,
                    bounds=(0, 1),
                ),
                replication_unit="training_seed",
                guardrails=(),
                no_guardrails_because="what must not happen is part of the judge's score",
                extractor=Extractor(kind="jsonl", path="metrics.jsonl"),
            ),
            protocol=Protocol(
                evaluator_files=judge,
                env_ids=(config.env,),
                episodes=config.episodes,
                deterministic=True,
                checkpoint_selection="last",
            ),
            kinds=("reward_engineering",),
            budget=budget_of(
                wall_clock_h=config.max_hours,
                env_steps=config.max_steps,
                llm_usd=config.max_usd,
                llm_calls=config.max_calls,
            ),
            seeds=config.seeds,
            continues_with=f"telic resume {folder.name}",
            settings=read_json(folder.config),
            candidates=tuple(candidates),
            calls=_calls(folder),
            ended=self._ended(),
        )

    @property
    def _success(self) -> str:
        config = self.config
        return (
            f"{config.needed} of {len(config.seeds)} training seeds prove a score of "
            f"{config.threshold:g}: the lower end of the 95 % interval over {config.episodes} "
            "fresh episodes reaches it"
        )

    def _ended(self) -> str | None:
        state = state_of(self.folder)
        if state not in OUTCOMES:
            return None
        summary = read_summary(self.folder)
        words = outcome_words(summary.outcome, summary.limits)
        reasons = [*summary.reasons, *([summary.reason] if summary.reason else [])]
        return ", ".join([words, *reasons])

    # ------------------------------------------------------------------ an iteration

    def _candidate(self, number: int) -> ImportedCandidate:
        files = self.folder.iteration(number)
        tried = read_record(files.candidate, RewardCandidate)
        judged = read_record(files.judgment, SessionIteration) if files.judgment.is_file() else None
        candidate = ImportedCandidate(
            name=_name(number),
            kind="reward_engineering",
            parents=() if tried.parent is None else (_name(tried.parent),),
            hypothesis=self._hypothesis(tried),
            origin=self._origin(number),
            plan=Plan(
                phases=("short_trial", "promotion") if len(tried.variants) > 1 else ("promotion",),
                seeds={"promotion": self.config.seeds},
                steps=tried.steps,
                promotion_rule=self._success,
            ),
            files={"reward_fn.py": structure_text(tried, judged.variant if judged else 0).encode()},
            overrides=_overrides(tried),
            checks=_checks(files),
            sheets=self._preflight() if number == 1 else (),
        )
        if judged is None:
            return candidate
        candidate = replace(candidate, is_over=True, failure=judged.failure)
        runs = self._runs(files, judged) if number else ()
        if not runs:
            return candidate
        claim, ruling = self._claim(judged, runs), self._ruling(judged)
        return replace(candidate, runs=runs, claim=claim, ruling=ruling)

    def _hypothesis(self, tried: RewardCandidate) -> Hypothesis:
        config, author = self.config, self.folder.author
        aims = ""  # what the author of the first reward was to bring about
        if tried.parent is None and author.is_file():
            aims = "; ".join(criterion["title"] for criterion in read_json(author)["criteria"])
        return Hypothesis(
            statement=f"{tried.change}, aiming for: {aims}" if aims else tried.change,
            mechanism=tried.diagnosis,
            expected=Expected(metric=METRIC, direction="max", magnitude=config.threshold),
            falsifier=f"fewer than {config.needed} of {len(config.seeds)} seeds prove "
            f"{config.threshold:g}",
        )

    def _origin(self, number: int) -> Origin:
        start = origin_of(self.folder) if number == 0 else None
        return Origin(
            engine="telic.session",
            model=self.config.model or "composer",
            imported_from=f"{start.session}, iteration {start.iteration}" if start else None,
        )

    def _preflight(self) -> tuple[EvidenceSheet, ...]:
        if not self.folder.trial.is_file():
            return ()
        examples = read_json(self.folder.trial)
        summary = f"reward and judge on {len(examples.get('examples', ()))} examples"
        return (EvidenceSheet("preflight", examples, "telic.session", summary),)

    def _claim(self, judged: SessionIteration, runs: tuple[ImportedRun, ...]) -> Claim:
        """Return what the session concluded about an iteration."""
        config, members = self.config, judged.members
        problems = {
            "seeds not trained": sorted(set(config.seeds) - {member.seed for member in members}),
            "not judged": [each.member for each in members if each.judgement.score is None],
        }
        lacking = [f"{what}: {', '.join(map(str, x))}" for what, x in problems.items() if x]
        proving = self._proving(judged)
        few = f"{proving} of {len(members)} do; {config.needed} are needed"
        return Claim(
            verdict="target_met" if judged.passed else "target_missed",
            keys=tuple(run.key for run in runs if run.phase == "promotion"),
            against=_name(judged.parent) if judged.parent else None,
            checks=(
                CheckResult(
                    id="T01", passed=not lacking, value=len(members), why="; ".join(lacking)
                ),
                CheckResult(id="T02", passed=True, value=config.episodes),
                CheckResult(
                    id="T03", passed=judged.passed, value=proving, why="" if judged.passed else few
                ),
            ),
            reasons=() if judged.passed else tuple(f"lacking: {tag}" for tag in judged.tags),
        )

    def _ruling(self, judged: SessionIteration) -> Ruling:
        text = (
            f"{self._proving(judged)} of {len(judged.members)} policies prove "
            f"{self.config.threshold:g}; {self.config.needed} are needed"
        )
        if judged.passed:
            return Ruling("accept", f"passed: {text}")
        lacking = f", lacking: {', '.join(judged.tags)}" if judged.tags else ""
        return Ruling("reject", f"not passed: {text}{lacking}")

    def _proving(self, judged: SessionIteration) -> int:
        return sum(member.low >= self.config.threshold for member in judged.members)

    # ------------------------------------------------------------------ its policies

    def _runs(self, files: IterationFolder, judged: SessionIteration) -> tuple[ImportedRun, ...]:
        """Return the short trials of all variants and the full trainings, a run per seed."""
        short_s = read_record(files.selection, Selection).training_s if judged.trials else 0.0
        trial = RunFolder(files.path / "trial")
        # The members of a population share one process: each is charged its part of the time.
        trials = [
            self._run(trial, "short_trial", judged.number, member, short_s / len(judged.trials), ())
            for member in judged.trials
        ]
        full_s = judged.training_s - short_s
        trainings = [
            self._run(
                files.run,
                "promotion",
                judged.number,
                member,
                full_s / len(judged.members),
                _while_training(files, member),
            )
            for member in judged.members
        ]
        return (*trials, *trainings)

    def _run(
        self,
        run: RunFolder,
        phase: Phase,
        number: int,
        member: MemberScore,
        seconds: float,
        scores: Curve,
    ) -> ImportedRun:
        own, hours = MemberFolder(run.path / member.member), seconds / _HOUR_S
        if member.judgement.score is not None:
            scores = (*scores, (float(member.step), member.judgement.score))
        rows = _rows(own, scores)
        manifest = read_json(run.manifest) if run.manifest.is_file() else None
        device = self.config.device
        return ImportedRun(
            key=f"{number}/{phase}/{member.member}",
            began_at=str(manifest["created_at"])
            if manifest
            else began_at(self.folder.name, self.folder.config),
            phase=phase,
            seed=member.seed,
            kind="train",
            primary=member.judgement.score,
            cost=Amounts(
                wall_clock_h=hours,
                gpu_h=None if device == "cpu" else hours,
                env_steps=member.step,
                launches=1,
            ),
            argv=self._command(),
            steps=float(member.step),
            hardware=f"{manifest.get('platform')}; {device}" if manifest else None,
            rows=rows,
            curves={name: thinned(series) for name, series in to_series(rows).items()},
            sheets=judgement_sheets(member.judgement),
            origin=own.path,
        )

    def _command(self) -> tuple[str, ...]:
        config, seeds = self.config, ",".join(map(str, self.config.seeds))
        words = ["telic", "run", config.intent, "--env", config.env, "--seeds", seeds]
        words += ["--iterations", str(config.iterations), "--threshold", f"{config.threshold:g}"]
        words += [] if config.model is None else ["--model", config.model]
        for role, model in config.model_for.items():
            words += ["--model-for", f"{role}={model}"]
        for role, effort in config.effort_for.items():
            words += ["--effort-for", f"{role}={effort}"]
        return tuple(words)


def _name(number: int) -> str:
    return candidate_id(number, f"iteration {number}")


def _calls(folder: SessionFolder) -> tuple[ModelCall, ...]:
    """Return every paid call; a reply that is set aside later keeps its content, hence its key."""
    replies = map(read_json, sorted((folder.path / REPLIES).glob("[!.]*.json")))
    return tuple(
        ModelCall(
            key=content_hash(reply)[:16],
            role=reply["role"],
            model=reply["model"],
            usd=reply["charge"]["usd"],
            tokens=reply["charge"]["tokens"] or None,
        )
        for reply in replies
    )


def _overrides(tried: RewardCandidate) -> dict[str, Override]:
    """Return what is set besides the reward: environment, trainer, and weights to choose from."""
    values: dict[str, Any] = {f"env.{name}": value for name, value in tried.env_args.items()}
    values |= {f"trainer.{name}": value for name, value in tried.settings.items()}
    if len(tried.variants) > 1:
        for place, variant in enumerate(tried.variants):
            values[f"variant {place}"] = variant.model_dump(mode="json")
    return {name: Override(to=value) for name, value in values.items()}


def _checks(files: IterationFolder) -> tuple[CheckResult, ...]:
    """Return what had to hold before training; a session records a candidate only if it did."""
    kept = CheckResult(id="written", passed=files.reward.is_file(), why="the reward was kept")
    if not files.run.config.is_file():
        return (kept,)
    ran = "the reward ran in the confined worker"
    return (kept, CheckResult(id="admitted", passed=True, why=ran))


def _rows(member: MemberFolder, scores: Curve) -> tuple[dict[str, Any], ...]:
    """Return the log of a policy under the names that studies use, judged scores included."""
    rows: list[dict[str, Any]] = []
    for row in read_rows(member.scalars, "train") if member.scalars.is_file() else ():
        names = {old: new for old, new in _LOGGED.items() if old in row}
        names |= {n: f"reward/{n.removeprefix(_TERM)}" for n in row if n.startswith(_TERM)}
        values = {new: float(row[old]) for old, new in names.items() if row[old] is not None}
        rows.append({"step": float(row["global_step"]), **values})
    rows += [{"step": step, "score": score} for step, score in scores]
    return tuple(sorted(rows, key=lambda row: row["step"]))


def _while_training(files: IterationFolder, member: MemberScore) -> Curve:
    """Return what the judge said of a policy at its checkpoints."""
    return tuple(
        (float(row["step"]), float(score))
        for row in read_json_lines(files.checkpoints)
        if (score := row["scores"].get(member.member)) is not None and row["step"] < member.step
    )
