"""Everything the gates look at, read when first asked for; one look at the world per evaluation.

What cannot be read raises a TelicError, which makes the gates that asked for it fail with its
message; the others are evaluated all the same.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from telic.studies.approvals import standing
from telic.studies.candidate_files import current_candidate
from telic.studies.clock import utc_now
from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.documents.candidate import Candidate, CheckResult
from telic.studies.documents.contract import Amounts, Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.documents.registry import Registry
from telic.studies.errors import InvalidDocument
from telic.studies.folder import StudyFolder, read_registry
from telic.studies.launch.choose import launcher_of
from telic.studies.launch.command import Command, Values, build_command
from telic.studies.launch.hardware import Machine, look
from telic.studies.launch.isolation import tree_of
from telic.studies.launch.network import RunEnvironment
from telic.studies.launch.order import Launcher, Order, Rendered
from telic.studies.launch.planning import (
    ARTEFACTS,
    command_spec,
    environment_of,
    first_free_gpu,
    timeout_of,
)
from telic.studies.launch.request import LaunchRequest, reservation_of, steps_of
from telic.studies.ledger import Ledger
from telic.studies.queueing import planned_seeds
from telic.studies.state import CandidateState, StudyState
from telic.studies.validation.validating import LAUNCHING, check_candidate


class Situation:
    """One moment of a study, seen by one launch request.

    Args:
        ledger: of the study.
        request: what is to be launched.
        run_id: the name the run would get.
        nonce: what tells this attempt from every other.
        processes: whether the driver and the probe may be asked, which starts programs.
        is_final: whether this is the look right before the start, when the tree must be there.
    """

    def __init__(
        self,
        ledger: Ledger,
        request: LaunchRequest,
        *,
        run_id: str,
        nonce: str,
        processes: bool,
        is_final: bool = False,
    ) -> None:
        self.ledger = ledger
        self.folder: StudyFolder = ledger.folder
        self.request = request
        self.run_id = run_id
        self.nonce = nonce
        self.processes = processes
        self.is_final = is_final
        self.now = utc_now()

    # ------------------------------------------------------------------ records

    @cached_property
    def registry(self) -> Registry:
        """The repository's index."""
        return read_registry(self.folder.root)

    @cached_property
    def state(self) -> StudyState:
        """What the ledger comes to."""
        return self.ledger.state()

    @cached_property
    def contract(self) -> Contract:
        """The contract on disk."""
        return self.folder.read_contract()

    @cached_property
    def adapter(self) -> Adapter:
        """How the repository trains."""
        return self.folder.read_adapter()

    @cached_property
    def protocol(self) -> Protocol:
        """How results are measured."""
        return self.folder.read_protocol()

    @cached_property
    def metric_spec(self) -> MetricSpec:
        """What is measured."""
        return self.folder.read_metric_spec()

    @cached_property
    def candidate(self) -> Candidate:
        """The candidate on disk."""
        return current_candidate(self.ledger, self.request.candidate)

    @cached_property
    def standing(self) -> CandidateState:
        """The candidate in the ledger."""
        found = self.state.candidates.get(self.request.candidate)
        if found is None:
            raise InvalidDocument("E_NO_CANDIDATE", f"The ledger has no {self.request.candidate}.")
        return found

    @cached_property
    def planned_seeds(self) -> frozenset[int]:
        """Seeds of this phase: those of the plan, and those that were queued since."""
        return planned_seeds(self.ledger, self.candidate, self.request.phase)

    @cached_property
    def checks(self) -> tuple[CheckResult, ...]:
        """V01 to V16, run again."""
        return check_candidate(self.ledger, self.request.candidate, LAUNCHING)

    # ------------------------------------------------------------------ what would run

    @cached_property
    def tree(self) -> Path:
        """Where it runs."""
        return tree_of(self.folder, self.candidate)

    @cached_property
    def run_folder(self) -> Path:
        """The folder of the run."""
        return self.folder.run(self.run_id)

    @cached_property
    def spec(self) -> CommandSpec:
        """The adapter's command for this phase."""
        return command_spec(self.adapter, self.request.phase)

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """Parameters that this run sets."""
        return {name: each.to for name, each in self.candidate.change.overrides.items()}

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """GPUs that this run takes."""
        wanted = self.request.gpu if self.request.gpu is not None else self.candidate.isolation.gpu
        return first_free_gpu(self.state, self.contract) if wanted is None else (wanted,)

    @cached_property
    def command(self) -> Command:
        """The exact arguments."""
        values = Values(
            seed=self.request.seed,
            run_dir=self.run_folder / ARTEFACTS,
            overrides=self.overrides,
            device="cuda:0" if self.gpus else "cpu",
            steps=steps_of(self.candidate.plan, self.request.phase),
            nproc=int(self.adapter.launcher.options.get("nproc") or len(self.gpus) or 1),
            nonce=self.nonce,
        )
        return build_command(self.adapter, self.spec, values, self.tree)

    @cached_property
    def network_approved(self) -> bool:
        """Whether a person approved the network, for what the contract says now."""
        network = self.contract.network
        if network is None or not network.destinations:
            return False
        return standing(self.folder, self.state, "network").status == "approved"

    @cached_property
    def environment(self) -> RunEnvironment:
        """The environment of the run."""
        return environment_of(
            self.adapter,
            self.command,
            run_id=self.run_id,
            nonce=self.nonce,
            seed=self.request.seed,
            run_dir=str(self.run_folder / ARTEFACTS),
            gpus=self.gpus if self.contract.hardware.gpus else None,
            network_approved=self.network_approved,
        )

    @cached_property
    def launcher(self) -> Launcher:
        """What starts it."""
        return launcher_of(self.adapter.launcher.kind, self.adapter.launcher.options)

    @cached_property
    def order(self) -> Order:
        """What the launcher is asked for."""
        return Order(
            nonce=self.nonce,
            argv=self.command.argv,
            argv_hash=self.command.hash,
            cwd=self.command.cwd,
            folder=self.run_folder,
            variables=self.environment.variables,
            changed=self.environment.changed,
            timeout_s=timeout_of(self.command, self.request.phase),
            gpus=self.gpus,
            options=self.adapter.launcher.options,
            labels={
                "study": self.folder.name.replace("/", "."),
                "candidate": self.request.candidate,
            },
            grace_s=float(self.adapter.launcher.options.get("grace_s", 30.0)),
        )

    @cached_property
    def rendered(self) -> Rendered:
        """What exactly would be started."""
        return self.launcher.render(self.order)

    @cached_property
    def reservation(self) -> Amounts:
        """What is held for it."""
        return reservation_of(self.candidate.plan, self.request.phase)

    @cached_property
    def machine(self) -> Machine:
        """What this machine offers."""
        wants_gpus = bool(self.gpus) or self.contract.hardware.min_free_gpu_gb is not None
        return look(self.folder.root, at_gpus=self.processes and wants_gpus)
