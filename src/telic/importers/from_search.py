"""A policy search as a study: each repetition is a search candidate that holds its trials.

The trial that a repetition keeps is promoted to a candidate of its own, measured on fresh episodes;
the best of those is what the study trusts.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from telic.errors import UsageError
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
)
from telic.search.records import (
    SearchConfig,
    SearchFolder,
    SearchIteration,
    SearchRunFolder,
    SearchRunSummary,
    SearchSummary,
    list_searches,
)
from telic.search.records import SearchProtocol as Terms
from telic.storage.files import read_json, read_record
from telic.studies.canonical import candidate_id, content_hash, slug_of
from telic.studies.documents.candidate import CheckResult, Expected, Hypothesis, Origin, Plan
from telic.studies.documents.contract import Amounts
from telic.studies.documents.metrics import Extractor, MetricSpec, Primary, Protocol
from telic.studies.evidence.claims import ArmSummary

METRIC = "return"
_HOUR_S = 3600.0
_SHOWN = 6


class SearchImporter:
    """Policy searches as a source of studies."""

    kind = "search"

    def is_one(self, path: Path) -> bool:
        """Say whether a folder holds a search."""
        return (path / "search.json").is_file()

    def listed(self, runs_dir: Path) -> list[Path]:
        """Return the folders of all searches, the newest first."""
        return [folder.path for folder in list_searches(runs_dir)]

    def read(self, path: Path) -> ImportedStudy:
        """Read a search, finished or not."""
        return _SearchReader(SearchFolder(path)).read()


class _SearchReader:
    """Reads one search; everything it knows is read once."""

    def __init__(self, folder: SearchFolder) -> None:
        self.folder = folder
        self.config = read_record(folder.config, SearchConfig)
        if not folder.manifest.is_file():
            raise UsageError(
                f"{folder.name} has not begun: it holds a request and nothing else.",
                hint="Start it with telic search, then tell of it.",
            )
        # Hashes are taken of what is on disk: a later telic may know more fields.
        self.written_terms = read_json(folder.manifest)["protocol"]
        self.terms = Terms.model_validate(self.written_terms)

    def read(self) -> ImportedStudy:
        """Return the whole study."""
        config, folder = self.config, self.folder
        logs = {number: list(folder.run(number).read()) for number in range(1, config.runs + 1)}
        searches = [self._search(number, log) for number, log in logs.items()]
        return ImportedStudy(
            source=SearchImporter.kind,
            name=folder.name,
            path=folder.path,
            task_id=slug_of(config.env, longest=63),
            study_id=slug_of(f"{config.method} {folder.name}", longest=63),
            kind="policy_search",
            statement=f"the highest return in {config.env}",
            success=f"a return of {self.terms.target:g} on fresh episodes",
            env_ids=(config.env,),
            spec=MetricSpec(
                primary=Primary(
                    key=METRIC, direction="max", aggregate="last", target=self.terms.target
                ),
                replication_unit="eval_episode",
                guardrails=(),
                no_guardrails_because="a search looks at the return alone",
                extractor=Extractor(kind="jsonl", path="metrics.jsonl"),
            ),
            protocol=Protocol(
                env_ids=(config.env,),
                env_config_hash=content_hash(self.written_terms),
                episodes=config.fresh_episodes,
                horizon=self.terms.limit,
                deterministic=True,
                checkpoint_selection="best_on_validation",
            ),
            kinds=("policy_search",),
            budget=budget_of(llm_usd=config.max_usd, llm_calls=config.max_calls),
            seeds=tuple(logs),
            continues_with=" ".join(self._command()),
            settings=read_json(folder.config),
            candidates=(*searches, *self._promoted(logs)),
            calls=_model_calls(logs),
            trials_at_most=config.runs * config.episodes,
            ended=read_record(folder.summary, SearchSummary).outcome
            if folder.summary.is_file()
            else None,
        )

    # ------------------------------------------------------------------ one repetition

    def _search(self, number: int, log: list[SearchIteration]) -> ImportedCandidate:
        config = self.config
        summary = _summary(self.folder.run(number))
        runs = () if summary is None else (self._search_run(number, log, summary),)
        return ImportedCandidate(
            name=_search_name(number),
            kind="policy_search",
            parents=(),
            hypothesis=Hypothesis(
                statement=f"{config.method} finds a {self.terms.policy} policy within "
                f"{config.episodes:,} episodes",
                expected=Expected(metric=METRIC, direction="max", magnitude=self.terms.target),
                falsifier=f"its best policy returns less than {self.terms.target:g} on fresh "
                "episodes",
            ),
            origin=Origin(engine=f"telic.search.{config.method}", model=config.model),
            plan=Plan(phases=("short_trial",), seeds={"short_trial": (number,)}),
            runs=runs,
            is_over=summary is not None,
            trials=tuple(_trial_lines(log)),
        )

    def _search_run(
        self, number: int, log: list[SearchIteration], summary: SearchRunSummary
    ) -> ImportedRun:
        curve: Curve = tuple((float(entry.steps), entry.incumbent_mean) for entry in log)
        facts = summary.model_dump(mode="json", exclude={"best", "fresh", "schema_version"})
        facts = {"statistics": facts, "trials_hash": content_hash(_trial_lines(log))}
        text = f"{summary.candidates} trials, {summary.episodes} episodes"
        return ImportedRun(
            key=f"run/{number}",
            began_at=began_at(self.folder.name, self.folder.config),
            phase="short_trial",
            seed=number,
            kind="search",
            primary=log[-1].incumbent_mean if log else None,
            cost=Amounts(
                wall_clock_h=summary.seconds / _HOUR_S, env_steps=summary.steps, launches=1
            ),
            argv=self._command(),
            steps=float(summary.steps),
            rows=tuple({"step": step, METRIC: value} for step, value in curve),
            curves={METRIC: curve},
            sheets=(EvidenceSheet("trajectory", facts, "telic.search", text),),
            origin=self.folder.run(number).path,
        )

    # ------------------------------------------------------------------ the policies that are kept

    def _promoted(self, logs: dict[int, list[SearchIteration]]) -> list[ImportedCandidate]:
        best = -math.inf
        policies: list[ImportedCandidate] = []
        for number, log in logs.items():
            summary = _summary(self.folder.run(number))
            if summary is None or not log:
                # Whether a later one is the best is known once those before it are.
                break
            is_best = not policies or summary.fresh.mean > best
            best = summary.fresh.mean if is_best else best
            policies.append(self._policy(number, log, summary, is_best=is_best))
        return policies

    def _policy(
        self, number: int, log: list[SearchIteration], summary: SearchRunSummary, *, is_best: bool
    ) -> ImportedCandidate:
        trials = (trial for entry in log for trial in entry.candidates)
        kept = next(trial for trial in trials if trial.number == log[-1].incumbent)
        run = self._fresh_run(number, summary)
        claim = self._claim(run, summary)
        return ImportedCandidate(
            name=candidate_id(self.config.runs + number, f"best of run {number}"),
            kind="policy_search",
            parents=(_search_name(number),),
            hypothesis=Hypothesis(
                statement=f"trial {kept.number} of run {number} ({kept.origin}), after best means "
                f"of {_best_in_turn(log)}, does as well on episodes it was not chosen by",
                mechanism=kept.explanation,
                expected=Expected(metric=METRIC, direction="max", magnitude=log[-1].incumbent_mean),
                falsifier=f"it returns less than {self.terms.target:g} on fresh episodes",
            ),
            origin=Origin(engine=f"telic.search.{kept.origin}", model=self.config.model),
            plan=Plan(phases=("promotion",), seeds={"promotion": (number,)}),
            params=summary.best,
            runs=(run,),
            is_over=True,
            claim=claim,
            ruling=_keep_best(summary, claim, is_best=is_best),
        )

    def _fresh_run(self, number: int, summary: SearchRunSummary) -> ImportedRun:
        fresh = summary.fresh
        text = f"{fresh.mean:.4g} over {fresh.episodes} fresh episodes"
        return ImportedRun(
            key=f"fresh/{number}",
            began_at=began_at(self.folder.name, self.folder.config),
            phase="promotion",
            seed=number,
            kind="eval",
            primary=fresh.mean,
            cost=Amounts(launches=1),
            argv=self._command(),
            sheets=(EvidenceSheet("eval", fresh.model_dump(mode="json"), "telic.search", text),),
            origin=self.folder.run(number).path,
        )

    def _claim(self, run: ImportedRun, summary: SearchRunSummary) -> Claim:
        fresh, target = summary.fresh, self.terms.target
        low = fresh.mean if fresh.low is None else fresh.low
        interval = None if fresh.low is None or fresh.high is None else (fresh.low, fresh.high)
        is_met = low >= target
        return Claim(
            verdict="target_met" if is_met else "target_missed",
            keys=(run.key,),
            against=None,
            checks=(
                CheckResult(id="T02", passed=True, value=fresh.episodes),
                CheckResult(
                    id="T04",
                    passed=is_met,
                    value=low,
                    why="" if is_met else f"it ends at {low:.4g}; the target is {target:g}",
                ),
            ),
            reasons=() if is_met else (f"{fresh.success:.0%} of fresh episodes count as solved",),
            measured=ArmSummary(
                n=fresh.episodes,
                seeds=(run.seed,),
                runs=(),
                scores=(fresh.mean,),
                iqm=fresh.mean,
                ci=interval,
            ),
        )

    def _command(self) -> tuple[str, ...]:
        config = self.config
        words = ["telic", "search", "--env", config.env, "--method", config.method]
        words += ["--runs", str(config.runs), "--episodes", str(config.episodes)]
        return (*words, "--seed", str(config.seed))


def _search_name(number: int) -> str:
    return candidate_id(number, f"search run {number}")


def _summary(run: SearchRunFolder) -> SearchRunSummary | None:
    return read_record(run.summary, SearchRunSummary) if run.summary.is_file() else None


def _keep_best(summary: SearchRunSummary, claim: Claim, *, is_best: bool) -> Ruling | None:
    """Return the decision to keep the best; one that is as good as needed is left as it is."""
    text = f"{summary.fresh.mean:.4g} on {summary.fresh.episodes} fresh episodes"
    if is_best:
        return Ruling("accept", f"kept: {text}, the best so far")
    if claim.verdict == "target_met":
        return None
    return Ruling("reject", f"not kept: {text}, no better than what was kept before")


# ---------------------------------------------------------------------------- its trials


def _trial_lines(log: list[SearchIteration]) -> list[dict[str, Any]]:
    """Return a line per trial; a second try is the child of the first of its iteration."""
    rows: list[dict[str, Any]] = []
    for iteration in log:
        firsts = [trial.number for trial in iteration.candidates if trial.place == "first"]
        orders = [call.key for call in iteration.calls]
        for trial in iteration.candidates:
            is_child = trial.place == "second" and firsts
            rows.append(
                {
                    "n": trial.number,
                    "iteration": iteration.number,
                    "parent": firsts[0] if is_child else None,
                    "params_hash": content_hash(list(trial.params)),
                    "score": trial.mean,
                    "episodes": len(trial.tried.returns),
                    "work_order": orders[-1] if orders else None,
                    "kept": trial.number == iteration.selected,
                }
            )
    return rows


def _best_in_turn(log: list[SearchIteration]) -> str:
    """Return the means of the trials that were the best so far, first to last."""
    means = {entry.incumbent: entry.incumbent_mean for entry in log}
    shown = [f"{mean:.4g}" for mean in means.values()]
    if len(shown) > _SHOWN:
        shown = [*shown[:2], "…", *shown[2 - _SHOWN :]]
    return " → ".join(shown)


def _model_calls(logs: dict[int, list[SearchIteration]]) -> tuple[ModelCall, ...]:
    """Return every question to a model; keys are the same whenever the search is told."""
    return tuple(
        ModelCall(
            key=f"{number}/{each.number}/{place}/{call.key}",
            role=call.role,
            model=call.model,
            usd=call.price_usd,
            tokens=None
            if call.input_tokens is None or call.output_tokens is None
            else call.input_tokens + call.output_tokens,
        )
        for number, log in logs.items()
        for each in log
        for place, call in enumerate(each.calls)
    )
