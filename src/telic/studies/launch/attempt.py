"""Launch requests, and launch attempts with a snapshot of the study and the exact command.

Unreadable data raises a TelicError, whose message is reported by every gate that depends on the
data. All other gates are still evaluated.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from telic import __version__
from telic.errors import UnknownName
from telic.jobs.process import own_python, user_environment
from telic.storage.reading import file_hash
from telic.studies.canonical import run_id, signing_key, utc_now
from telic.studies.documents.adapter import CommandSpec
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    CheckResult,
    Plan,
    RunStatus,
)
from telic.studies.documents.contract import PHASES, RESOURCES, Contract, Resources, StudyPhase
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.launch import supervisor
from telic.studies.launch._isolation import evaluator_tree, tree_of
from telic.studies.launch._machine import Machine, look
from telic.studies.launch.command import (
    Command,
    RunEnvironment,
    RunStep,
    Values,
    build_command,
    compiled_in,
    import_path,
    plan_evaluations,
    run_environment,
)
from telic.studies.queue import TOKEN
from telic.studies.rules.checks import check_candidate
from telic.studies.state import CandidateState
from telic.studies.study import Study

SMOKE_TIMEOUT_S = 300.0
LAUNCHING = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED, CandidateStatus.ACCEPTED)
"""candidate statuses in which a run may start"""
_GRACE_S = 30.0


class LaunchRequest(NamedTuple):
    """Request to start one run: candidate, phase, seed and confirmation."""

    candidate: str
    phase: StudyPhase
    seed: int
    confirm: str | None = None
    """token that starts the run, or None for a dry run"""
    gpu: int | None = None
    times: int = 1
    """factor on the phase's steps, used by smoke tests to verify that steps have an effect"""


def check_token(confirm: str | None) -> None:
    """Raise StudyError E_CONFIRM (a usage error) for a wrong token."""
    if confirm not in (None, TOKEN):
        raise StudyError(
            "E_CONFIRM", f'"{confirm}" does not confirm a launch.', hint=f"Use --confirm {TOKEN}."
        )


def next_request(
    study: Study, candidate: str, phase: str | None = None, seed: int | None = None
) -> LaunchRequest:
    """Return a request that defaults to the candidate's phase and its first unused seed.

    Raises UnknownName for the candidate or phase, or StudyError E_NO_SEED if all seeds are used.
    """
    wanted = phase or study.candidate_state(candidate).phase or PHASES[0]
    chosen: StudyPhase | None = next((known for known in PHASES if known == wanted), None)
    if chosen is None:
        raise UnknownName("phase", wanted, list(PHASES))
    if seed is None:
        tried = study.state.runs_of(candidate, chosen).values()
        again = (RunStatus.ABORTED, RunStatus.LOST)
        busy = {run.seed for run in tried if run.status not in again}
        seed = min(study.planned_seeds(candidate, chosen) - busy, default=None)
    if seed is None:
        raise StudyError(
            "E_NO_SEED",
            f"All seeds of {chosen} have a run.",
            hint="Continue with telic study next, or pass a seed with --seed.",
        )
    return LaunchRequest(candidate, chosen, seed)


def reservation_of(contract: Contract, plan: Plan, phase: StudyPhase) -> Resources:
    """Return the estimated cost of one run as a share of the plan's estimate."""
    shares = {each: contract.phase_share(each, plan.steps) for each in (*plan.phases, phase)}
    total = sum(shares[each] * (len(plan.seeds.get(each, ())) or 1) for each in plan.phases)
    share = shares[phase] / total if total else 1.0
    whole: dict[str, float] = plan.est.model_dump(include=set(RESOURCES), exclude_none=True)
    amounts = {name: amount * min(1.0, share) for name, amount in whole.items()}
    if plan.steps is not None:
        amounts["env_steps"] = max(1, round(plan.steps * shares[phase]))
    return Resources.model_validate({**amounts, "launches": 1})


