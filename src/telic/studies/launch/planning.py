"""What follows from records for one run: its seeds, its environment, its time."""

from __future__ import annotations

import os

from telic.errors import UnknownName
from telic.studies.candidate_files import current_candidate, known
from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.documents.contract import PHASES, Contract, Phase
from telic.studies.documents.runs import RunStatus
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.launch.command import Command
from telic.studies.launch.network import RunEnvironment, run_environment
from telic.studies.launch.request import SMOKE_TIMEOUT_S, LaunchRequest
from telic.studies.ledger import Ledger
from telic.studies.queueing import planned_seeds
from telic.studies.sourced import refuse_launch
from telic.studies.state import StudyState

ARTEFACTS = "artefacts"
"""folder inside the run folder that belongs to the training; {run_dir} of its command"""
_AGAIN = (RunStatus.ABORTED, RunStatus.LOST)


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


def launcher_is_confirmed(adapter: Adapter) -> bool:
    """Return whether a person confirmed the adapter's launcher, or it runs no words of its own."""
    if adapter.launcher.kind != "custom" and not adapter.launcher.options.get("probe"):
        return True
    held = adapter.provenance.get("launcher")
    return held is not None and held.status == "confirmed"


def first_free_gpu(state: StudyState, contract: Contract) -> tuple[int, ...]:
    """Return a GPU of the contract that no live run has, or nothing."""
    taken = {state.runs[name].gpu for name in state.active_runs}
    return tuple(gpu for gpu in contract.hardware.gpus if gpu not in taken)[:1]


def timeout_of(command: Command, phase: Phase) -> float | None:
    """Return how long a run may take; smoke is over in five minutes."""
    if phase != "smoke":
        return command.timeout_s
    return min(command.timeout_s or SMOKE_TIMEOUT_S, SMOKE_TIMEOUT_S)


def environment_of(
    adapter: Adapter,
    command: Command,
    *,
    run_id: str,
    nonce: str,
    seed: int,
    run_dir: str,
    gpus: tuple[int, ...] | None,
    network_approved: bool,
) -> RunEnvironment:
    """Return the environment of a run; `gpus` None leaves the choice of devices alone."""
    choices: dict[str, str] = {}
    for source in adapter.logging.sources:
        choices |= source.offline_env
    own = {
        "TELIC_RUN": run_id,
        "TELIC_NONCE": nonce,
        "TELIC_RUN_DIR": run_dir,
        "TELIC_SEED": str(seed),
    }
    if gpus is not None:
        own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return run_environment(
        os.environ,
        declared=command.env,
        offline_choices=choices,
        own=own,
        network_approved=network_approved,
    )


def next_request(
    ledger: Ledger, candidate: str, phase: str | None = None, seed: int | None = None
) -> LaunchRequest:
    """Fill in what was left open: the phase the candidate is in, and its first seed without a run.

    Raises UnknownName for a candidate or phase that there is not, StudyError E_NO_SEED, and
    GateRefused E_SOURCED for a study that tells of work done elsewhere.
    """
    refuse_launch(ledger)
    held = known(ledger, candidate)
    known_phases: dict[str, Phase] = {each: each for each in PHASES}
    if phase is not None and phase not in known_phases:
        raise UnknownName("phase", phase, list(PHASES))
    chosen = known_phases[phase or held.phase or PHASES[0]]
    if seed is None:
        tried = ledger.state().runs_of(candidate, chosen).values()
        busy = {run.seed for run in tried if run.status not in _AGAIN}
        planned = planned_seeds(ledger, current_candidate(ledger, candidate), chosen)
        seed = min(planned - busy, default=None)
    if seed is None:
        raise StudyError(
            "E_NO_SEED",
            f"Every seed of {chosen} has a run.",
            hint="Go on with telic study next, or name a seed with --seed.",
        )
    return LaunchRequest(candidate, chosen, seed)
