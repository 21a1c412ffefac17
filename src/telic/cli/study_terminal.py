"""What people write on a terminal about studies: options for a candidate, one word for all runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.request import argument, option
from telic.core.text import integers, is_dict, pairs, texts
from telic.core.verb import verb
from telic.errors import ConfigError, UsageError
from telic.studies.documents.candidate import KilledBy
from telic.verbs import study_runs
from telic.verbs.study import PersonRequest, StudyRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.candidates import Attachments
    from telic.studies.documents.candidate import Candidate
    from telic.studies.launch.attempt import LaunchRequest
    from telic.studies.launch.launch import LaunchResult
    from telic.studies.study import Study

_LOOK_EVERY_S = 0.5

# ---------------------------------------------------------------------------- candidates


class PlanOptions(StudyRequest):
    """What running a candidate takes."""

    steps: int | None = option("Steps of a full training.", default=None)
    est: Sequence[str] = option("What it costs: gpu_h=2.", default=(), many=True)

    def plan(self, seeds: Sequence[str] = ()) -> dict[str, Any]:
        """Return the plan that the options say; what is left out is None."""
        phases = {
            phase: integers(text, "--seeds") for phase, text in texts(seeds, "--seeds").items()
        }
        cost = pairs(self.est, "--est")
        return {"steps": self.steps, "est": cost or None, "seeds": phases or None}


class ChangeOptions(PlanOptions):
    """A change: a draft file, and options laid over it."""

    draft: Path | None = option(
        "YAML or JSON with parts of the candidate; options win.", default=None
    )
    sets: Sequence[str] = option("Parameter: path=value.", "--set", default=(), many=True)
    was: Sequence[str] = option("Its value before: path=value.", "--was", default=(), many=True)
    patch: Path | None = option("Unified diff against the base commit.", default=None)
    files: Sequence[str] = option(
        "New content: path/in/repo=path/of/file.", "--file", default=(), many=True
    )
    seeds: Sequence[str] = option("phase=1,2,3 or phase=1-5.", default=(), many=True)

    def values(self) -> dict[str, Any]:
        """Return the parts of the candidate that the file and the options hold."""
        from telic.studies.documents.base import read_yaml

        values: Any = {} if self.draft is None else read_yaml(self.draft)
        if not is_dict(values):
            raise ConfigError(f"{self.draft} does not hold keys and values.")
        new, old = pairs(self.sets, "--set"), pairs(self.was, "--was")
        changed = {path: {"from": old.get(path), "to": value} for path, value in new.items()}
        _lay_over(values, "change", {"overrides": changed or None})
        _lay_over(values, "plan", self.plan(self.seeds))
        return values

    def attachments(self) -> Attachments:
        """Return the files that come along."""
        from telic.studies.candidates import Attachments

        named = {path: Path(source) for path, source in texts(self.files, "--file").items()}
        return Attachments(patch=self.patch, files=named)


class NewOptions(ChangeOptions):
    """A new idea, in options."""

    title: str = argument("A few words; they become part of the id.")
    kind: str | None = option("config, reward_tuning, code, …", default=None)
    because: str = option("What you think will happen.", default="")
    mechanism: str = option("Why it should.", default="")
    expects: str | None = option("metric:max or metric:min:0.1.", default=None)
    falsifier: str = option("What would show that it is wrong.", default="")
    evidence: Sequence[str] | None = option(
        "What motivated it.", "--evidence", default=None, many=True
    )
    parents: Sequence[str] | None = option(
        "Candidate it comes from.", "--parent", default=None, many=True
    )

    def hypothesis(self) -> dict[str, Any]:
        """Return the hypothesis that the options say; `expects` is metric:direction:size."""
        expected = None
        if self.expects is not None:
            metric, _, rest = self.expects.partition(":")
            direction, _, size = rest.partition(":")
            magnitude = _number(size) if size else None
            expected = {"metric": metric, "direction": direction or "max", "magnitude": magnitude}
        return {
            "statement": self.because,
            "mechanism": self.mechanism,
            "expected": expected,
            "falsifier": self.falsifier,
        }


class ReviseOptions(ChangeOptions):
    """A change of a candidate, in options."""

    candidate: str = argument("Candidate, e.g. c-0003-more-tracking.")
    base_revision: int | None = option(
        "The revision you changed; refused if it is not the last.", default=None
    )


class WrittenCandidate(NamedTuple):
    """A candidate that was written, and what comes next."""

    candidate: Candidate
    following: str

    def as_data(self) -> dict[str, Any]:
        """Return the candidate."""
        return self.candidate.as_data()


_EXAMPLES = """
telic study candidate new "more tracking" --kind reward_tuning --set reward.weight=2.0
--was reward.weight=1.0 --because "..." --mechanism "..." --expects success:max
--falsifier "success does not rise by 0.02" --evidence e-0123456789ab --est gpu_h=2

telic study candidate new "new term" --draft idea.yaml --patch change.diff

