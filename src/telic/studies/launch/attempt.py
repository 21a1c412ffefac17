"""A launch request, and one attempt at it: a snapshot of the study and the exact command.

What cannot be read raises a TelicError, which makes the gates that asked for it fail with its
message; the others are evaluated all the same.
"""

from __future__ import annotations

import math
import os
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from telic import __version__
from telic.errors import UnknownName
from telic.jobs.launcher import JobPlace
from telic.jobs.pool import PlacedJob, placed_command
from telic.jobs.spec import JOB_FILE, JobSpec
from telic.storage.reading import file_hash
from telic.studies.canonical import signing_key, utc_now
from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    CheckResult,
    Plan,
    RunStatus,
)
from telic.studies.documents.contract import PHASES, RESOURCES, Amounts, Contract, Phase
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.launch import supervisor
from telic.studies.launch.command import (
    Command,
    RunEnvironment,
    Values,
    build_command,
    import_path,
    run_environment,
)
from telic.studies.launch.evaluations import RunStep, plan_evaluations
from telic.studies.launch.isolation import evaluator_tree, tree_of
from telic.studies.launch.machine import Machine, look
from telic.studies.queue import TOKEN
from telic.studies.rules.checks import check_candidate
from telic.studies.state import CandidateState
from telic.studies.study import Study

ARTEFACTS = "artefacts"
"""folder inside the run folder that belongs to the training; {run_dir} of its command"""
SMOKE_TIMEOUT_S = 300.0
LAUNCHING = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED, CandidateStatus.ACCEPTED)
"""statuses in which a run of a candidate may start"""
_GRACE_S = 30.0
_REMOTE_GRACE_S = 90.0
"""further seconds in which a job on another machine may end, and Slurm warn it of its limit"""
_SBATCH = frozenset(
    (
        *("partition", "account", "qos", "reservation", "wckey", "time", "nodes", "ntasks", "mem"),
        *("ntasks-per-node", "cpus-per-task", "mem-per-cpu", "mem-per-gpu", "gres", "gpus"),
        *("gpus-per-node", "gpus-per-task", "nodelist", "exclude", "constraint", "exclusive"),
        *("comment", "signal"),
    )
)
"""directives of Slurm that a run may carry: an array or a dependency would start more runs, or
later ones, than the gates have checked"""


class LaunchRequest(NamedTuple):
    """One run to start: a candidate, a phase, a seed, and the confirmation."""

    candidate: str
    phase: Phase
    seed: int
    execute: bool = False
    confirm: str | None = None
    gpu: int | None = None
    retry_of: str | None = None
    times: int = 1
    """multiple of the phase's steps; a smoke test shows that steps are honoured"""


def check_words(execute: bool, confirm: str | None) -> None:
    """Refuse half a confirmation; raises StudyError E_CONFIRM, which is a mistake of usage."""
    if confirm is not None and confirm != TOKEN:
        raise StudyError(
            "E_CONFIRM", f'"{confirm}" does not confirm a launch.', hint=f"The word is {TOKEN}."
        )
    if execute != (confirm is not None):
        raise StudyError(
            "E_CONFIRM",
            "A start has to be requested and confirmed; nothing was started.",
            hint=f"To start it: --confirm {TOKEN}.",
        )


def next_request(
    study: Study, candidate: str, phase: str | None = None, seed: int | None = None
) -> LaunchRequest:
    """Fill in the phase of the candidate and its first seed without a run.

    Raises UnknownName for an unknown candidate or phase, StudyError E_NO_SEED.
    """
    wanted = phase or study.candidate_state(candidate).phase or PHASES[0]
    chosen: Phase | None = next((known for known in PHASES if known == wanted), None)
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
            f"Every seed of {chosen} has a run.",
            hint="Continue with telic study next, or name a seed with --seed.",
        )
    return LaunchRequest(candidate, chosen, seed)


def reservation_of(contract: Contract, plan: Plan, phase: Phase) -> Amounts:
    """Return the estimated cost of one run: its share of the estimate for the whole plan."""
    shares = {each: contract.phase_share(each, plan.steps) for each in (*plan.phases, phase)}
    total = sum(shares[each] * (len(plan.seeds.get(each, ())) or 1) for each in plan.phases)
    share = shares[phase] / total if total else 1.0
    whole: dict[str, float] = plan.est.model_dump(include=set(RESOURCES), exclude_none=True)
    amounts = {name: amount * min(1.0, share) for name, amount in whole.items()}
    if plan.steps is not None:
        amounts["env_steps"] = max(1, round(plan.steps * shares[phase]))
    return Amounts.model_validate({**amounts, "launches": 1})


