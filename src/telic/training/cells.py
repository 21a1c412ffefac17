"""Which members may share a process: those whose rewards are one program, or telic's own.

Code that got past every list controls the process it runs in, and with it what the members beside
it learn. So rewards that differ in more than their weights are trained by one process each, a cell,
one after the other. What telic wrote itself shares one, as does the environment's own reward; that
is said by the job that the host made, never by a reward's text.

Members that are spread over several devices are cells, too: those of different devices are trained
at the same time. No member influences another, so each learns what it would have learned on one.
Where there are more devices than cells, several devices share the environments of one: see `group`.

On a GPU a population is one recording of policy, physics and all rewards: there it stays together,
and the manifest says that the process is shared.
"""

from __future__ import annotations

import ast
import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from telic.core.events import Event, TrainEnd, TrainProgress
from telic.errors import BadFile
from telic.sim.cpu import usable_cpus
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
    walls = not is_gpu(job) and confined
    cells: dict[str, list[str]] = {}
    for member in job.members:
        program = program_of(job.rewards[member.reward]) if walls else _OWN
        cells.setdefault(program, []).append(member.name)
    return [part for cell in cells.values() for part in spread(cell, len(job.devices) or 1)]


def spread(names: Sequence[str], places: int) -> list[list[str]]:
    """Return neighbours together, in as many parts of nearly the same size as there are places."""
    cuts = [round(len(names) * place / places) for place in range(places + 1)]
    parts = [list(names[start:end]) for start, end in itertools.pairwise(cuts)]
    return [part for part in parts if part]


def is_shared(job: TrainJob, cells: list[list[str]]) -> bool:
    """Say whether rewards that are different programs are trained by one process."""
    programs = {member.name: program_of(job.rewards[member.reward]) for member in job.members}
    return any(len({programs[name] for name in cell}) > 1 for cell in cells)


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
        return [Cell(_on_devices(job, 0, 1), run.state, run.summary)]
    return [
        Cell(
            _on_devices(_part(job, group), number, len(groups)),
            run.cell_state(number + 1),
            run.cell_result(number + 1),
        )
        for number, group in enumerate(groups)
    ]


def _on_devices(job: TrainJob, number: int, cells: int) -> TrainJob:
    """Return the job of a cell on the device whose turn it is, with its share of processors.

    Of more devices than cells it has several, which share the environments of its members.
    """
    if not job.devices:
        return job
    devices = spread(job.devices, cells)[number] if cells < len(job.devices) else []
    threads = job.threads or max(1, usable_cpus() // len(job.devices))
    update = {
        "device": job.devices[number % len(job.devices)] if not devices else devices[0],
        "devices": tuple(devices) if len(devices) > 1 else (),
        "threads": threads,
    }
    return job.model_copy(update=update)


def by_process(job: TrainJob) -> list[TrainJob]:
    """Return the job of each process that trains a cell, the one that keeps the run first."""
    return [job.model_copy(update={"device": device}) for device in job.devices] or [job]


def require_shares(job: TrainJob, *, confined: bool = True) -> None:
    """Raise ConfigError where the environments of a member cannot be shared by its devices."""
    cells = len(processes(job, confined=confined))
    if cells < len(job.devices):
        for devices in spread(job.devices, cells):
            job.settings.shared_by(len(devices))


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


class JointProgress:
    """Tells of cells that are trained at the same time as of one run."""

    def __init__(self, members: Sequence[int]) -> None:
        """Take how many members each cell has."""
        self._members = members
        self._latest: dict[int, TrainProgress] = {}
        self._lock = threading.Lock()

    def retell(self, cell: int, event: Event) -> Event | None:
        """Return what an event of a cell means for the run; None: nothing yet."""
        if isinstance(event, TrainEnd):
            return None
        if not isinstance(event, TrainProgress):
            return event
        with self._lock:
            self._latest[cell] = event
            latest = dict(self._latest)
        steps = sum(self._members[number] * known.step for number, known in latest.items())
        rates = [known.steps_per_second for known in latest.values()]
        left = [known.seconds_left for known in latest.values()]
        return replace(
            event,
            step=steps // sum(self._members),
            steps_per_second=sum(rate for rate in rates if rate is not None)
            if any(rates)
            else None,
            seconds=max(known.seconds for known in latest.values()),
            returns={name: one for known in latest.values() for name, one in known.returns.items()},
            seconds_left=None if None in left else max(one for one in left if one is not None),
        )
