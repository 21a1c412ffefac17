"""Evidence: fresh episodes, recorded by a process that has never run a candidate's code.

The recorder is a confined process that owns the simulation and plays policies from their weights.
A policy that sees its reward's memory needs the reward's numbers. The reward is foreign code, so it
runs in another confined process, on a simulation of its own that is led through the same actions,
and only its memory crosses, as plain bounded numbers:

    recorder  --actions-->  this process  --actions-->  reward
    recorder  <--memory---  this process  <--memory---  reward

Whatever the reward does to its own process, what is recorded is what the policy did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import use_one_thread
from telic.core.text import is_row
from telic.envs.access import env_access
from telic.envs.vector import VecEnv
from telic.errors import Refused, TelicError, WorkerDied
from telic.judges.beside import (
    ENTRY,
    PLAYING_S,
    MemoryBeside,
    PlayOrder,
    RewardMemory,
    Rewards,
    follow,
    open_order,
)
from telic.judges.disturbance import Disturbed
from telic.sandbox.host import LOG_NAME, run_worker
from telic.sandbox.worker import HostChannel
from telic.sim.cpu import usable_cpus
from telic.storage.reading import file_hash
from telic.storage.trajectories import RECORDED, Trajectory, TrajectoryFacts, write_trajectory
from telic.training.policy import load_policy

_UNLIMITED = 1000
"""steps after which an episode without a time limit is cut"""
_WRITERS = 4

Act = Callable[..., Any]
"""a policy: (obs) -> action, or (obs, memory) -> action"""


class RecordedFile(NamedTuple):
    """An episode on disk, and the hash that it had when it was written."""

    path: Path
    sha256: str


def record(orders: Sequence[PlayOrder], folder: Path) -> list[list[RecordedFile]]:
    """Play fresh episodes with several policies, confined, and return the files of each.

    Args:
        orders: what to play; all paths lie in `folder`.
        folder: where the recorder may write.

    Raises:
        WorkerDied: a confined process crashed or broke the protocol.
        RewardError: a reward whose memory the policy sees cannot be run.
        UsageError: a policy sees its reward's memory, and the order has no reward.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Simulations use all processors, and what lies between their steps uses one.
    groups = max(1, min(len(orders), usable_cpus()))
    shares = [orders[first::groups] for first in range(groups)]
    logs = [folder / (f"worker_{place}.log" if place else LOG_NAME) for place in range(groups)]
    with ThreadPoolExecutor(groups) as players:
        own = list(players.map(_record_here, shares, [folder] * groups, logs))
    return [own[place % groups][place // groups] for place in range(len(orders))]


def _record_here(orders: Sequence[PlayOrder], folder: Path, log: Path) -> list[list[RecordedFile]]:
    """Play orders one after another in one confined process."""
    access = [env_access(order.env, order.env_args) for order in orders]
    policies = {Path(order.policy).absolute().parent for order in orders}
    beside = Rewards(orders)
    try:
        result = run_worker(
            ENTRY,
            {"orders": [order.model_dump(mode="json") for order in orders]},
            writable=[folder],
            readable=sorted(policies.union(*(each.readable for each in access))),
            python_path=sorted({path for each in access for path in each.python_path}),
            on_message=beside.answer,
            log=log,
        )
    finally:
        beside.close()
    return _files(orders, result.get("sha256"))


class Recordings(NamedTuple):
    """Episodes by the name of who played them, and why some could not be recorded."""

    files: dict[str, list[RecordedFile]]
    why: dict[str, str]


def record_each(orders: Mapping[str, PlayOrder], folder: Path) -> Recordings:
    """Record all together; where that fails, one by one, so that nobody loses by another's fault.

    A policy's file and a reward's memory come from confined processes: one that is damaged, or dies
    again and again, must not leave the others without evidence. A lack of disk or memory is raised.
    """
    files: dict[str, list[RecordedFile]] = {}
    why: dict[str, str] = {}
    try:
        if orders:
            files |= zip(orders, record(list(orders.values()), folder), strict=True)
        return Recordings(files, why)
    except Refused:
        raise
    except TelicError:  # whose fault it was is found out by asking each
        files.clear()
    for name, order in orders.items():
        try:
            [files[name]] = record([order], folder)
        except Refused:
            raise
        except TelicError as error:
            why[name] = str(error)
    return Recordings(files, why)


def _files(orders: Sequence[PlayOrder], told: object) -> list[list[RecordedFile]]:
    """Pair every path with the hash that the recorder told."""
    paths = [[Path(path) for path in order.paths] for order in orders]
    shape = [len(row) if is_row(row) else -1 for row in told] if is_row(told) else []
    if shape != [len(row) for row in paths]:
        raise WorkerDied("The recorder did not say what it wrote.")
    hashes = cast("list[list[object]]", told)
    return [
        [RecordedFile(path, str(digest)) for path, digest in zip(row, own, strict=True)]
        for row, own in zip(paths, hashes, strict=True)
    ]


def is_unchanged(file: RecordedFile) -> bool:
    """Say whether an episode on disk is still what the recorder wrote."""
    return file.path.is_file() and file_hash(file.path) == file.sha256


# ------------------------------------------------------ the confined side: entry of both workers


def prepare(payload: dict[str, Any], channel: HostChannel) -> None:
    """Nothing to open before the worker confines itself."""


def run(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Record episodes; or follow another process that does, and tell a reward's memory."""
    channel.heartbeat(PLAYING_S, "playing episodes")
    use_one_thread()
    if "follow" in payload:
        follow([PlayOrder.model_validate(row) for row in payload["follow"]], channel)
        return {}
    hashes: list[list[str]] = []
    for number, row in enumerate(payload["orders"]):
        order = PlayOrder.model_validate(row)
        policy = load_policy(Path(order.policy))

        play(policy, order, MemoryBeside(channel, number) if policy.memory_size else None)
        hashes.append([file_hash(Path(path)) for path in order.paths])
        channel.heartbeat(PLAYING_S, "playing episodes")
    return {"sha256": hashes}


def play(policy: Act, order: PlayOrder, memory: RewardMemory | None = None) -> None:
    """Play one episode per path with the most likely actions, and write them.

    Args:
        policy: what acts.
        order: where, from which starts, and where to.
        memory: that of the reward, for a policy that sees it.
    """
    env, disturbed = open_order(order)
    columns, lengths = _tape(policy, env, memory, disturbed)
    env.close()
    spec = env.spec

    def write(index: int) -> None:
        path, length = Path(order.paths[index]), lengths[index]
        facts = TrajectoryFacts(
            env_id=order.env,
            env_kwargs=order.env_args,
            dt_s=spec.dt_s,
            seed=order.seed,
            label=f"judge{index}",
            extra={"row": index},
            obs_names=spec.obs_names,
            action_names=spec.action_names,
            body_names=spec.body_names,
            joint_names=spec.joint_names,
        )
        cut = {key: np.ascontiguousarray(column[:length, index]) for key, column in columns.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_trajectory(path, Trajectory(cut, facts), is_kept=order.is_kept)

    with ThreadPoolExecutor(_WRITERS) as writers:  # compressing leaves the interpreter free
        list(writers.map(write, range(len(lengths))))


def _tape(
    policy: Act,
    env: VecEnv,
    memory: RewardMemory | None,
    disturbed: Disturbed,
) -> tuple[dict[str, np.ndarray[Any, Any]], list[int]]:
    """Return every step of all environments at once, and the length of each one's episode."""
    fields = [name for name in RECORDED if name in env.spec.info_keys]
    may_explode = "diverged" in env.spec.info_keys
    obs = env.reset()
    live = torch.ones(env.num_envs, dtype=torch.bool)
    lengths = torch.zeros(env.num_envs, dtype=torch.long)
    tape: dict[str, list[Tensor]] = {}
    if memory is not None:
        memory.follow(None)
    for _ in range(env.max_episode_steps or _UNLIMITED):
        shown = disturbed.seen(obs)
        seen = (shown,) if memory is None else (shown, memory.after())
        action = torch.as_tensor(policy(*seen))
        if memory is not None:
            memory.follow(action)
        applied = disturbed.applied(action)
        step = env.step(applied)
        row = {
            "obs": obs,
            "action": applied,
            "next_obs": step.final_obs,
            "env_reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            **{name: step.info[name] for name in fields},
        }
        for name, value in row.items():
            tape.setdefault(name, []).append(value)
        disturbed.push()  # after everything is read: what a step led to is not the push's doing
        # MuJoCo puts a simulation that exploded back to its start; what follows was not earned.
        exploded = step.info["diverged"] if may_explode else torch.zeros_like(live)
        lengths += live & (~exploded | (lengths == 0))
        live = live & ~(step.terminated | step.truncated | exploded)
        obs = step.obs
        if not live.any():
            break
    if memory is not None:
        memory.after()  # of the last action: nobody asks, but it is on its way
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    return columns, [int(length) for length in lengths]
