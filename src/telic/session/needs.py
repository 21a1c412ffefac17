"""What a training takes of a machine, and what the machine has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from telic.envs.spec import EnvSpec
from telic.training.gpu import Sizes, memory_plan
from telic.training.job import TrainJob

# Measured on HalfCheetah, Ant and Humanoid with 3 and 9 members, and rounded up.
_PROCESS_BYTES = 450_000_000
"""a worker with its libraries, before it simulates anything"""
_SIMULATION_BYTES = 200_000
"""one MuJoCo simulation with its arena as far as it is used"""
_TERMS = 8
_FLOAT = 4
_PER_BODY = 19
"""recorded numbers per body: place, orientation, velocity and contact force"""
_PER_JOINT = 2
_UNLIMITED_STEPS = 1000
_TAPES = 2
"""copies of the evaluation's recording while it is put together"""
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


class Need(NamedTuple):
    """What a piece of work takes while it runs."""

    cores: int
    memory_bytes: int | None
    """None: unknown, so nothing is checked"""


def need_of(job: TrainJob, spec: EnvSpec) -> Need:
    """Return what a training takes at most.

    On a GPU the worker checks the card's own memory; here only its process is counted.
    """
    if job.device != "cpu":
        return Need(cores=1, memory_bytes=_PROCESS_BYTES)
    return Need(
        cores=job.threads or len(usable_cores()),
        memory_bytes=_PROCESS_BYTES + _learning_bytes(job, spec) + _evaluation_bytes(job, spec),
    )


def _learning_bytes(job: TrainJob, spec: EnvSpec) -> int:
    members = len(job.members)
    sizes = Sizes(members, len(spec.obs_names), len(spec.action_names), _TERMS)
    plan = memory_plan(job.settings, sizes)
    simulations = (job.settings.num_envs + job.eval_episodes) * members
    return sum(plan.values()) - plan["libraries"] + simulations * _SIMULATION_BYTES


def _evaluation_bytes(job: TrainJob, spec: EnvSpec) -> int:
    """Return the size of the recording: every step of every evaluation episode, all at once."""
    limit = job.env_args.get("max_episode_steps", spec.max_episode_steps) or _UNLIMITED_STEPS
    row = (
        2 * len(spec.obs_names)
        + len(spec.action_names)
        + _TERMS
        + _PER_JOINT * len(spec.joints)
        + _PER_BODY * len(spec.body_names)
    )
    return _TAPES * limit * job.eval_episodes * len(job.members) * row * _FLOAT


def usable_cores() -> list[int]:
    """Return the numbers of the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_bytes() -> int | None:
    """Return the memory that can be had without swapping, a container's limit respected.

    None where the system does not say.
    """
    known = [each for each in (_machine_bytes(), _container_bytes()) if each is not None]
    return min(known, default=None)


def _machine_bytes() -> int | None:
    if not _MEMINFO.exists():
        return None
    for line in _MEMINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _container_bytes() -> int | None:
    """Return what a control group (version 2) leaves; file pages it can drop count as free."""
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not (limit.exists() and used.exists()) or limit.read_text().strip() == "max":
        return None
    dropped = 0
    for line in (_CGROUP / "memory.stat").read_text().splitlines():
        if line.startswith("inactive_file "):
            dropped = int(line.split()[1])
    return int(limit.read_text()) - int(used.read_text()) + dropped
