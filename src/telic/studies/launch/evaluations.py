"""The evaluations after a training, by the evaluator that the contract names.

Each evaluation is a command of its own: the protocol's, with the checkpoint of the training, a seed
that no training sees, and the arguments of a perturbation. The supervisor of the run starts them
one after the other, so that they are part of the run.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import as_record
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.contract import ROLES, Contract, Phase
from telic.studies.documents.metrics import Protocol
from telic.studies.launch.command import Values, build_command, import_path

EVALUATIONS = "evaluations"
"""folder of their results, in the artefacts of a run"""
NOMINAL = "nominal"
_CHECKPOINT = "{checkpoint}"
"""replaced by the supervisor"""


class Perturbation(Record):
    """One difference between the world of an evaluation and that of the training."""

    name: str
    args: tuple[str, ...] = ()
    """words that are added to the evaluator's command"""
    parameter: str | None = None
    """what moves, for a probe of robustness"""
    value: float | None = None
    nominal: float | None = None
    env: dict[str, str] = Field(default={})


class RunStep(Record):
    """One command of a run, as the supervisor starts it."""

    name: str
    """train, or perturbation/seed of an evaluation"""
    folder: str
    """of its output, relative to the run folder"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    measures: bool = True
    """whether its output is the score; then its code is checked before it starts"""


def perturbations_of(protocol: Protocol) -> list[Perturbation]:
    """Return the perturbations of a protocol; a word alone is one without arguments."""
    return [
        Perturbation(name=each) if isinstance(each, str) else as_record(each, Perturbation, "it")
        for each in protocol.perturbations
    ]


def _worlds(protocol: Protocol) -> dict[str, Perturbation]:
    """Return the nominal world and the perturbations, by name."""
    found = perturbations_of(protocol)
    worlds = {each.name: each for each in (Perturbation(name=NOMINAL), *found)}
    if len(worlds) <= len(found):
        raise TelicError("each needs a name of its own, other than nominal.")
    return worlds


def expected_names(protocol: Protocol, phase: Phase) -> tuple[str, ...]:
    """Return the names of a phase's evaluations; a smoke test does one of each kind."""
    if protocol.command is None:
        return ()
    seeds = protocol.eval_seeds[:1] if phase == "smoke" else protocol.eval_seeds
    return tuple(f"{name}/{seed}" for name in _worlds(protocol) for seed in seeds)


def plan_evaluations(
    adapter: Adapter,
    protocol: Protocol,
    phase: Phase,
    run_dir: Path,
    *,
    tree: Path,
    home: Path,
    device: str,
) -> tuple[RunStep, ...]:
    """Return the evaluations after a training, in the evaluator's tree; none without evaluator.

    Compiled files in the tree are ignored: a training could have written them.
    """
    spec, worlds = protocol.command, _worlds(protocol)
    if spec is None:
        return ()
    # The evaluator is the protocol's: overrides of a candidate do not reach it.
    plain = adapter.model_copy(update={"seeds": adapter.seeds.model_copy(update={"flag": None})})
    steps: list[RunStep] = []
    for name in expected_names(protocol, phase):
        world, _, seed = name.rpartition("/")
        values = Values(
            seed=int(seed),
            run_dir=run_dir / EVALUATIONS / name,
            overrides={},
            checkpoint=_CHECKPOINT,
            device=device,
            episodes=protocol.episodes,
            horizon=protocol.horizon,
        )
        command = build_command(plain, spec, values, tree, home)
        compiled = {"PYTHONPYCACHEPREFIX": str(run_dir.parent / "compiled")}
        steps.append(
            RunStep(
                name=name,
                folder=f"{run_dir.name}/{EVALUATIONS}/{name}",
                argv=(*command.argv, *worlds[world].args),
                cwd=str(command.cwd),
                env={**compiled, **import_path(tree), **command.env, **worlds[world].env},
            )
        )
    return tuple(steps)


def evaluation_problems(
    protocol: Protocol, contract: Contract, adapter: Adapter | None
) -> list[str]:
    """Return what is wrong with the evaluation of results."""
    problems = [
        f"eval_seeds: {min(seen)} is also in the {role} pool of training."
        for role in dict.fromkeys(ROLES.values())
        if (seen := contract.seeds.pool(role) & set(protocol.eval_seeds))
    ]
    try:
        _worlds(protocol)
    except TelicError as error:
        problems.append(f"perturbations: {error.message}")
    if protocol.command is None:
        return problems
    if not protocol.eval_seeds:
        problems.append("eval_seeds: the evaluator needs seeds that no training sees.")
    words = " ".join(protocol.command.argv)
    glob = None if adapter is None else adapter.outputs.checkpoint_glob
    if _CHECKPOINT in words and adapter is not None and not glob:
        problems.append("command: {checkpoint} needs outputs.checkpoint_glob in adapter.yaml.")
    if "{seed}" not in words:
        problems.append("command: without {seed} every evaluation would be the same.")
    return problems
