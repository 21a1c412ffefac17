"""Record new episodes as evidence in a process that never runs a candidate's code.

The recorder is a confined process that runs the simulation and plays policies from their weights.
A policy that observes its reward's memory requires the reward's values. Rewards are untrusted code,
so another confined process plays the same episodes with the reward first, and reports its memory
before every step. The recorder plays them again with these values, which the host has bounded.
Untrusted code can affect only its own process, so the recording shows the policy's actual behavior.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.tensors import use_one_thread
from telic.core.text import is_row
from telic.envs.factory import make
from telic.envs.vector import Step, VecEnv, cut_episode
from telic.errors import Refused, TelicError, UsageError, WorkerDied
from telic.judges.disturbance import Disturbance, Disturbed, other_physics
from telic.judges.failure_modes import untrained_policy
from telic.rewards.confined import run_confined
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.sandbox.host import LOG_NAME
from telic.sandbox.worker import HostChannel
from telic.storage.reading import file_hash
from telic.storage.resources import usable_cores
from telic.storage.trajectories import RECORDED, Environment, Trajectory, write_trajectory
from telic.training.policy import load_policy

_ENTRY = "telic.judges.recorder:record_confined"
UNTRAINED = "untrained"
_PLAYING_S = 300.0
_UNLIMITED = 1000
"""maximum number of steps in episodes without a time limit"""
_WRITERS = 4
_LARGEST = 1e6
"""bound on memory values, which legitimate rewards do not exceed"""
_MOST_VALUES = 100_000_000
"""maximum number of memory values of an order"""


class PlayOrder(Record):
    """Request to record episodes. Never read from files of confined processes."""

    policy: str
    """policy file, or `UNTRAINED` to assign untrained policies to the episodes in turn"""
    env: str
    env_args: dict[str, Any]
    seed: int
    paths: tuple[str, ...]
    """output paths, one per episode"""
    reward: str | None = None
    """text of the reward used in training, which runs only if the policy observes its memory"""
    disturbance: Disturbance | None = None
    """difference from the training conditions, if any"""
    is_kept: bool = True
    """whether the episodes are kept after judging"""


class RecordedFile(NamedTuple):
    """Episode on disk, with its hash at the time of writing."""

    path: Path
    sha256: str


class Recordings(NamedTuple):
    """Recorded episodes by policy name, and the reasons for missing ones."""

    files: dict[str, list[RecordedFile]]
    why: dict[str, str]


def is_unchanged(file: RecordedFile) -> bool:
    """Return whether an episode on disk is unchanged since it was recorded."""
    return file.path.is_file() and file_hash(file.path) == file.sha256


def record_each(orders: Mapping[str, PlayOrder], folder: Path) -> Recordings:
    """Record all requests together, or one by one if that fails, to isolate failures.

    A policy's file and a reward's memory come from confined processes. If one is damaged or keeps
    crashing, the others must still be recorded. A lack of disk space or memory is raised.
    """
    files: dict[str, list[RecordedFile]] = {}
    why: dict[str, str] = {}
    try:
        if orders:
            files |= zip(orders, record(list(orders.values()), folder), strict=True)
        return Recordings(files, why)
    except Refused:
        raise
    except TelicError:  # retrying one by one isolates the cause
        files.clear()
    for name, order in orders.items():
        try:
            [files[name]] = record([order], folder)
        except Refused:
            raise
        except TelicError as error:
            why[name] = str(error)
    return Recordings(files, why)


def record(orders: Sequence[PlayOrder], folder: Path) -> list[list[RecordedFile]]:
    """Record several policies in new episodes in a confined process, and return their files.

    Raises WorkerDied for a crash or a protocol violation, and UsageError or RewardError if the
    reward memory that a policy observes cannot be computed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Simulations use all CPU cores; the code between their steps is single-threaded.
    groups = max(1, min(len(orders), len(usable_cores())))
    shares = [orders[first::groups] for first in range(groups)]
    logs = [folder / (f"worker_{place}.log" if place else LOG_NAME) for place in range(groups)]
    with ThreadPoolExecutor(groups) as players:
        own = list(players.map(_record_here, shares, [folder] * groups, logs))
    return [own[place % groups][place // groups] for place in range(len(orders))]


def _record_here(orders: Sequence[PlayOrder], folder: Path, log: Path) -> list[list[RecordedFile]]:
    """Process requests one after another in a confined process."""
    result = run_confined(
        _ENTRY,
        {"orders": [order.model_dump(mode="json") for order in orders]},
        folder,
        [(order.env, order.env_args) for order in orders],
        _policy_folders(orders),
        on_message=RewardMemory(orders).answer,
        log=log,
    )
    return _files(orders, result.get("sha256"))


def _policy_folders(orders: Sequence[PlayOrder]) -> set[Path]:
    return {Path(each.policy).absolute().parent for each in orders if each.policy != UNTRAINED}


def _files(orders: Sequence[PlayOrder], hashes: object) -> list[list[RecordedFile]]:
    shape = [len(row) if is_row(row) else -1 for row in hashes] if is_row(hashes) else []
    if shape != [len(order.paths) for order in orders]:
        raise WorkerDied("The recorder did not return one hash per file.")
    return [
        [
            RecordedFile(Path(path), str(digest))
            for path, digest in zip(order.paths, own, strict=True)
        ]
        for order, own in zip(orders, cast("list[list[object]]", hashes), strict=True)
    ]


# ---- the host, between recorder and reward


class RewardMemory:
    """Memory of the rewards, which a separate process computes for each order."""

    def __init__(self, orders: Sequence[PlayOrder]) -> None:
        self._orders = orders
        self._number: int | None = None
        self._steps: list[np.ndarray[Any, Any]] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the memory before a step of an order."""
        number, step = message.get("order"), message.get("step")
        if not isinstance(number, int) or not 0 <= number < len(self._orders):
            raise WorkerDied("The recorder sent an invalid message.")
        if number != self._number:
            self._number, self._steps = number, _followed(self._orders[number])
        if not isinstance(step, int) or not 0 <= step < len(self._steps):
            raise WorkerDied("The reward's memory does not cover all recorded steps.")
        return {"memory": self._steps[step].tolist()}


def _followed(order: PlayOrder) -> list[np.ndarray[Any, Any]]:
    """Play an order with its reward in a confined process, and return the memory at every step."""
    if order.reward is None:
        raise UsageError(
            "This policy observes values computed by its reward, which is missing.",
            hint="Provide the reward used for its training.",
        )
    steps: list[np.ndarray[Any, Any]] = []

    def keep(message: dict[str, Any]) -> None:
        memory = np.array(bounded(message.get("memory"), len(order.paths)), dtype=np.float32)
        if len(steps) * memory.size > _MOST_VALUES:
            raise WorkerDied(f"The reward's memory has more than {_MOST_VALUES} values.")
        steps.append(memory)

    with tempfile.TemporaryDirectory() as folder:
        run_confined(
            _ENTRY,
            {"follow": order.model_dump(mode="json")},
            Path(folder),
            [(order.env, order.env_args)],
            _policy_folders([order]),
            on_message=keep,
        )
    return steps


def bounded(memory: object, rows: int) -> list[list[float]]:
    """Validate and clip numbers from untrusted code. Raises WorkerDied."""
    if not is_row(memory) or len(memory) != rows or not all(map(is_row, memory)):
        raise WorkerDied("The reward's memory is not a row of numbers for each episode.")
    table: list[list[float]] = []
    for row in cast("list[list[object]]", memory):
        for value in row:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value):
                raise WorkerDied("The reward's memory contains a value that is not finite.")
        table.append([float(min(max(cast("float", x), -_LARGEST), _LARGEST)) for x in row])
    if len({len(row) for row in table}) != 1:
        raise WorkerDied("The reward's memory is not a row of numbers for each episode.")
    return table


# ---- the confined side: entry point of both workers


def record_confined(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Record episodes, or play them with a reward to report its memory."""
    channel.heartbeat(_PLAYING_S, "playing episodes")
    use_one_thread()
    if "follow" in payload:
        order = PlayOrder.model_validate(payload["follow"])
        env, disturbed = _open(order)
        memory = _LiveMemory(channel, order)
        _tape(load_policy(Path(order.policy)), env, memory, disturbed)
        env.close()
        return {}
    hashes: list[list[str]] = []
    for number, row in enumerate(payload["orders"]):
        order = PlayOrder.model_validate(row)
        if order.policy == UNTRAINED:
            play(untrained_policy(_open(order)[0], order.seed), order)
        else:
            policy = load_policy(Path(order.policy))
            play(policy, order, _KnownMemory(channel, number) if policy.memory_size else None)
        hashes.append([file_hash(Path(path)) for path in order.paths])
        channel.heartbeat(_PLAYING_S, "playing episodes")
    return {"sha256": hashes}


class _LiveMemory:
    """Memory of a reward that runs in this process, and is reported to the host."""

    def __init__(self, channel: HostChannel, order: PlayOrder) -> None:
        self._channel, self._reward = channel, load_reward(order.reward, label="reward_fn.py")
        sample = make(order.env, num_envs=8, seed=0, **order.env_args)
        self._reward.decide(collect(sample, 64))
        sample.close()
        self._reward.start(len(order.paths), "cpu")

    def now(self) -> Tensor:
        """Return the memory before the next action."""
        memory = self._reward.memory()
        self._channel.send({"memory": cast("Any", memory).tolist()})
        return memory.clamp(-_LARGEST, _LARGEST)

    def follow(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Update the memory after a step."""
        self._reward(obs, action, step.final_obs, step.info, step.reward)
        self._reward.reset(step.terminated | step.truncated)


class _KnownMemory:
    """Memory that another process has computed for the same episodes."""

    def __init__(self, channel: HostChannel, order: int) -> None:
        self._channel, self._order, self._steps = channel, order, 0

    def now(self) -> Tensor:
        """Return the memory before the next action."""
        asked = {"order": self._order, "step": self._steps}
        return torch.tensor(self._channel.ask(asked)["memory"])

    def follow(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Count a step."""
        self._steps += 1


def _open(order: PlayOrder) -> tuple[VecEnv, Disturbed]:
    with other_physics(order.disturbance):
        env = make(order.env, num_envs=len(order.paths), seed=order.seed, **order.env_args)
    return env, Disturbed(env, order.disturbance, order.seed)


def play(
    policy: Callable[..., Any], order: PlayOrder, memory: _LiveMemory | _KnownMemory | None = None
) -> None:
    """Record one episode per path with deterministic actions."""
    env, disturbed = _open(order)
    where = order.env, order.env_args
    episodes = recorded_episodes(policy, env, where, order.seed, memory, disturbed)

    def write(path: str, episode: Trajectory) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_trajectory(Path(path), episode, is_kept=order.is_kept)

    with ThreadPoolExecutor(_WRITERS) as writers:  # compression releases the GIL
        list(writers.map(write, order.paths, episodes))


def recorded_episodes(
    policy: Callable[..., Any],
    env: VecEnv,
    where: Environment,
    seed: int,
    memory: _LiveMemory | _KnownMemory | None = None,
    disturbed: Disturbed | None = None,
) -> list[Trajectory]:
    """Record one episode per environment, then close the environments."""
    columns, lengths = _tape(policy, env, memory, disturbed or Disturbed(env, None, seed))
    env.close()
    return [
        cut_episode(
            *(columns, row, length, env.spec, where),
            seed=seed,
            label=f"judge{row}",
            extra={"row": row},
        )
        for row, length in enumerate(lengths)
    ]


def _tape(
    policy: Callable[..., Any],
    env: VecEnv,
    memory: _LiveMemory | _KnownMemory | None,
    disturbed: Disturbed,
) -> tuple[dict[str, np.ndarray[Any, Any]], list[int]]:
    """Return all steps in all environments, and the length of each episode."""
    fields = [name for name in RECORDED if name in env.spec.info_keys]
    may_explode = "diverged" in env.spec.info_keys
    obs = env.reset()
    live = torch.ones(env.num_envs, dtype=torch.bool)
    lengths = torch.zeros(env.num_envs, dtype=torch.long)
    tape: dict[str, list[Tensor]] = {}
    for _ in range(env.max_episode_steps or _UNLIMITED):
        shown = disturbed.seen(obs)
        seen = (shown,) if memory is None else (shown, memory.now())
        action = torch.as_tensor(policy(*seen))
        applied = disturbed.applied(action)
        step = env.step(applied)
        if memory is not None:
            memory.follow(obs, applied, step)
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
        disturbed.push()  # after reading the state: the push is not a result of the step
        # MuJoCo resets a simulation that diverged; the following states are invalid.
        exploded = step.info["diverged"] if may_explode else torch.zeros_like(live)
        lengths += live & (~exploded | (lengths == 0))
        live = live & ~(step.terminated | step.truncated | exploded)
        obs = step.obs
        if not live.any():
            break
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    return columns, [int(length) for length in lengths]