class LaunchAttempt:
    """Snapshot of a study for one launch request, with cached values.

    Later ledger entries do not affect the snapshot. If `processes` is true, the GPU driver may be
    queried. `is_final` marks the last check before the attempt `first` starts, when its tree must
    exist.
    """

    def __init__(
        self,
        study: Study,
        request: LaunchRequest,
        *,
        processes: bool,
        first: LaunchAttempt | None = None,
    ) -> None:
        self.study, self.request, self.now = study.pinned(), request, utc_now()
        self.processes, self.is_final = processes, first is not None
        self.run_id = first.run_id if first else run_id()
        self.nonce = first.nonce if first else secrets.token_hex(8)
        self.run_folder = study.folder.run(self.run_id)
        self.artifacts = study.folder.artifacts(self.run_id)

    @property
    def candidate(self) -> Candidate:
        """The candidate on disk."""
        return self.study.candidate(self.request.candidate)

    @property
    def held(self) -> CandidateState:
        """The candidate in the ledger."""
        held = self.study.state.candidates.get(self.request.candidate)
        if held is None:
            raise InvalidDocument("E_NO_CANDIDATE", f"Unknown candidate {self.request.candidate}.")
        return held

    @property
    def retry_of(self) -> str | None:
        """Last run with this seed, if that run was lost or preempted."""
        request = self.request
        same = [
            (name, run)
            for name, run in self.study.state.runs_of(request.candidate, request.phase).items()
            if run.seed == request.seed and run.status != RunStatus.ABORTED
        ]
        return same[-1][0] if same and same[-1][1].may_be_retried else None

    @cached_property
    def checks(self) -> tuple[CheckResult, ...]:
        """Results of running the checks V01 to V16 again."""
        return check_candidate(self.study, self.request.candidate, LAUNCHING)

    @cached_property
    def tree(self) -> Path:
        """The working tree of the run."""
        return tree_of(self.study.folder, self.candidate)

    @cached_property
    def evaluator_tree(self) -> Path:
        """The tree used for evaluation."""
        study = self.study
        return evaluator_tree(study.folder, self.candidate, study.protocol, self.run_id)

    @cached_property
    def spec(self) -> CommandSpec:
        """Adapter's command for this phase. Raises InvalidDocument E_COMMAND if it is missing."""
        commands = self.study.adapter.commands
        spec = (commands.smoke if self.request.phase == "smoke" else None) or commands.train
        if spec is None:
            raise InvalidDocument(
                "E_COMMAND",
                "The adapter has no training command.",
                hint="Set commands.train in adapter.yaml, then: telic study approve adapter",
            )
        return spec

    @property
    def overrides(self) -> dict[str, Any]:
        """Parameter overrides of this run."""
        return {name: each.to for name, each in self.candidate.change.overrides.items()}

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """GPUs of this run: the requested GPU, or the first without a live run."""
        wanted = self.request.gpu if self.request.gpu is not None else self.candidate.isolation.gpu
        if wanted is not None:
            return (wanted,)
        state = self.study.state
        taken = {state.runs[name].gpu for name in state.active_runs}
        return tuple(gpu for gpu in self.study.contract.hardware.gpus if gpu not in taken)[:1]

    @cached_property
    def reservation(self) -> Resources:
        """The budget reserved for the run."""
        found = reservation_of(self.study.contract, self.candidate.plan, self.request.phase)
        steps = found.env_steps and found.env_steps * self.request.times
        return found.model_copy(update={"env_steps": steps})

    @cached_property
    def command(self) -> Command:
        """The exact arguments."""
        adapter, steps = self.study.adapter, self.reservation.env_steps
        values = Values(
            seed=self.request.seed,
            run_dir=self.artifacts,
            overrides=self.overrides,
            device="cuda:0" if self.gpus else "cpu",
            steps=int(steps) if steps is not None and self.candidate.plan.steps else None,
            nproc=int(adapter.launcher.options.get("nproc") or len(self.gpus) or 1),
            nonce=self.nonce,
        )
        return build_command(adapter, self.spec, values, self.tree, self.study.root)

    @cached_property
    def environment(self) -> RunEnvironment:
        """The environment of the run."""
        study, network = self.study, self.study.contract.network
        has_network = network is not None and bool(network.destinations)
        own = {
            "TELIC_RUN": self.run_id,
            "TELIC_NONCE": self.nonce,
            "TELIC_RUN_DIR": str(self.artifacts),
            "TELIC_SEED": str(self.request.seed),
        }
        if self.tree != study.root:
            own |= import_path(self.tree, study.root)
        if study.contract.hardware.gpus:  # otherwise the device choice is unchanged
            own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self.gpus))
        sources = study.adapter.logging.sources
        return run_environment(
            user_environment(),
            declared=self.command.env,
            offline_choices={k: v for source in sources for k, v in source.offline_env.items()},
            own=own,
            network_approved=has_network and study.approval("network").status == "approved",
        )

    @cached_property
    def machine(self) -> Machine:
        """The facts of this machine."""
        wants_gpus = self.gpus or self.study.contract.hardware.min_free_gpu_gb is not None
        return look(self.study.root, at_gpus=self.processes and bool(wants_gpus))

    # ------------------------------------------------------------------ the start

    @property
    def _limits_s(self) -> tuple[float | None, float]:
        """Time limit of the training, and grace period before it is killed, in seconds."""
        limit = self.command.timeout_s
        if self.request.phase == "smoke":
            limit = min(limit or SMOKE_TIMEOUT_S, SMOKE_TIMEOUT_S)
        return limit, float(self.study.adapter.launcher.options.get("grace_s", _GRACE_S))

    @cached_property
    def steps(self) -> tuple[RunStep, ...]:
        """Commands of the training and of the subsequent evaluations, with their folders."""
        evaluations = plan_evaluations(
            self.study.adapter,
            self.study.protocol,
            self.request.phase,
            self.artifacts,
            tree=self.evaluator_tree,
            home=self.study.root,
            device="cuda:0" if self.gpus else "cpu",
        )
        place = {"folder": ".", "cwd": str(self.command.cwd), "measures": not evaluations}
        env = compiled_in(self.run_folder / supervisor.TRAINING_COMPILED)
        train = RunStep(name="train", argv=self.command.argv, env=env, **place)
        return (train, *evaluations)

    @property
    def order(self) -> dict[str, Any]:
        """Instructions for the supervisor (cmd.json), which suffice to restart the run manually.

        They list all files of the evaluator's checkout, for verification before it runs.
        """
        study, tree, (limit_s, grace_s) = self.study, self.evaluator_tree, self._limits_s
        outputs, spec = study.adapter.outputs, study.protocol.command
        glob, template = outputs.checkpoint_glob, outputs.run_dir_template
        is_checkout = tree not in (study.root, self.tree)
        return {
            "nonce": self.nonce,
            "argv": list(self.command.argv),
            "cwd": str(self.command.cwd),
            "timeout_s": limit_s,
            "grace_s": grace_s,
            "checkpoint_glob": None if glob is None else glob.removeprefix("{run_dir}/"),
            "selection": study.protocol.checkpoint_selection,
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "evaluator": {
                "tree": str(tree),
                "files": {name: file_hash(tree / name) for name in study.evaluator_closure(tree)},
                "checkout": supervisor.files_in(tree) if is_checkout else None,
                "programs": [self.command.argv[0], *(spec.argv[:1] if spec else ())],
            },
            "collect": template and template.format(seed=self.request.seed, nonce=self.nonce),
            "started_by": list(self.started_by),
            "tool_version": __version__,
        }

    @property
    def started_by(self) -> tuple[str, ...]:
        """The supervisor's command line."""
        # -I isolates it from the caller's and the repository's Python settings.
        return tuple(own_python(None, "-I", "-m", supervisor.__name__, self.run_folder))

    @property
    def variables(self) -> dict[str, str]:
        """Full environment of the supervisor, with secrets. It is never written to a file."""
        seal = signing_key(self.study.root).derive(f"telic run {self.nonce}")
        return {**self.environment.variables, supervisor.SEAL_VARIABLE: seal}
