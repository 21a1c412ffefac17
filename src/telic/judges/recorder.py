"""Evidence: fresh episodes, recorded by a process that has never run a candidate's code.

The recorder owns the simulation and plays the policy from its weights. A policy that sees its
reward's memory needs the reward's numbers; the reward is foreign code, so it runs in a second
confined process, on a simulation of its own that is led through the same actions, and only its
memory crosses, as plain bounded numbers:

    recorder  --actions-->  this process  --actions-->  reward
    recorder  <--memory---  this process  <--memory---  reward

Whatever the reward does to its own process, what is recorded is what the policy did.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import queue
import tempfile
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.text import is_row
from telic.envs import make
from telic.envs.access import env_access
from telic.envs.spec import EnvSpec
from telic.errors import TelicError, WorkerDied
from telic.rewards.load import load_reward
from telic.rewards.recording import collect
from telic.sandbox.host import Listener
from telic.sandbox.worker import HostChannel
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.training.policy import Policy, load_policy

_RECORDED = ("qpos", "qvel", "xpos", "xquat", "cvel", "cfrc_ext", "subtree_com")
_UNLIMITED = 1000
_PLAYING_S = 300.0
_LARGEST = 1e6
"""numbers of memory beyond this are cut: no honest reward counts so far"""


class PlayOrder(Record):
    """What is to be played; comes from the caller, never from a file of a confined process."""

    policy: str
    """the policy's file"""
    env: str
    env_args: dict[str, Any]
    seed: int
    paths: tuple[str, ...]
    """where the episodes go, one each, all in one folder"""
    reward: str | None = None
    """text of the reward whose memory the policy sees; None: it sees none"""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """An episode on disk, and the hash it had when it was written."""

    path: Path
    sha256: str


def record(order: PlayOrder) -> list[RecordedFile]:
    """Play one fresh episode per path, confined, and return the files with their hashes.

    Raises:
        WorkerDied: a confined process crashed or broke the protocol.
        RewardError: the reward whose memory the policy sees cannot be run.
    """
    folder = Path(order.paths[0]).absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    if order.reward is None:
        result = _run("play", order, folder, lambda message: None)
    else:
        with _reward_of(order, folder) as answer:
            result = _run("play", order, folder, answer)
    hashes: object = result.get("sha256")
    if not is_row(hashes) or len(hashes) != len(order.paths):
        raise WorkerDied("The recorder did not say what it wrote.")
    return [RecordedFile(Path(p), str(h)) for p, h in zip(order.paths, hashes, strict=True)]


def _run(role: str, order: PlayOrder, folder: Path, answer: Listener) -> dict[str, Any]:
    from telic.sandbox.host import run_worker

    access = env_access(order.env, order.env_args)
    policy = Path(order.policy).absolute().parent
    return run_worker(
        "telic.judges.recorder",
        {"role": role, "order": order.model_dump(mode="json")},
        writable=[folder],
        readable=[*access.readable, *([policy] if role == "play" else [])],
        python_path=access.python_path,
        on_message=answer,
    )


@contextlib.contextmanager
def _reward_of(order: PlayOrder, folder: Path) -> Generator[Listener]:
    """Run the reward beside the recorder; yields what answers the recorder's actions."""
    actions: queue.Queue[list[Any] | None] = queue.Queue()
    memories: queue.Queue[object] = queue.Queue()

    def lead(message: dict[str, Any]) -> dict[str, Any]:
        memories.put(message.get("memory"))
        return {"action": actions.get()}

    def serve() -> None:
        try:
            _run("reward", order, own, lead)
            memories.put(WorkerDied("The reward ended before the episodes did."))
        except TelicError as error:
            memories.put(error)

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        if message.get("action") is not None:
            actions.put(message["action"])
        try:
            memory = memories.get(timeout=_PLAYING_S)
        except queue.Empty:
            raise WorkerDied("The reward gave no memory in time.") from None
        if isinstance(memory, TelicError):
            raise memory
        return {"memory": _bounded(memory, len(order.paths))}

    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        own = Path(scratch)
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        try:
            yield answer
        finally:
            actions.put(None)  # no more actions: it ends
            server.join()