class LaunchAttempt:
    """A snapshot of a study for one launch request; each question is answered once.

    Args:
        study: later entries change nothing of what was evaluated.
        request: the run to launch.
        run_id: the name of the run.
        nonce: identifies this attempt.
        processes: whether the GPU driver may be asked.
        is_final: whether this is the last check before the start, when the tree must exist.
    """

    def __init__(
        self,
        study: Study,
        request: LaunchRequest,
        *,
        run_id: str,
        nonce: str,
        processes: bool,
        is_final: bool = False,
    ) -> None:
        self.study = study.pinned()
        self.request = request
        self.run_id = run_id
        self.nonce = nonce
        self.processes = processes
        self.is_final = is_final
        self.now = utc_now()
        self.run_folder = study.folder.run(run_id)

    @property
    def adapter(self) -> Adapter:
        """The adapter of the repository."""
        return self.study.adapter

    @property
    def candidate(self) -> Candidate:
        """The candidate on disk."""
        return self.study.candidate(self.request.candidate)

    @property
    def held(self) -> CandidateState:
        """The candidate in the ledger."""
        held = self.study.state.candidates.get(self.request.candidate)
        if held is None:
            raise InvalidDocument("E_NO_CANDIDATE", f"The ledger has no {self.request.candidate}.")
        return held

    @cached_property
    def checks(self) -> tuple[CheckResult, ...]:
        """V01 to V16, run again."""
        return check_candidate(self.study, self.request.candidate, LAUNCHING)

    @cached_property
    def tree(self) -> Path:
        """The working tree of the run."""
        return tree_of(self.study.folder, self.candidate)

    @cached_property
    def spec(self) -> CommandSpec:
        """The adapter's command for this phase; raises InvalidDocument E_COMMAND without one."""
        commands = self.adapter.commands
        spec = (commands.smoke if self.request.phase == "smoke" else None) or commands.train
        if spec is None:
            raise InvalidDocument(
                "E_COMMAND",
                "The adapter has no command that trains.",
                hint="Fill commands.train in adapter.yaml and mark its provenance as confirmed.",
            )
        return spec

    @property
    def overrides(self) -> dict[str, Any]:
        """Parameters that this run sets."""
        return {name: each.to for name, each in self.candidate.change.overrides.items()}

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """GPUs of this run: the requested one, or the first without a live run."""
        wanted = self.request.gpu if self.request.gpu is not None else self.candidate.isolation.gpu
        if wanted is not None:
            return (wanted,)
        state = self.study.state
        taken = {state.runs[name].gpu for name in state.active_runs}
        return tuple(gpu for gpu in self.study.contract.hardware.gpus if gpu not in taken)[:1]

    @cached_property
    def reservation(self) -> Amounts:
        """The budget that is reserved for it."""
        found = reservation_of(self.study.contract, self.candidate.plan, self.request.phase)
        steps = found.env_steps and found.env_steps * self.request.times
        return found.model_copy(update={"env_steps": steps})

    @cached_property
    def command(self) -> Command:
        """The exact arguments."""
        steps = self.reservation.env_steps
        values = Values(
            seed=self.request.seed,
            run_dir=self.run_folder / ARTEFACTS,
            overrides=self.overrides,
            device="cuda:0" if self.gpus else "cpu",
            steps=int(steps) if steps is not None and self.candidate.plan.steps else None,
            nproc=int(self.adapter.launcher.options.get("nproc") or len(self.gpus) or 1),
            nonce=self.nonce,
        )
        return build_command(self.adapter, self.spec, values, self.tree, self.study.root)

    @property
    def takes_steps(self) -> bool:
        """Whether the command is told how long to train."""
        return any("{steps}" in word for word in self.spec.argv)

    @cached_property
    def evaluator_tree(self) -> Path:
        """Where results are measured."""
        return evaluator_tree(self.study.folder, self.candidate, self.study.protocol)

    @property
    def evaluator(self) -> dict[str, Any]:
        """The code that measures: the evaluator, all it imports, and its interpreter.

        Of a checkout every importable file counts: none may change before the evaluation.
        """
        study, tree = self.study, self.evaluator_tree
        is_checkout = tree not in (study.root, self.tree)
        spec, programs = study.protocol.command, [self.command.argv[0]]
        return {
            "tree": str(tree),
            "files": {name: file_hash(tree / name) for name in study.evaluator_closure(tree)},
            "checkout": supervisor.importable_files(tree) if is_checkout else None,
            "programs": programs if spec is None else [*programs, spec.argv[0]],
        }

    @cached_property
    def network_approved(self) -> bool:
        """True if a person approved the network of the present contract."""
        network = self.study.contract.network
        if network is None or not network.destinations:
            return False
        return self.study.standing("network").status == "approved"

    @cached_property
    def environment(self) -> RunEnvironment:
        """The environment of the run."""
        choices: dict[str, str] = {}
        for source in self.adapter.logging.sources:
            choices |= source.offline_env
        own = {
            "TELIC_RUN": self.run_id,
            "TELIC_NONCE": self.nonce,
            "TELIC_RUN_DIR": str(self.run_folder / ARTEFACTS),
            "TELIC_SEED": str(self.request.seed),
        }
        if self.tree != self.study.root:
            own |= import_path(self.tree)
        if self.study.contract.hardware.gpus:  # else the choice of devices is left alone
            own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self.gpus))
        return run_environment(
            os.environ,
            declared=self.command.env,
            offline_choices=choices,
            own=own,
            network_approved=self.network_approved,
        )

    @cached_property
    def machine(self) -> Machine:
        """The facts of this machine."""
        hardware = self.study.contract.hardware
        wants_gpus = bool(self.gpus) or hardware.min_free_gpu_gb is not None
        return look(self.study.root, at_gpus=self.processes and wants_gpus)

    # ------------------------------------------------------------------ the start

    @property
    def timeout_s(self) -> float | None:
        """Seconds after which the training is stopped."""
        if self.request.phase == "smoke":
            return min(self.command.timeout_s or SMOKE_TIMEOUT_S, SMOKE_TIMEOUT_S)
        return self.command.timeout_s

    @property
    def _grace_s(self) -> float:
        return float(self.adapter.launcher.options.get("grace_s", _GRACE_S))

    @cached_property
    def job(self) -> PlacedJob | None:
        """The job and its place, without secrets; None for a run on this machine."""
        kind, options = self.adapter.launcher.kind, self.adapter.launcher.options
        if kind == "local":
            return None
        asks = {**options.get("sbatch", {}), "no-requeue": True} if kind == "slurm" else options
        limit_s = self.timeout_s and self.timeout_s + self._grace_s + _REMOTE_GRACE_S
        place = JobPlace(
            kind=kind,
            address=options.get("address"),
            attempts=1,  # another attempt would be a launch that no gate has checked
            gpus=len(self.gpus),
            minutes=0 if limit_s is None else math.ceil(limit_s / 60) + 1,
            cluster="local" if options.get("cluster") == "local" else "slurm",
            asks=asks if kind != "ray" else {},
        )
        env = self.environment.changed
        job = JobSpec(name=f"telic-{self.nonce}", argv=(), cwd="", env=env)
        return PlacedJob(place=place, job=job)

    @property
    def launcher_problems(self) -> tuple[str, ...]:
        """Options of the adapter's launcher that a run may not have."""
        return tuple(
            f"--{name} is not a directive that a run may carry"
            for name in self.adapter.launcher.options.get("sbatch", {})
            if name not in _SBATCH
        )

    @cached_property
    def steps(self) -> tuple[RunStep, ...]:
        """The training and the evaluations after it, where they are to run."""
        command, artefacts = self.command, self.run_folder / ARTEFACTS
        device, study = "cuda:0" if self.gpus else "cpu", self.study
        evaluations = plan_evaluations(
            self.adapter,
            study.protocol,
            self.request.phase,
            artefacts,
            tree=self.evaluator_tree,
            home=study.root,
            device=device,
        )
        place = {"folder": ".", "cwd": str(command.cwd), "measures": not evaluations}
        train = RunStep(name="train", argv=command.argv, **place)
        steps = (train, *evaluations)
        return steps if self.job is None else tuple(map(self._placed, steps))

    def _placed(self, step: RunStep) -> RunStep:
        """Return the step that runs another one at the launcher's place, with its time limit."""
        words = ["env", *(f"{name}={value}" for name, value in step.env.items())]
        if self.timeout_s:  # counted from its start, not from its place in a queue
            words = ["timeout", f"--kill-after={self._grace_s:g}", f"{self.timeout_s:g}", *words]
        job = self.run_folder / JOB_FILE
        argv = placed_command(job, Path(step.cwd), (*words, *step.argv))
        return step.model_copy(update={"argv": argv, "cwd": str(self.run_folder), "env": {}})

    @property
    def order(self) -> dict[str, Any]:
        """cmd.json: what the supervisor runs; enough to start the run again by hand."""
        glob, is_remote = self.adapter.outputs.checkpoint_glob, self.job is not None
        template = self.adapter.outputs.run_dir_template
        return {
            "nonce": self.nonce,
            "argv": list(self.command.argv),
            "argv_hash": self.command.hash,
            "cwd": str(self.command.cwd),
            "timeout_s": None if is_remote else self.timeout_s,
            "grace_s": self._grace_s + (_REMOTE_GRACE_S if is_remote else 0.0),
            "checkpoint_glob": None if glob is None else glob.removeprefix("{run_dir}/"),
            "selection": self.study.protocol.checkpoint_selection,
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "evaluator": self.evaluator,
            "collect": template and template.format(seed=self.request.seed, nonce=self.nonce),
            "launcher": self.adapter.launcher.kind,
            "started_by": list(self.started_by),
            "tool_version": __version__,
        }

    @property
    def started_by(self) -> tuple[str, ...]:
        """The command of the supervisor."""
        # -I and -S: nothing of the caller's or the repository's Python settings may reach it.
        program = str(Path(supervisor.__file__).resolve())
        return (sys.executable, "-I", "-S", program, str(self.run_folder))

    @property
    def variables(self) -> dict[str, str]:
        """The whole environment of the supervisor, with secrets; never written to a file."""
        variables, changed = self.environment.variables, self.environment.changed
        if self.job is not None:  # the job itself gets the changes; its driver needs the network
            variables = {name: x for name, x in variables.items() if name not in changed}
        seal = signing_key(self.study.root).derive(f"telic run {self.nonce}")
        return {**variables, supervisor.SEAL_VARIABLE: seal}
