"""Decide which members of a job share a process.

Code that got past every list controls the process it runs in, and with it what other members in it
learn. Rewards that differ in more than their weights are therefore trained by separate processes.
Rewards written by telic share one, as does the environment's own; the job says so, which the host
made, never the text of a reward.

Members that are spread over several devices are in separate processes, too. Members do not
influence each other, so each learns what it would have learned on one device. Where there are more
devices than groups, several devices share the environments of one: see `group`.

On a GPU a population is one recording of policy, physics and all rewards: it stays together, and
the manifest records that the process is shared.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from telic.errors import BadFile
from telic.sim.cpu import usable_cpus
from telic.storage.facts import ManifestFacts
from telic.storage.files import read_facts, read_record
from telic.storage.layout import RunFolder
from telic.training.job import RewardSource, TrainJob
from telic.training.machine import is_gpu
from telic.training.results import RunSummary

_OWN = ""
"""stands for the program of rewards that may share a process"""


class MemberGroup(NamedTuple):
    """Members that are trained by one process, or by one on each of several devices."""

    job: TrainJob
    """of these members only"""
    state: Path
    """what it resumes from"""
    result: Path
    """its summary"""

    def finished(self) -> RunSummary | None:
        """Return its summary if it was trained to the end."""
        if not self.result.exists():
            return None
        summary = read_record(self.result, RunSummary)
        return summary if summary.status == "completed" else None


def processes(job: TrainJob, *, confined: bool = True) -> list[list[str]]:
    """Return the names of the members of each process, as the manifest keeps them."""
    apart = not is_gpu(job) and confined
    groups: dict[str, list[str]] = {}
    for member in job.members:
        program = program_of(job.rewards[member.reward]) if apart else _OWN
        groups.setdefault(program, []).append(member.name)
    return [part for group in groups.values() for part in _spread(group, len(job.devices) or 1)]


def _spread(names: Sequence[str], places: int) -> list[list[str]]:
    """Split names into as many consecutive parts of nearly the same size as there are places."""
    cuts = [round(len(names) * place / places) for place in range(places + 1)]
    parts = [list(names[start:end]) for start, end in itertools.pairwise(cuts)]
    return [part for part in parts if part]


def is_shared(job: TrainJob, groups: list[list[str]]) -> bool:
    """Say whether rewards that are different programs are trained by one process."""
    programs = {member.name: program_of(job.rewards[member.reward]) for member in job.members}
    return any(len({programs[name] for name in group}) > 1 for group in groups)


def program_of(reward: RewardSource) -> str:
    """Return a text that is equal for two rewards that differ only in their weights."""
    if reward.source is None or reward.ours:
        return _OWN
    try:
        tree = ast.parse(reward.source)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                _forget_weights(node)
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return reward.source  # equal only to itself


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


def member_groups(job: TrainJob, run: RunFolder) -> list[MemberGroup]:
    """Return the groups of a run as its manifest has them; an earlier version's run has one."""
    names = [member.name for member in job.members]
    groups = read_facts(run.manifest, ManifestFacts).get("processes") or [names]
    if sorted(name for group in groups for name in group) != sorted(names) or [] in groups:
        raise BadFile(
            f"{run.manifest} lists processes, and not of the members of this run.",
            hint="The file was changed; start from scratch with --fresh.",
        )
    if len(groups) == 1:
        return [MemberGroup(_on_devices(job, 0, 1), run.state, run.summary)]
    return [
        MemberGroup(
            _on_devices(_part(job, group), number, len(groups)),
            run.cell_state(number + 1),
            run.cell_result(number + 1),
        )
        for number, group in enumerate(groups)
    ]


def _on_devices(job: TrainJob, number: int, groups: int) -> TrainJob:
    """Return the job of a group on its device, or its devices where there are more than groups."""
    if not job.devices:
        return job
    devices = _spread(job.devices, groups)[number] if groups < len(job.devices) else []
    update = {
        "device": job.devices[number % len(job.devices)] if not devices else devices[0],
        "devices": tuple(devices) if len(devices) > 1 else (),
        "threads": job.threads or max(1, usable_cpus() // len(job.devices)),
    }
    return job.model_copy(update=update)


def by_process(job: TrainJob) -> list[TrainJob]:
    """Return the job of each process that trains a group, the one that leads first."""
    return [job.model_copy(update={"device": device}) for device in job.devices] or [job]


def require_shares(job: TrainJob) -> None:
    """Raise ConfigError where the environments of a member cannot be shared by its devices."""
    groups = len(processes(job))
    if groups < len(job.devices):
        for devices in _spread(job.devices, groups):
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