def _bounded(memory: object, rows: int) -> list[list[float]]:
    """Return numbers that came from foreign code, checked and cut; raises WorkerDied."""
    if is_row(memory) and len(memory) == rows and all(map(is_row, memory)):
        numbers = [[_number(each) for each in row] for row in cast("list[list[object]]", memory)]
        if len({len(row) for row in numbers}) == 1:
            return numbers
    raise WorkerDied("The reward's memory is not a row of numbers for each episode.")


def _number(value: object) -> float:
    if type(value) not in (float, int) or not math.isfinite(cast("float", value)):
        raise WorkerDied("The reward's memory holds something that is not a finite number.")
    return min(max(float(cast("float", value)), -_LARGEST), _LARGEST)


# ------------------------------------------------------ the confined side: entry of the workers


def prepare(payload: dict[str, Any], channel: HostChannel) -> None:
    """Nothing to open before the worker confines itself."""


def run(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Play the episodes, or compute a reward's memory beside another process that plays them."""
    order = PlayOrder.model_validate(payload["order"])
    channel.heartbeat(_PLAYING_S, "playing episodes")
    if payload["role"] == "reward":
        follow(order, channel)
        return {}
    return {"sha256": play(order, load_policy(Path(order.policy)), channel)}


def follow(order: PlayOrder, channel: HostChannel) -> None:
    """Compute the reward's memory along the actions that the host tells."""
    reward = load_reward(order.reward, label="reward_fn.py")
    trial = make(order.env, num_envs=8, seed=0, **order.env_args)
    reward.decide(collect(trial, 64))
    trial.close()
    env = make(order.env, num_envs=len(order.paths), seed=order.seed, **order.env_args)
    obs = env.reset()
    reward.start(len(order.paths), "cpu")
    while True:
        told = channel.ask({"memory": reward.memory().tolist()})["action"]
        if told is None:
            break
        action = torch.tensor(told)
        step = env.step(action)
        reward(obs, action, step.final_obs, step.info, step.reward)
        reward.reset(step.terminated | step.truncated)
        obs = step.obs
    env.close()


def play(order: PlayOrder, policy: Policy, channel: HostChannel | None = None) -> list[str]:
    """Play one episode per path with the most likely actions; return the hashes of the files."""
    count = len(order.paths)
    env = make(order.env, num_envs=count, seed=order.seed, **order.env_args)
    fields = [name for name in _RECORDED if name in env.spec.info_keys]
    obs = env.reset()
    live = torch.ones(count, dtype=torch.bool)
    lengths = torch.zeros(count, dtype=torch.long)
    tape: dict[str, list[Tensor]] = {}
    action: Tensor | None = None
    for _ in range(env.max_episode_steps or _UNLIMITED):
        seen = [obs]
        if order.reward is not None and channel is not None:
            told = None if action is None else action.tolist()
            seen.append(torch.tensor(channel.ask({"action": told})["memory"]))
        action = torch.as_tensor(policy(*seen))
        step = env.step(action)
        row = {
            "obs": obs,
            "action": action,
            "next_obs": step.final_obs,
            "env_reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            **{name: step.info[name] for name in fields},
        }
        for name, value in row.items():
            tape.setdefault(name, []).append(value)
        lengths += live
        live = live & ~(step.terminated | step.truncated)
        obs = step.obs
        if not live.any():
            break
    env.close()
    columns = {name: torch.stack(values).numpy() for name, values in tape.items()}
    return [
        _write(order, index, env.spec, columns, int(length)) for index, length in enumerate(lengths)
    ]


def _write(
    order: PlayOrder, index: int, spec: EnvSpec, columns: dict[str, np.ndarray], length: int
) -> str:
    """Write one episode and return the hash of its file."""
    facts = TrajectoryFacts(
        env_id=order.env,
        env_kwargs=order.env_args,
        dt_s=spec.dt_s,
        seed=order.seed,
        label=f"judge{index}",
        obs_names=spec.obs_names,
        action_names=spec.action_names,
        body_names=spec.body_names,
        joint_names=spec.joint_names,
    )
    cut = {name: np.ascontiguousarray(value[:length, index]) for name, value in columns.items()}
    path = Path(order.paths[index])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_trajectory(path, Trajectory(cut, facts))
    return hashlib.sha256(path.read_bytes()).hexdigest()
