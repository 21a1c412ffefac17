"""The clock that a policy sees: its reward's memory as a rule that needs no reward.

A reward may show its memory to the policy (`memory_to = "actor"`), as rewards of gaits do with the
beat of the gait. The reward's code does not leave the house. What leaves is a rule of plain
numbers, if there is one:

    state <- keep @ state + action @ last_action;  memory = state[:shown]

There is one where the memory follows from itself and from the actions alone. Whether it does is
read from the reward's text (`told_by_the_world`), and the numbers are found by running the reward,
confined, along random actions. The rule must foretell other episodes, or there is none.
"""

from __future__ import annotations

import ast
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.core.text import is_row
from telic.envs import make
from telic.envs.access import env_access
from telic.errors import UsageError, WorkerDied
from telic.rewards.load import load_reward
from telic.rewards.recording import collect
from telic.rewards.signals import CLOCKS
from telic.sandbox.host import run_worker
from telic.sandbox.worker import HostChannel
from telic.storage.trajectories import Environment

_EPISODES, _STEPS = 6, 250
_TOLERANCE = 1e-4
"""by which a rule may be off after an episode; memory is about 1 in size"""
_ROUNDING = 1e-7
"""what a reward's own precision makes of zero"""
_LARGEST = 1e6
_RUNNING_S = 300.0
_OF_ACTIONS = ("quantities.action_change.update", "quantities.action_smoothness.update")
"""quantities that accumulate over actions and look at nothing else"""
_KNOWN = {"torch", "action", "True", "False", "None", "float", "int", "abs", "max", "min", "len"}

Array = np.ndarray[Any, np.dtype[Any]]


class MemoryLaw(Record):
    """How the memory that a policy sees goes on, without the reward."""

    names: tuple[str, ...] = Field(default=(), description="what each shown number is")
    shown: int = Field(
        default=0, ge=0, description="how many numbers of the state policy.onnx sees"
    )
    start: tuple[float, ...] = Field(description="the state when an episode begins")
    keep: tuple[tuple[float, ...], ...] = Field(
        description="matrix that the state is multiplied by after every action"
    )
    action: tuple[tuple[float, ...], ...] = Field(
        description="matrix whose product with the action, scaled to [-1, 1], is then added"
    )


def no_memory(actions: int) -> MemoryLaw:
    """Return the rule of a policy that sees no memory."""
    return MemoryLaw(start=(0.0,), keep=((0.0,),), action=((0.0,) * actions,))


def find_law(
    reward: str, environment: Environment, seen: list[int], size: int, actions: int
) -> MemoryLaw:
    """Return the rule of the memory that a policy sees.

    Args:
        reward: text of the reward that it was trained with.
        environment: where.
        seen: the columns that the policy looks at; the others are shown as zeros.
        size: columns of memory that the policy takes.
        actions: numbers of an action.

    Raises:
        UsageError: it follows from what no robot computes.
    """
    if not seen:
        return _unseen(size, actions)
    names = column_names(reward)
    own = {names[column].partition(" ")[0] for column in seen if column < len(names)}
    world = told_by_the_world(reward) & own
    if world or not own:
        which = ", ".join(sorted(world)) or "numbers that its text does not name"
        raise UsageError(
            f"The policy sees what its reward remembers of the world ({which}), and a robot has "
            "no reward that remembers it.",
            hint='Train it with memory_to = "critic", or with memory that is a clock.',
        )
    memory, asked = _record(reward, environment, len(names), actions)
    shown = np.zeros((*memory.shape[:2], size))
    shown[:, :, seen] = memory[:, :, seen]
    return fit(shown, asked, tuple((*names, *["unused"] * size)[:size]))


def _unseen(size: int, actions: int) -> MemoryLaw:
    """Return the rule for memory that a policy takes and does not look at."""
    return MemoryLaw(
        names=("unused",) * size,
        shown=size,
        start=(0.0,) * size,
        keep=((0.0,) * size,) * size,
        action=((0.0,) * actions,) * size,
    )


# ------------------------------------------------------------------------- what it follows from


def column_names(source: str) -> list[str]:
    """Return a name for every column of the memory that a reward declares as plain values."""
    names: list[str] = []
    for name, value in _declared(ast.parse(source)).items():
        if not is_row(value):
            names.append(name)
            continue
        # Integers are a shape, as rewards declare them.
        is_shape = all(type(each) is int for each in value)
        width = math.prod(cast("Sequence[int]", value)) if is_shape else len(value)
        names += [f"{name} {number}" for number in range(width)]
    return names


