"""A prompt-to-policy session as a study: every iteration is a candidate, every policy a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.importers.claims import session_claim
from telic.importers.records import (
    EvidenceSheet,
    ImportedCandidate,
    ImportedRun,
    ImportedStudy,
    ModelCall,
    Ruling,
)
from telic.importers.session_runs import run_of_training, run_of_trial
from telic.llm.client import REPLIES
from telic.session.branch import origin_of
from telic.session.records import SessionConfig, SessionSummary
from telic.session.state import state_of
from telic.storage.files import read_json, read_record
from telic.storage.layout import IterationFolder, SessionFolder, list_sessions
from telic.storage.workspace import kind_of
from telic.studies.canonical import candidate_id, content_hash, file_hash, slug_of
from telic.studies.documents.candidate import (
    CheckResult,
    Expected,
    Hypothesis,
    Origin,
    Override,
    Plan,
)
from telic.studies.documents.contract import StudyBudget
from telic.studies.documents.metrics import Extractor, MetricSpec, Primary, Protocol

METRIC = "score"
_REWARD = "reward_fn.py"
_COMPOSER = "composer"
_ENDINGS = ("passed", "not_passed", "stopped")


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
        folder = SessionFolder(path)
        config = read_record(folder.config, SessionConfig)
        candidates = [
            _candidate(folder, config, number)
            for number in folder.iterations()
            if folder.iteration(number).candidate.is_file()
        ]
        return ImportedStudy(
            source=self.kind,
            name=folder.name,
            path=path,
            task_id=slug_of(f"{config.intent} {config.env}", longest=63),
            study_id=slug_of(folder.name, longest=63),
            kind="reward_loop",
            statement=config.intent,
            success=_success(config),
            env_ids=(config.env,),
            spec=_spec(config),
            protocol=_protocol(folder, config),
            kinds=("reward_engineering",),
            budget=_budget(config),
            seeds=config.seeds,
            continues_with=f"telic resume {folder.name}",
            settings=read_json(folder.config),
            candidates=tuple(candidates),
            calls=_calls(folder),
            ended=_ended(folder),
        )


def _success(config: SessionConfig) -> str:
    return (
        f"{config.needed} of {len(config.seeds)} training seeds prove a score of "
        f"{config.threshold:g}: the lower end of the 95 % interval over {config.episodes} fresh "
        "episodes reaches it"
    )


def _spec(config: SessionConfig) -> MetricSpec:
    return MetricSpec(
        primary=Primary(
            key=METRIC, direction="max", aggregate="last", target=config.threshold, bounds=(0, 1)
        ),
        replication_unit="training_seed",
        guardrails=(),
        no_guardrails_because="what must not happen is part of the judge's score",
        extractor=Extractor(kind="jsonl", path="metrics.jsonl"),
    )


def _protocol(folder: SessionFolder, config: SessionConfig) -> Protocol:
    judge = {folder.judge.name: file_hash(folder.judge)} if folder.judge.is_file() else {}
    return Protocol(
        evaluator_files=judge,
        env_ids=(config.env,),
        episodes=config.episodes,
        deterministic=True,
        checkpoint_selection="last",
    )


def _budget(config: SessionConfig) -> StudyBudget:
    limits = {
        "wall_clock_h": config.max_hours,
        "env_steps": config.max_steps,
        "llm_usd": config.max_usd,
        "llm_calls": config.max_calls,
    }
    return StudyBudget.model_validate(
        {name: each for name, each in limits.items() if each is not None}
    )


def _calls(folder: SessionFolder) -> tuple[ModelCall, ...]:
    """Return every paid call; a reply that is set aside later keeps its content, hence its key."""
    paths = sorted((folder.path / REPLIES).glob("[!.]*.json"))
    found = [read_json(path) for path in paths]
    return tuple(
        ModelCall(
            key=content_hash(each)[:16],
            role=each["role"],
            model=each["model"],
            usd=each["charge"]["usd"],
            tokens=each["charge"]["tokens"] or None,
        )
        for each in found
    )


def _ended(folder: SessionFolder) -> str | None:
    state = state_of(folder)
    if state not in _ENDINGS:
        return None
    summary = read_record(folder.summary, SessionSummary)
    words = state.replace("_", " ")
    return f"{words}, {summary.reason}" if summary.reason else words


# ---------------------------------------------------------------------------- an iteration


def _candidate(folder: SessionFolder, config: SessionConfig, number: int) -> ImportedCandidate:
    files = folder.iteration(number)
    tried = read_record(files.candidate, RewardCandidate)
    judged = read_record(files.judgment, SessionIteration) if files.judgment.is_file() else None
    runs = () if judged is None or number == 0 else _runs(folder, config, number, judged)
    return ImportedCandidate(
        name=_name(number),
        kind="reward_engineering",
        parents=() if tried.parent is None else (_name(tried.parent),),
        hypothesis=_hypothesis(folder, config, tried),
        origin=_origin(folder, config, number),
        plan=Plan(
            phases=("short_trial", "promotion") if len(tried.variants) > 1 else ("promotion",),
            seeds={"promotion": config.seeds},
            steps=tried.steps,
            promotion_rule=_success(config),
        ),
        files={_REWARD: tried.reward.encode()},
        overrides=_overrides(tried),
        checks=_checks(files),
        sheets=_preflight(folder) if number == 1 else (),
        runs=runs,
        is_over=judged is not None,
        failure=None if judged is None else judged.failure,
        claim=None if judged is None or not runs else session_claim(config, judged, runs, _name),
        ruling=None if judged is None or not runs else _ruling(config, judged),
    )


def _name(number: int) -> str:
    return candidate_id(number, f"iteration {number}")


def _hypothesis(folder: SessionFolder, config: SessionConfig, tried: RewardCandidate) -> Hypothesis:
    aims = _aims(folder) if tried.parent is None else ""
    return Hypothesis(
        statement=f"{tried.change}, aiming for: {aims}" if aims else tried.change,
        mechanism=tried.diagnosis,
        expected=Expected(metric=METRIC, direction="max", magnitude=config.threshold),
        falsifier=f"fewer than {config.needed} of {len(config.seeds)} seeds prove "
        f"{config.threshold:g}",
    )


def _aims(folder: SessionFolder) -> str:
    """Return what the author of the first reward was to bring about."""
    if not folder.author.is_file():
        return ""
    return "; ".join(each["title"] for each in read_json(folder.author)["criteria"])


def _origin(folder: SessionFolder, config: SessionConfig, number: int) -> Origin:
    given = origin_of(folder) if number == 0 else None
    return Origin(
        engine="telic.session",
        model=config.model or _COMPOSER,
        imported_from=None if given is None else f"{given.session}, iteration {given.iteration}",
    )


def _overrides(tried: RewardCandidate) -> dict[str, Override]:
    """Return what is set besides the reward: environment, trainer, and weights to choose from."""
    found: dict[str, Any] = {f"env.{name}": value for name, value in tried.env_args.items()}
    found |= {f"trainer.{name}": value for name, value in tried.settings.items()}
    if len(tried.variants) > 1:
        for place, variant in enumerate(tried.variants):
            found[f"variant {place}"] = variant.model_dump(mode="json")
    return {name: Override(to=value) for name, value in found.items()}


def _checks(files: IterationFolder) -> tuple[CheckResult, ...]:
    """Return what had to hold before training; a session records a candidate only if it did."""
    found = [CheckResult(id="written", passed=files.reward.is_file(), why="the reward was kept")]
    if files.run.config.is_file():
        found.append(
            CheckResult(id="admitted", passed=True, why="the reward ran in the confined worker")
        )
    return tuple(found)


def _preflight(folder: SessionFolder) -> tuple[EvidenceSheet, ...]:
    if not folder.trial.is_file():
        return ()
    examples = read_json(folder.trial)
    said = f"reward and judge on {len(examples.get('examples', ()))} examples"
    return (EvidenceSheet("preflight", examples, "telic.session", said),)


def _runs(
    folder: SessionFolder, config: SessionConfig, number: int, judged: SessionIteration
) -> tuple[ImportedRun, ...]:
    files = folder.iteration(number)
    trials = [run_of_trial(folder, config, files, judged, each) for each in judged.trials]
    full = [run_of_training(folder, config, files, judged, each) for each in judged.members]
    return (*trials, *full)


def _ruling(config: SessionConfig, judged: SessionIteration) -> Ruling:
    proving = sum(each.low >= config.threshold for each in judged.members)
    found = (
        f"{proving} of {len(judged.members)} policies prove {config.threshold:g}; "
        f"{config.needed} are needed"
    )
    if judged.passed:
        return Ruling("accept", f"passed: {found}")
    lacking = f", lacking: {', '.join(judged.tags)}" if judged.tags else ""
    return Ruling("reject", f"not passed: {found}{lacking}")
