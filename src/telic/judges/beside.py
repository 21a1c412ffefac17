"""A reward beside the recorder, for policies that see its memory.

The reward is foreign code, so it runs in a confined process of its own, on a simulation that is led
through the same actions; only its memory crosses, as plain bounded numbers. Both simulations step
at the same time.
"""

from __future__ import annotations

import math
import queue
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.text import is_row
from telic.envs import make
from telic.envs.access import env_access
from telic.envs.vector import VecEnv
from telic.errors import TelicError, UsageError, WorkerDied
from telic.judges.disturbance import Disturbance, Disturbed, other_physics
from telic.rewards.load import load_reward
from telic.rewards.recording import collect
from telic.sandbox.host import run_worker
from telic.sandbox.worker import HostChannel

ENTRY = "telic.judges.recorder"
"""worker that records, or follows one that does"""
PLAYING_S = 300.0
_LARGEST = 1e6
"""numbers of memory beyond this are cut: no honest reward counts so far"""


class PlayOrder(Record):
    """What to play. It comes from whoever asks, never from a file that a confined process wrote."""

    policy: str
    """the policy's file"""
    env: str
    env_args: dict[str, Any]
    seed: int
    paths: tuple[str, ...]
    """where the episodes go, one each"""
    reward: str | None = None
    """text of the reward it was trained with; run only if the policy sees its memory"""
    disturbance: Disturbance | None = None
    """what differs from the conditions of training; None: nothing"""
    is_kept: bool = True
    """whether the episodes stay after they were judged"""


def open_order(order: PlayOrder) -> tuple[VecEnv, Disturbed]:
    """Make the environments of an order, one per episode, and what disturbs them."""
    with other_physics(order.disturbance):
        env = make(order.env, num_envs=len(order.paths), seed=order.seed, **order.env_args)
    return env, Disturbed(env, order.disturbance, order.seed)


# ---------------------------------------------------------------------- the host, between the two