def _declared(tree: ast.AST) -> dict[str, Any]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "memory" for target in node.targets
        ):
            try:
                return dict(ast.literal_eval(node.value))
            except (ValueError, TypeError):
                return {}
    return {}


def told_by_the_world(source: str) -> set[str]:
    """Return the names of memory that may depend on more than memory and actions.

    It reads the text and doubts: what it cannot follow, it takes to depend on the world.
    """
    tree = ast.parse(source)
    declared = set(_declared(tree))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if not functions and any("ComposedReward" in map(ast.unparse, node.bases) for node in classes):
        return {name for name in declared if name not in CLOCKS}
    computes = [node for node in functions if node.name == "compute"]
    if len(computes) != 1 or any(node.name not in ("compute",) for node in functions):
        return declared  # memory may be changed anywhere
    behind: dict[str, set[str]] = {}
    for statement in computes[0].body:
        if isinstance(statement, ast.Return) or _is_text(statement):
            continue
        targets = _targets(statement)
        if not targets or any(_changes_in_place(node) for node in ast.walk(statement)):
            return declared
        for target in targets:
            behind.setdefault(target, set()).update(_sources(statement))
    return {name for name in declared if _WORLD in _all_behind(f"memory {name}", behind)}


_WORLD = "the world"


def _all_behind(name: str, behind: dict[str, set[str]]) -> set[str]:
    """Return everything that a name follows from; a name that is never assigned is the world's."""
    found, waiting = set[str](), [name]
    while waiting:
        for source in behind.get(waiting.pop(), set()) - found:
            found.add(source)
            is_own = source in behind or source.startswith("memory ")
            waiting += [source] if is_own else []
            found |= set[str]() if is_own else {_WORLD}
    return found


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _changes_in_place(node: ast.AST) -> bool:
    """Say whether something is changed that is no target: `x.add_(y)`, `(x := y)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.endswith("_") or any(word.arg == "out" for word in node.keywords)
    return isinstance(node, ast.NamedExpr)


def _targets(statement: ast.stmt) -> set[str]:
    """Return what a statement assigns; nothing: it cannot be followed."""
    waiting: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        waiting += statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        waiting.append(statement.target)
    found = set[str]()
    while waiting:
        target = waiting.pop()
        if isinstance(target, ast.Tuple | ast.List):
            waiting += target.elts
        elif isinstance(target, ast.Name):
            found.add(target.id)
        elif (name := _memory_name(target)) is not None:
            found.add(name)
        elif isinstance(target, ast.Subscript):
            waiting.append(target.value)
        else:
            return set()
    return found


def _memory_name(node: ast.AST) -> str | None:
    """Return the name of `self.memory["name"]`."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "self.memory":
        key = node.slice
        return f"memory {key.value}" if isinstance(key, ast.Constant) else None
    return None


def _sources(statement: ast.AST) -> set[str]:
    """Return what a statement reads."""
    if (name := _memory_name(statement)) is not None:
        return {name}
    if isinstance(statement, ast.Call):
        called = ast.unparse(statement.func)
        if called in _OF_ACTIONS and statement.args:
            return _sources(statement.args[0])
    if isinstance(statement, ast.Attribute) and ast.unparse(statement) == "self.weights":
        return set()
    if isinstance(statement, ast.Name):
        return set() if statement.id in _KNOWN else {statement.id}
    return set[str]().union(*map(_sources, ast.iter_child_nodes(statement)))


# ------------------------------------------------------------------------------ the numbers of it


