"""Record new episodes as evidence in a process that never runs a candidate's code.

The recorder is a sandboxed process that runs the simulation and plays policies from their weights.
A policy that observes its reward's memory requires the reward's values. Rewards are untrusted code,
so another sandboxed process plays the same episodes with the reward first, and reports its memory
before every step. The recorder plays them again with these values, which the host has bounded.
Untrusted code can affect only its own process, so the recording shows the policy's actual behavior.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
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
_MAX_ATTEMPTS = 2
"""maximum number of attempts to record a policy"""
_MAX_MEMORY = 1e6
"""bound on memory values that legitimate rewards do not exceed"""
_MAX_VALUES = 20_000_000
"""maximum number of memory values of an order"""


class RolloutSpec(Record):
    """Request to record episodes. It is never read from files of sandboxed processes."""

    policy: str
    """policy file, or `UNTRAINED` to assign untrained policies to the episodes in turn"""
    mode: str | None = None
    """the only untrained policy to play, by its failure mode"""
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
    """Recorded episodes by policy name, and the reasons for missing episodes."""

    files: dict[str, list[RecordedFile]]
    why: dict[str, str]


def is_unchanged(file: RecordedFile) -> bool:
    """Return whether an episode on disk is unchanged since it was recorded."""
    return file.path.is_file() and file_hash(file.path) == file.sha256


def record_each(orders: Mapping[str, RolloutSpec], folder: Path) -> Recordings:
    """Record several policies concurrently. The failure of one does not affect the others.

    Policy files and reward memories come from sandboxed processes, so they may be damaged or cause
    crashes. Errors due to a lack of disk space or memory are raised.
    """
    files: dict[str, list[RecordedFile]] = {}
    why: dict[str, str] = {}

    def attempt(name: str) -> None:
        for _ in range(_MAX_ATTEMPTS):
            try:
                files[name] = record(orders[name], folder, folder / f"{name}.log")
            except Refused:
                raise
            except TelicError as error:
                why[name] = str(error)
            else:
                why.pop(name, None)
                return

    # Simulations use all CPU cores; the code between their steps is single-threaded.
    with ThreadPoolExecutor(len(usable_cores())) as players:
        list(players.map(attempt, orders))
    return Recordings({name: files[name] for name in orders if name in files}, why)


def record(order: RolloutSpec, folder: Path, log: Path | None = None) -> list[RecordedFile]:
    """Record a policy in new episodes in a sandboxed process and return the files.

    Raises WorkerDied for a crash or a protocol violation, and UsageError or RewardError if the
    reward memory that the policy observes cannot be computed.
    """
    memory: list[np.ndarray[Any, Any]] = []

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        """Return the memory of the reward before a step, which another process has computed."""
        if not memory:
            memory.extend(_followed(order))
        step = message.get("step")
        if not isinstance(step, int) or not 0 <= step < len(memory):
            raise WorkerDied("The recorder asked for a step that the reward's memory lacks.")
        return {"memory": memory[step].tolist()}

    result = _confined({"order": order.model_dump(mode="json")}, order, folder, answer, log)
    hashes: object = result.get("sha256")
    if not is_row(hashes) or len(hashes) != len(order.paths):
        raise WorkerDied("The recorder did not return one hash per file.")
    return [RecordedFile(Path(path), str(x)) for path, x in zip(order.paths, hashes, strict=True)]


def _confined(
    payload: dict[str, Any],
    order: RolloutSpec,
    folder: Path,
    on_message: Callable[[dict[str, Any]], dict[str, Any] | None],
    log: Path | None = None,
) -> dict[str, Any]:
    readable = {Path(order.policy).absolute().parent} if order.policy != UNTRAINED else set[Path]()
    where, log = [(order.env, order.env_args)], log or folder / LOG_NAME
    return run_confined(_ENTRY, payload, folder, where, readable, on_message=on_message, log=log)


def _followed(order: RolloutSpec) -> list[np.ndarray[Any, Any]]:
    """Play an order with its reward in a sandboxed process and return the memory at every step."""
    if order.reward is None:
        raise UsageError(
            "This policy observes values computed by its reward, but the reward is missing.",
            hint="Provide the reward that the policy was trained with.",
        )
    steps: list[np.ndarray[Any, Any]] = []

    def keep(message: dict[str, Any]) -> None:
        memory = np.array(bounded(message.get("memory"), len(order.paths)), dtype=np.float32)
        if len(steps) * memory.size > _MAX_VALUES:
            raise WorkerDied(f"The reward's memory has more than {_MAX_VALUES} values.")
        steps.append(memory)

    with tempfile.TemporaryDirectory() as folder:
        followed = {"order": order.model_dump(mode="json"), "is_reward": True}
        _confined(followed, order, Path(folder), keep)
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
        table.append([float(min(max(cast("float", x), -_MAX_MEMORY), _MAX_MEMORY)) for x in row])
    if len({len(row) for row in table}) != 1:
        raise WorkerDied("The reward's memory is not a row of numbers for each episode.")
    return table


# ---- the confined side: entry point of both workers


def record_confined(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Record episodes, or play episodes with a reward to report the reward's memory."""
    channel.heartbeat(_PLAYING_S, "playing episodes")
    use_one_thread()
    order = RolloutSpec.model_validate(payload["order"])
    if payload.get("is_reward"):
        env, disturbed = _open(order)
        memory = _LiveMemory(channel, order)
        _tape(load_policy(Path(order.policy)), env, memory, disturbed)
        env.close()
        return {}
    if order.policy == UNTRAINED:
        play(untrained_policy(_open(order)[0], order.seed, order.mode), order)
    else:
        policy = load_policy(Path(order.policy))
        play(policy, order, _KnownMemory(channel) if policy.memory_size else None)
    return {"sha256": [file_hash(Path(path)) for path in order.paths]}


class _LiveMemory:
    """Memory of a reward that runs in this process, and is reported to the host."""

    def __init__(self, channel: HostChannel, order: RolloutSpec) -> None:
        self._channel, self._reward = channel, load_reward(order.reward, label="reward_fn.py")
        sample = make(order.env, num_envs=8, seed=0, **order.env_args)
        self._reward.decide(collect(sample, 64))
        sample.close()
        self._reward.start(len(order.paths), "cpu")

    def now(self) -> Tensor:
        """Return the memory before the next action."""
        memory = self._reward.memory()
        self._channel.send({"memory": cast("Any", memory).tolist()})
        return memory.clamp(-_MAX_MEMORY, _MAX_MEMORY)

    def follow(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Update the memory after a step."""
        self._reward(obs, action, step.final_obs, step.info, step.reward)
        self._reward.reset(step.terminated | step.truncated)


class _KnownMemory:
    """Memory that another process has computed for the same episodes."""

    def __init__(self, channel: HostChannel) -> None:
        self._channel, self._steps = channel, 0

    def now(self) -> Tensor:
        """Return the memory before the next action."""
        return torch.tensor(self._channel.ask({"step": self._steps})["memory"])

    def follow(self, obs: Tensor, action: Tensor, step: Step) -> None:
        """Count a step."""
        self._steps += 1


def _open(order: RolloutSpec) -> tuple[VecEnv, Disturbed]:
    with other_physics(order.disturbance):
        env = make(order.env, num_envs=len(order.paths), seed=order.seed, **order.env_args)
    return env, Disturbed(env, order.disturbance, order.seed)


def play(
    policy: Callable[..., Any], order: RolloutSpec, memory: _LiveMemory | _KnownMemory | None = None
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