class Rewards:
    """Answers the recorder's actions with the memory of the policy's reward.

    Orders of one policy share a process, one after another. No two policies do: they start from the
    same places, and what a reward learned from one could be told to the next.
    """

    def __init__(self, orders: Sequence[PlayOrder]) -> None:
        self._orders = orders
        self._running: _RewardBeside | None = None

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Hear the actions of one order; return the memory after them."""
        match message:
            case {"order": int(number), "action": action} if 0 <= number < len(self._orders):
                order = self._orders[number]
                if self._running is None or not self._running.is_for(order):
                    self.close()
                    self._running = _RewardBeside(self._orders, order)
                return {"memory": self._running.after(number, action)}
            case _:
                raise WorkerDied("The recorder broke the protocol.")

    def close(self) -> None:
        """End what runs."""
        if self._running is not None:
            self._running.close()
            self._running = None


class _RewardBeside:
    """A confined process that follows actions and tells its reward's memory."""

    def __init__(self, orders: Sequence[PlayOrder], first: PlayOrder) -> None:
        if first.reward is None:
            raise UsageError(
                "This policy sees its reward's memory, and the reward is not there.",
                hint="Give the reward that it was trained with.",
            )
        self._first = first
        self._orders = orders
        self._following: int | None = None
        self._told: queue.Queue[_Told] = queue.Queue()
        self._memories: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def is_for(self, order: PlayOrder) -> bool:
        """Say whether an order is of the same policy and reward."""
        return (order.policy, order.reward) == (self._first.policy, self._first.reward)

    def after(self, number: int, action: Any) -> list[list[float]]:
        """Return the memory after one more action of an order; None: before the first."""
        if number != self._following:
            self._following = number
            self._told.put(_Told(order=number))
        if action is not None:
            self._told.put(_Told(action=action))
        try:
            memory = self._memories.get(timeout=PLAYING_S)
        except queue.Empty:
            raise WorkerDied("The reward gave no memory in time.") from None
        if isinstance(memory, TelicError):
            raise memory
        return bounded(memory, len(self._orders[number].paths))

    def close(self) -> None:
        """Let it end: there are no more orders."""
        self._told.put(_Told())
        self._thread.join()

    def _serve(self) -> None:
        access = [env_access(order.env, order.env_args) for order in self._orders]
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_worker(
                    ENTRY,
                    {"follow": [order.model_dump(mode="json") for order in self._orders]},
                    writable=[Path(folder)],
                    readable=sorted({path for each in access for path in each.readable}),
                    python_path=sorted({path for each in access for path in each.python_path}),
                    on_message=self._lead,
                )
            except TelicError as error:
                self._memories.put(error)

    def _lead(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer with an action, or where one order has ended with the number of the next."""
        if "memory" in message:
            self._memories.put(message["memory"])
        return self._told.get()._asdict()


class _Told(NamedTuple):
    """What comes next: an action, another order; with neither, the end."""

    order: int | None = None
    action: Any = None


def bounded(memory: object, rows: int) -> list[list[float]]:
    """Return numbers that came from foreign code, checked and cut; raises WorkerDied."""
    if is_row(memory) and len(memory) == rows and all(map(is_row, memory)):
        numbers = [[_number(value) for value in row] for row in memory]
        if len({len(row) for row in numbers}) == 1:
            return numbers
    raise WorkerDied("The reward's memory is not a row of numbers for each episode.")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkerDied("The reward's memory holds something that is not a finite number.")
    return float(min(max(value, -_LARGEST), _LARGEST))


# --------------------------------------------------------------------------- the confined sides


class RewardMemory(Protocol):
    """A reward's memory, for a policy that sees it."""

    def follow(self, action: Tensor | None) -> None:
        """Let the reward see one more action of every episode; None: before the first."""
        ...

    def after(self) -> Tensor:
        """Return the memory after what was followed last."""
        ...


class MemoryBeside:
    """That of a reward in another process, which steps while this one does."""

    def __init__(self, channel: HostChannel, order: int) -> None:
        self._channel, self._order = channel, order

    def follow(self, action: Tensor | None) -> None:
        """Tell one more action."""
        told = None if action is None else numbers(action)
        self._channel.send({"order": self._order, "action": told})

    def after(self) -> Tensor:
        """Wait for the answer."""
        return torch.tensor(self._channel.reply()["memory"])


def follow(orders: Sequence[PlayOrder], channel: HostChannel) -> None:
    """Run the reward along the actions that the host tells; the simulations are the same."""
    number = channel.ask({})["order"]
    while number is not None:
        # Anew each time: what the object of a reward keeps must not reach the next order.
        number = _follow_one(orders[number], _decided(orders[number]), channel)


def _decided(order: PlayOrder) -> Any:
    """Return the reward of an order, with what it fixes by a look at the environment."""
    reward = load_reward(order.reward, label="reward_fn.py")
    trial = make(order.env, num_envs=8, seed=0, **order.env_args)
    reward.decide(collect(trial, 64))
    trial.close()
    return reward


def _follow_one(order: PlayOrder, reward: Any, channel: HostChannel) -> int | None:
    """Follow the actions of one order; return the number of the next."""
    env, disturbed = open_order(order)
    obs = env.reset()
    reward.start(len(order.paths), "cpu")
    while (told := channel.ask({"memory": numbers(reward.memory())}))["action"] is not None:
        action = disturbed.applied(torch.tensor(told["action"]))
        step = env.step(action)
        reward(obs, action, step.final_obs, step.info, step.reward)
        disturbed.push()
        reward.reset(step.terminated | step.truncated)
        obs = step.obs
    env.close()
    return told["order"]


def numbers(tensor: Tensor) -> list[Any]:
    """Return a tensor as lists of plain numbers, as they cross between processes."""
    return cast("list[Any]", cast("Any", tensor).tolist())