def fit(memory: Array, asked: Array, names: tuple[str, ...]) -> MemoryLaw:
    """Return the rule behind recorded memory; raises UsageError where no such rule foretells it.

    Args:
        memory: (episodes, steps + 1, k), from the start of each episode.
        asked: (episodes, steps, actions), scaled to [-1, 1].
        names: of the k columns.
    """
    half, size = len(memory) // 2, memory.shape[2]
    # The first step may differ: a clock is set going by it.
    now, told, after = memory[:half, 1:-1], asked[:half, 1:], memory[:half, 2:]
    ones = np.ones((*now.shape[:2], 1))
    inputs = np.concatenate((now, told, ones), axis=2).reshape(-1, size + told.shape[2] + 1)
    solution = np.linalg.lstsq(inputs, after.reshape(-1, size), rcond=None)[0].T
    solution[np.abs(solution) < _ROUNDING] = 0.0
    own, action, constant = np.split(solution, (size, size + told.shape[2]), axis=1)
    start = memory[0, 0]
    usual = own @ start + asked[:half, 0] @ action.T + constant[:, 0]
    first = (memory[:half, 1] - usual).mean(0)
    # Behind the memory, the state holds a one, and a one that is there for the first step only.
    keep = np.zeros((size + 2, size + 2))
    keep[:size, :size], keep[:size, size], keep[:size, size + 1] = own, constant[:, 0], first
    keep[size, size] = 1.0
    told_by = np.concatenate((action, np.zeros((2, action.shape[1]))))
    begins = np.concatenate((start, (1.0, 1.0)))
    off = _off(memory[half:], asked[half:], begins, keep, told_by)
    if not off <= _TOLERANCE:
        raise UsageError(
            "The policy sees memory of its reward that follows no linear rule: what the rule "
            f"foretells is off by {off:.2g} after {asked.shape[1]} steps.",
            hint='Train it with memory_to = "critic", or with memory that is a clock.',
        )
    return MemoryLaw(
        names=names,
        shown=size,
        start=tuple(begins.tolist()),
        keep=tuple(tuple(row) for row in keep.tolist()),
        action=tuple(tuple(row) for row in told_by.tolist()),
    )


def _off(memory: Array, asked: Array, start: Array, keep: Array, action: Array) -> float:
    """Return how far a rule is off over whole episodes that it was not made from."""
    state, worst, size = np.tile(start, (len(memory), 1)), 0.0, memory.shape[2]
    for step in range(memory.shape[1]):
        worst = max(worst, float(np.abs(state[:, :size] - memory[:, step]).max()))
        if step < asked.shape[1]:
            state = state @ keep.T + asked[:, step] @ action.T
    return worst


def _record(reward: str, environment: Environment, size: int, actions: int) -> tuple[Array, Array]:
    """Return memory and actions of random episodes, played by a confined process."""
    access = env_access(*environment)
    with tempfile.TemporaryDirectory() as folder:
        result = run_worker(
            "telic.training.export.memory_law",
            {"reward": reward, "environment": environment},
            writable=[Path(folder)],
            readable=access.readable,
            python_path=access.python_path,
        )
    shapes = (_EPISODES, _STEPS + 1, size), (_EPISODES, _STEPS, actions)
    named = zip(("memory", "asked"), shapes, strict=True)
    memory, asked = (_numbers(result.get(name), shape) for name, shape in named)
    return memory, asked


def _numbers(told: object, shape: tuple[int, ...]) -> Array:
    try:
        array = np.asarray(told, dtype=np.float64)
    except (ValueError, TypeError):
        raise WorkerDied("The reward's memory is no table of numbers.") from None
    if array.shape != shape or not np.abs(array).max(initial=0.0) <= _LARGEST:
        raise WorkerDied(f"The reward's memory is a table of {array.shape}, not of {shape}.")
    return array


# ---------------------------------------------- the confined side: entry of the sandbox worker


def prepare(payload: dict[str, Any], channel: HostChannel) -> None:
    """Nothing to open before the worker confines itself."""


def run(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Run the reward along random actions, and tell its memory."""
    channel.heartbeat(_RUNNING_S, "running the reward")
    name, arguments = payload["environment"]
    own: dict[str, Any] = {
        **arguments,
        "max_episode_steps": _STEPS + 1,
        "terminate_when_unhealthy": False,
    }
    env = make(name, num_envs=_EPISODES, seed=0, **own)
    reward = load_reward(payload["reward"], label="reward_fn.py")
    reward.decide(collect(env, 64))
    obs = env.reset(seed=1)
    reward.start(_EPISODES, "cpu")
    chance = torch.Generator().manual_seed(0)
    middle, half = (env.action_high + env.action_low) / 2, (env.action_high - env.action_low) / 2
    memory, asked = [reward.memory().clone()], list[torch.Tensor]()
    for _ in range(_STEPS):
        asked.append(torch.rand(middle.expand(_EPISODES, -1).shape, generator=chance) * 2.0 - 1.0)
        action = middle + half * asked[-1]
        step = env.step(action)
        reward(obs, action, step.final_obs, step.info, step.reward)
        memory.append(reward.memory().clone())
        obs = step.obs
    told = {"memory": torch.stack(memory, 1), "asked": torch.stack(asked, 1)}
    return {key: rows.numpy().tolist() for key, rows in told.items()}
