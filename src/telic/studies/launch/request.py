"""What somebody asks to be launched, and what follows for one run: seed, cost, command, time."""

from __future__ import annotations

from typing import NamedTuple

from telic.errors import UnknownName
from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.documents.candidate import Plan
from telic.studies.documents.contract import PHASE_SHARE, PHASES, RESOURCES, Amounts, Phase
from telic.studies.documents.runs import RunStatus
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.study import Study

TOKEN = "RUN_CANDIDATE"
ARTEFACTS = "artefacts"
"""folder inside the run folder that belongs to the training; {run_dir} of its command"""
SMOKE_TIMEOUT_S = 300.0
_AGAIN = (RunStatus.ABORTED, RunStatus.LOST)


class LaunchRequest(NamedTuple):
    """One run to be: a candidate, a phase, a seed, and whether it is meant."""

    candidate: str
    phase: Phase
    seed: int
    execute: bool = False
    confirm: str | None = None
    expect: str | None = None
    """first digits of the content hash that the caller has seen"""
    gpu: int | None = None
    retry_of: str | None = None


def check_words(execute: bool, confirm: str | None) -> None:
    """Refuse half a confirmation; raises StudyError E_CONFIRM, which is a mistake of usage."""
    if confirm is not None and confirm != TOKEN:
        raise StudyError(
            "E_CONFIRM", f'"{confirm}" does not confirm a launch.', hint=f"The word is {TOKEN}."
        )
    if execute != (confirm is not None):
        given, missing = ("--execute", "--confirm") if execute else ("--confirm", "--execute")
        raise StudyError(
            "E_CONFIRM",
            f"{given} came without {missing}; nothing was started.",
            hint=f"To launch: --execute --confirm {TOKEN}. To look only: neither.",
        )


def refuse_launch(study: Study) -> None:
    """Raise GateRefused E_SOURCED for a study that only tells of work done elsewhere."""
    source = study.source
    if source is not None:
        raise GateRefused(
            "E_SOURCED",
            f"{study.name} tells of the {source.kind} {source.name}; nothing is launched "
            f"here. Its runs are made by the {source.kind} itself.",
            hint=f"Go on with: {source.continues_with}. Then: telic study from {source.path}",
        )


def next_request(
    study: Study, candidate: str, phase: str | None = None, seed: int | None = None
) -> LaunchRequest:
    """Fill in what was left open: the phase the candidate is in, and its first seed without a run.

    Raises UnknownName for a candidate or phase that there is not, StudyError E_NO_SEED, and
    GateRefused E_SOURCED for a study that tells of work done elsewhere.
    """
    refuse_launch(study)
    held = study.candidate_state(candidate)
    phases: dict[str, Phase] = {each: each for each in PHASES}
    if phase is not None and phase not in phases:
        raise UnknownName("phase", phase, list(PHASES))
    chosen = phases[phase or held.phase or PHASES[0]]
    if seed is None:
        tried = study.state.runs_of(candidate, chosen).values()
        busy = {run.seed for run in tried if run.status not in _AGAIN}
        seed = min(study.planned_seeds(candidate, chosen) - busy, default=None)
    if seed is None:
        raise StudyError(
            "E_NO_SEED",
            f"Every seed of {chosen} has a run.",
            hint="Go on with telic study next, or name a seed with --seed.",
        )
    return LaunchRequest(candidate, chosen, seed)


# ---------------------------------------------------------------------------- what follows


def steps_of(plan: Plan, phase: Phase) -> int | None:
    """Return how many steps one run of a phase trains."""
    return None if plan.steps is None else max(1, round(plan.steps * PHASE_SHARE[phase]))


def reservation_of(plan: Plan, phase: Phase) -> Amounts:
    """Return what one run is thought to cost: its share of the estimate for the whole plan."""
    total = sum(PHASE_SHARE[each] * (len(plan.seeds.get(each, ())) or 1) for each in plan.phases)
    share = PHASE_SHARE[phase] / total if total else 1.0
    amounts: dict[str, float | None] = {}
    for name in RESOURCES:
        whole = getattr(plan.est, name)
        amounts[name] = None if whole is None else whole * min(1.0, share)
    steps = steps_of(plan, phase)
    if steps is not None:
        amounts["env_steps"] = steps
    return Amounts.model_validate({**amounts, "launches": 1})


def command_spec(adapter: Adapter, phase: Phase) -> CommandSpec:
    """Return the adapter's command for a phase; raises InvalidDocument E_COMMAND without one."""
    commands = adapter.commands
    spec = (commands.smoke if phase == "smoke" else None) or commands.train
    if spec is None:
        raise InvalidDocument(
            "E_COMMAND",
            "The adapter knows no command that trains.",
            hint="Fill commands.train in adapter.yaml and mark its provenance as confirmed.",
        )
    return spec


def timeout_of(timeout_s: float | None, phase: Phase) -> float | None:
    """Return how long a run may take; smoke is over in five minutes."""
    return min(timeout_s or SMOKE_TIMEOUT_S, SMOKE_TIMEOUT_S) if phase == "smoke" else timeout_s


def launcher_is_confirmed(adapter: Adapter) -> bool:
    """Return whether a person confirmed the adapter's launcher, or it runs no words of its own."""
    if adapter.launcher.kind != "custom" and not adapter.launcher.options.get("probe"):
        return True
    held = adapter.provenance.get("launcher")
    return held is not None and held.status == "confirmed"