telic study candidate validate c-0003-more-tracking
"""


@study_verb(NewOptions, examples=_EXAMPLES)
def new(request: NewOptions) -> WrittenCandidate:
    """Write a new draft; what you leave open is filled in from the contract."""
    from telic.studies.candidates import new_candidate

    values = request.values()
    parts = {"kind": request.kind, "parents": request.parents, "evidence_refs": request.evidence}
    values |= {key: value for key, value in parts.items() if value is not None}
    _lay_over(values, "hypothesis", request.hypothesis())
    candidate = new_candidate(
        request.open(), request.title, values, request.who, request.attachments()
    )
    return WrittenCandidate(candidate, f"Next: telic study candidate validate {candidate.id}")


@study_verb(PlanOptions)
def baseline(request: PlanOptions) -> WrittenCandidate:
    """Write the baseline: the repository as it is, measured with the contract's seeds."""
    from telic.studies.candidates import new_candidate

    values: dict[str, Any] = {"kind": "baseline"}
    _lay_over(values, "plan", request.plan())
    candidate = new_candidate(request.open(), "baseline", values, request.who)
    return WrittenCandidate(candidate, f"Next: telic study candidate validate {candidate.id}")


@study_verb(ReviseOptions)
def revise(request: ReviseOptions) -> WrittenCandidate:
    """Write a new revision of a draft, or mend a candidate in debug; earlier revisions stay."""
    from telic.studies.candidates import revise_candidate

    candidate = revise_candidate(
        request.open(),
        request.candidate,
        request.values(),
        request.who,
        base_revision=request.base_revision,
        attachments=request.attachments(),
    )
    return WrittenCandidate(candidate, f"revision {candidate.revision}")


def _lay_over(values: dict[str, Any], part: str, options: dict[str, Any]) -> None:
    """Lay what the options say over a part of the draft; what is None or empty was not said."""
    said = {key: value for key, value in options.items() if value not in (None, "")}
    if said:
        values[part] = {**(values.get(part) or {}), **said}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'"{text}" is not a number.', hint="Write metric:max:0.1.") from None


def _context(request: StudyRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ("root", "actor", "task", "study")}


# ---------------------------------------------------------------------------- runs


class RunOptions(PersonRequest):
    """Everything about runs under one word."""

    candidate: str | None = argument("Candidate to launch.", default=None)
    phase: str | None = option("Phase; the one the candidate is in if left out.", default=None)
    seed: int | None = option("Seed; the next one of the phase if left out.", default=None)
    execute: bool = option("Really start it.", "--execute", default=False)
    confirm: str | None = option("The word RUN_CANDIDATE.", default=None)
    expect: str | None = option(
        "First digits of the content hash that you have seen.", default=None
    )
    gpu: int | None = option("GPU to take, one of the contract's.", default=None)
    retry_of: str | None = option("The lost or preempted run that this one repeats.", default=None)
    wait: bool = option("Stay until the run has ended and measure it.", "--wait", default=False)
    reconcile: bool = option(
        "Start nothing; settle what ended or vanished.", "--reconcile", default=False
    )
    stop: str | None = option("Start nothing; end this run.", default=None)
    stopped_by: KilledBy = option(
        "With --stop: user, stop_rule, monitor, budget or preempted.",
        default="user",
        what="reason to stop",
    )
    because: str = option("With --stop: why.", default="asked to stop")


class StartedRun(NamedTuple):
    """A run that was started, and what it is now."""

    launched: LaunchResult
    status: str
    why: str
    waited: bool

    def as_data(self) -> dict[str, Any]:
        """Return the launch with how the run stands."""
        return {**self.launched.model_dump(mode="json"), "status": self.status, "why": self.why}


RunAnswer = StartedRun | study_runs.GateLook | study_runs.SettledRuns | study_runs.StoppedRun


def _exit_code(answer: RunAnswer) -> int:
    return 3 if isinstance(answer, study_runs.GateLook) and not answer.open else 0


@verb(RunOptions, exit_code=_exit_code)
def run(request: RunOptions) -> RunAnswer:
    """Show what a launch would start and which gates are open; with --execute, start it.

    To start: --execute --confirm RUN_CANDIDATE. Exit codes: 0 open or started, 2 wrong usage,
    3 a gate is shut, 4 validation, 5 integrity, 7 budget, 8 this machine lacks something.
    """
    from telic.studies.launch.attempt import check_words, next_request
    from telic.studies.launch.launch import look
    from telic.studies.launch.recovery import reconcile

    check_words(request.execute, request.confirm)
    if request.stop is not None:
        return study_runs.stop_run(
            request.stop, because=request.because, by=request.stopped_by, **_context(request)
        )
    study = request.open()
    if request.reconcile:
        return study_runs.SettledRuns(runs=tuple(reconcile(study, processes=True)))
    if request.candidate is None:
        raise UsageError("Which candidate?", hint="Name one, or use --reconcile or --stop RUN.")
    launch_request = next_request(study, request.candidate, request.phase, request.seed)._replace(
        execute=request.execute,
        confirm=request.confirm,
        expect=request.expect,
        gpu=request.gpu,
        retry_of=request.retry_of,
    )
    if not request.execute:
        gates = look(study, launch_request)
        return study_runs.GateLook(open=gates.is_open, look=gates)
    return _start(request, study, launch_request)


def _start(request: RunOptions, study: Study, launch_request: LaunchRequest) -> StartedRun:
    """Launch, and stay until the run has ended where that was asked for."""
    from telic.studies.documents.candidate import RunStatus
    from telic.studies.launch.launch import launch
    from telic.studies.launch.recovery import reconcile
    from telic.studies.rules.stops import ingest

    launched = launch(study, launch_request, request.who)
    while request.wait and study.state.runs[launched.run].is_live:
        time.sleep(_LOOK_EVERY_S)
        reconcile(study, processes=True)
    state = study.state.runs[launched.run]
    if request.wait and state.status == RunStatus.FINISHED:
        ingest(study, launched.run, request.who)
    return StartedRun(launched, str(state.status), state.why, request.wait)
