"""Record new episodes as evidence in a process that never runs a candidate's code.

The recorder is a confined process that runs the simulation and plays policies from their weights.
A policy that observes its reward's memory requires the reward's values. Rewards are untrusted code,
so the reward runs in another confined process, on a separate simulation with the same actions.
Only its memory is passed on, as bounded numbers:

    recorder  --actions-->  this process  --actions-->  reward
    recorder  <--memory---  this process  <--memory---  reward

Untrusted code can affect only its own process, so the recording shows the policy's actual behavior.
"""

from __future__ import annotations

import math
import queue
import tempfile
import threading
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
from telic.envs.vector import VecEnv, cut_episode
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
    rewards = Rewards(orders)
    try:
        result = run_confined(
            _ENTRY,
            {"orders": [order.model_dump(mode="json") for order in orders]},
            folder,
            [(order.env, order.env_args) for order in orders],
            {Path(each.policy).absolute().parent for each in orders if each.policy != UNTRAINED},
            on_message=rewards.answer,
            log=log,
        )
    finally:
        rewards.close()
    return _files(orders, result.get("sha256"))


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


class Rewards:
    """Compute the memory of rewards for the actions of the recorder.

    The requests of one policy share a confined process. Different policies never share one, because
    they start from the same states and a reward could pass information from one to the next.
    """

    def __init__(self, orders: Sequence[PlayOrder]) -> None:
        self._orders = orders
        self._thread: threading.Thread | None = None
        self._running: tuple[str, str | None] | None = None
        self._following: int | None = None
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        """messages to the reward: an action, the number of the next request, or neither to stop"""
        self._memories: queue.Queue[Any] = queue.Queue()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the reward's memory after an action, or the initial memory if there is none."""
        number, action = message.get("order"), message.get("action")
        if not isinstance(number, int) or not 0 <= number < len(self._orders):
            raise WorkerDied("The recorder sent an invalid message.")
        order = self._orders[number]
        if self._running != (order.policy, order.reward):
            self.close()
            if order.reward is None:
                raise UsageError(
                    "This policy observes values computed by its reward, which is missing.",
                    hint="Provide the reward used for its training.",
                )
            self._running = (order.policy, order.reward)
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        if number != self._following:
            self._following = number
            self._commands.put({"order": number, "action": None})
        if action is not None:
            self._commands.put({"order": None, "action": action})
        try:
            memory = self._memories.get(timeout=_PLAYING_S)
        except queue.Empty:
            raise WorkerDied("The reward did not return its memory in time.") from None
        if isinstance(memory, TelicError):
            raise memory
        return {"memory": bounded(memory, len(order.paths))}

    def close(self) -> None:
        """Stop the process of the reward."""
        if self._thread is not None:
            self._commands.put({"order": None, "action": None})
            self._thread.join()
        self._thread = self._running = self._following = None
        self._commands, self._memories = queue.Queue(), queue.Queue()

    def _serve(self) -> None:
        commands, memories = self._commands, self._memories

        def exchange(message: dict[str, Any]) -> dict[str, Any]:
            if "memory" in message:
                memories.put(message["memory"])
            return commands.get()

        with tempfile.TemporaryDirectory() as folder:
            try:
                run_confined(
                    _ENTRY,
                    {"follow": [order.model_dump(mode="json") for order in self._orders]},
                    Path(folder),
                    [(order.env, order.env_args) for order in self._orders],
                    on_message=exchange,
                )
            except TelicError as error:
                memories.put(error)


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
    """Record episodes, or compute a reward's memory for the actions of a recorder."""
    channel.heartbeat(_PLAYING_S, "playing episodes")
    use_one_thread()
    if "follow" in payload:
        orders = [PlayOrder.model_validate(row) for row in payload["follow"]]
        number = channel.ask({})["order"]
        while number is not None:
            number = _follow(orders[number], channel)
        return {}
    hashes: list[list[str]] = []
    for number, row in enumerate(payload["orders"]):
        order = PlayOrder.model_validate(row)
        if order.policy == UNTRAINED:
            play(untrained_policy(_open(order)[0], order.seed), order)
        else:
            policy = load_policy(Path(order.policy))
            play(policy, order, _RemoteMemory(channel, number) if policy.memory_size else None)
        hashes.append([file_hash(Path(path)) for path in order.paths])
        channel.heartbeat(_PLAYING_S, "playing episodes")
    return {"sha256": hashes}


def _follow(order: PlayOrder, channel: HostChannel) -> int | None:
    """Run the reward on the actions of a request, and return the number of the next request."""
    # Loaded for each order, so that a reward cannot carry state over to the next one.
    reward = load_reward(order.reward, label="reward_fn.py")
    sample = make(order.env, num_envs=8, seed=0, **order.env_args)
    reward.decide(collect(sample, 64))
    sample.close()
    env, disturbed = _open(order)
    obs = env.reset()
    reward.start(len(order.paths), "cpu")
    while (command := channel.ask({"memory": _plain(reward.memory())}))["action"] is not None:
        action = disturbed.applied(torch.tensor(command["action"]))
        step = env.step(action)
        reward(obs, action, step.final_obs, step.info, step.reward)
        disturbed.push()
        reward.reset(step.terminated | step.truncated)
        obs = step.obs
    env.close()
    return command["order"]


class _RemoteMemory:
    """Memory of a reward that runs concurrently in another process."""

    def __init__(self, channel: HostChannel, order: int) -> None:
        self._channel, self._order = channel, order

    def follow(self, action: Tensor | None) -> None:
        """Send the next action of every episode, or None at the start."""
        sent = None if action is None else _plain(action)
        self._channel.send({"order": self._order, "action": sent})

    def after(self) -> Tensor:
        """Wait for the reward's memory after the last action that was sent."""
        return torch.tensor(self._channel.reply()["memory"])


def _plain(tensor: Tensor) -> list[Any]:
    return cast("list[Any]", cast("Any", tensor).tolist())


def _open(order: PlayOrder) -> tuple[VecEnv, Disturbed]:
    with other_physics(order.disturbance):
        env = make(order.env, num_envs=len(order.paths), seed=order.seed, **order.env_args)
    return env, Disturbed(env, order.disturbance, order.seed)


def play(policy: Callable[..., Any], order: PlayOrder, memory: _RemoteMemory | None = None) -> None:
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
    memory: _RemoteMemory | None = None,
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
    policy: Callable[..., Any], env: VecEnv, memory: _RemoteMemory | None, disturbed: Disturbed
) -> tuple[dict[str, np.ndarray[Any, Any]], list[int]]:
    """Return all steps in all environments, and the length of each episode."""
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
        disturbed.push()  # after reading the state: the push is not a result of the step
        # MuJoCo resets a simulation that diverged; the following states are invalid.
        exploded = step.info["diverged"] if may_explode else torch.zeros_like(live)
        lengths += live & (~exploded | (lengths == 0))
        live = live & ~(step.terminated | step.truncated | exploded)
        obs = step.obs
        if not live.any():
            break
    if memory is not None:
        memory.after()  # receive the pending reply to the last action
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    return columns, [int(length) for length in lengths]
