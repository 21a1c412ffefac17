"""Which members may share a process: those whose rewards are one program, or telic's own.

Code that got past every list controls the process it runs in, and with it what the members beside
it learn. So rewards that differ in more than their weights are trained by one process each, a cell,
one after the other. What telic wrote itself shares one, as does the environment's own reward; that
is said by the job that the host made, never by a reward's text.

On a GPU a population is one recording of policy, physics and all rewards: there it stays together,
and the manifest says that the process is shared.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from telic.core.events import Event, TrainEnd, TrainProgress
from telic.errors import BadFile
from telic.storage.facts import ManifestFacts
from telic.storage.files import read_facts, read_record
from telic.storage.layout import RunFolder
from telic.training.job import RewardSource, TrainJob
from telic.training.machine import is_gpu
from telic.training.results import RunSummary

_OWN = ""
"""stands for the program of rewards that need no wall between them"""


class Cell(NamedTuple):
    """Members that are trained by one process."""

    job: TrainJob
    """of these members only"""
    state: Path
    """what it goes on from"""
    result: Path
    """what came of it, once it has ended"""

    def finished(self) -> RunSummary | None:
        """Return its result if it was trained to the end."""
        if not self.result.exists():
            return None
        summary = read_record(self.result, RunSummary)
        return summary if summary.status == "completed" else None


def processes(job: TrainJob, *, confined: bool = True) -> list[list[str]]:
    """Return the names of the members of each process, as the manifest keeps them."""
    if is_gpu(job) or not confined:
        return [[member.name for member in job.members]]
    programs = [program_of(reward) for reward in job.rewards]
    cells: dict[str, list[str]] = {}
    for member in job.members:
        cells.setdefault(programs[member.reward], []).append(member.name)
    return list(cells.values())


def is_shared(job: TrainJob, cells: list[list[str]]) -> bool:
    """Say whether rewards that are different programs are trained by one process."""
    return len(cells) == 1 and len({program_of(reward) for reward in job.rewards}) > 1


def program_of(reward: RewardSource) -> str:
    """Return what two rewards have in common that are the same but for their weights."""
    if reward.source is None or reward.ours:
        return _OWN
    try:
        tree = ast.parse(reward.source)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                _forget_weights(node)
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return reward.source  # whatever it is, it is no other one


def _forget_weights(reward: ast.ClassDef) -> None:
    for statement in reward.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="weights")], value=ast.Dict() as weights):
                weights.values = [
                    ast.Constant(0) if _is_number(value) else value for value in weights.values
                ]
            case _:
                pass


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        value = value.operand
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def cells_of(job: TrainJob, run: RunFolder) -> list[Cell]:
    """Return the cells of a run as its manifest has them; an earlier version's run has one."""
    names = [member.name for member in job.members]
    groups = read_facts(run.manifest, ManifestFacts).get("processes") or [names]
    if sorted(name for group in groups for name in group) != sorted(names) or [] in groups:
        raise BadFile(
            f"{run.manifest} says who is trained together, and not of the members of this run.",
            hint="It was changed since; start anew with --fresh.",
        )
    if len(groups) == 1:
        return [Cell(job, run.state, run.summary)]
    return [
        Cell(_part(job, group), run.cell_state(number), run.cell_result(number))
        for number, group in enumerate(groups, 1)
    ]


def _part(job: TrainJob, names: Sequence[str]) -> TrainJob:
    """Return the job of some members."""
    members = [member for member in job.members if member.name in names]
    used = sorted({member.reward for member in members})
    update = {
        "rewards": tuple(job.rewards[index] for index in used),
        "members": tuple(
            member.model_copy(update={"reward": used.index(member.reward)}) for member in members
        ),
    }
    return job.model_copy(update=update)


class Share(NamedTuple):
    """What a cell is of its run, so that its events can tell of the whole."""

    before: int
    """members that are trained already"""
    members: int
    """of this cell"""
    all_members: int
    seconds: float
    """that the cells before took"""

    def retell(self, event: Event) -> Event | None:
        """Return what an event of the cell means for the run; None: nothing yet."""
        if isinstance(event, TrainEnd):
            return None
        if not isinstance(event, TrainProgress):
            return event
        total, rate, left = event.total_steps, event.steps_per_second, event.seconds_left
        waiting = (self.all_members - self.before - self.members) * total
        return replace(
            event,
            step=(self.before * total + self.members * event.step) // self.all_members,
            seconds=event.seconds + self.seconds,
            seconds_left=left + waiting / rate if rate and left is not None else None,
        )
