"""Define the ten search tasks. Their worlds are NumPy code or simulated robots.

Tasks are defined in `tasks.toml`. Worlds that also exist in Gymnasium reproduce Gymnasium's
results. Every array has one row per episode.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from telic.core.text import is_dict
from telic.envs.catalogue import CLASSIC
from telic.envs.factory import make
from telic.envs.vector import VecEnv
from telic.errors import ConfigError
from telic.search.task import Flags, Floats, RolloutSeeds, SearchTask, StepResult, World, uniforms

_EPISODES, _STEPS, _LONGEST = 16, 200, 1000
"""random episodes and their steps that determine scales, and the limit of episodes without one"""


@cache
def gymnasium_task(env_id: str, target: float | None) -> SearchTask:
    """Describe an environment as a task. Random episodes determine scales and the worst return.

    Raises ConfigError if neither the request nor the environment has a target return.
    """
    env = make(env_id, num_envs=_EPISODES, seed=0)
    spec, classic = env.spec, CLASSIC.get(env_id.rpartition("-v")[0])
    target = spec.solved_return if target is None else target
    if target is None:
        raise ConfigError(
            f"{env_id} does not define a return at which it counts as solved.",
            hint="Specify the return to reach, e.g. --target 200.",
        )
    seen, worst = _random_steps(env)
    env.close()
    ends = np.quantile(seen, (0.01, 0.99), axis=0)
    rows = zip(spec.obs_names, ends.mean(0), np.ptp(ends, axis=0) / 2, strict=True)
    numbered = tuple(f"action {number}" for number in range(spec.num_actions or 0))
    task = {
        "id": env_id,
        "story": spec.description,
        "rewards": "As the environment defines them.",
        "observations": [(name, float(f"{c:.2g}"), float(f"{h or 1:.2g}")) for name, c, h in rows],
        "actions": (classic and classic.choices) or numbered or spec.action_names,
        # The world scales continuous actions.
        **({"action_low": -1.0, "action_high": 1.0} if spec.num_actions is None else {}),
        "time_limit": spec.max_episode_steps or _LONGEST,
        **dict.fromkeys(("target", "good", "solved"), target),
        "worst": min(worst, target),
    }
    return SearchTask.model_validate(task)


def _random_steps(env: VecEnv) -> tuple[Floats, float]:
    """Return observations after random actions, and the lowest return of an episode."""
    import torch

    generator, seen, total, worst = torch.Generator().manual_seed(0), [env.reset()], 0.0, 0.0
    for _ in range(_STEPS):
        share = torch.rand((env.num_envs, env.act_dim), generator=generator)
        action = env.action_low + (env.action_high - env.action_low) * share
        if env.spec.num_actions is not None:
            action = (share[:, 0] * env.spec.num_actions).long()
        step = env.step(action)
        seen.append(step.obs)
        total = total + step.reward
        worst = min(worst, float(total.min()))
        total = total * ~(step.terminated | step.truncated)
    return torch.cat(seen).double().numpy(), worst


_GRAVITY, _FORCE, _DT = 9.8, 10.0, 0.02
_POLE_MASS, _TOTAL_MASS, _LENGTH = 0.1, 1.1, 0.5
_POLE_MASS_LENGTH = _POLE_MASS * _LENGTH
_ANGLE_LIMIT, _PLACE_LIMIT = 12 * 2 * math.pi / 360, 2.4


class _Rows:
    """Base class for worlds whose state consists of arrays with one row per episode."""

    most_rows = 4096
    state: ClassVar[tuple[str, ...]] = ()
    """names of the state arrays"""

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows."""
        for name in self.state:
            setattr(self, name, getattr(self, name)[rows])


class _CartPole:
    """Batched cart-pole, integrated with Euler steps of 0.02 s."""

    most_rows = 4096

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start near the center, nearly upright and at rest."""
        self._state: Floats = np.ascontiguousarray(uniforms(seeds, 4).T * 0.1 - 0.05)  # (4, N)
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Apply a force to the left or right."""
        _, x_dot, angle, angle_dot = self._state
        force = np.where(action == 1, _FORCE, -_FORCE)
        cos, sin = np.cos(angle), np.sin(angle)
        pushed = (force + _POLE_MASS_LENGTH * np.square(angle_dot) * sin) / _TOTAL_MASS
        angle_acc = (_GRAVITY * sin - cos * pushed) / (
            _LENGTH * (4.0 / 3.0 - _POLE_MASS * np.square(cos) / _TOTAL_MASS)
        )
        x_acc = pushed - _POLE_MASS_LENGTH * angle_acc * cos / _TOTAL_MASS
        change = np.array((x_dot, x_acc, angle_dot, angle_acc))
        self._state = self._state + _DT * change
        fallen = (np.abs(self._state[0]) > _PLACE_LIMIT) | (np.abs(self._state[2]) > _ANGLE_LIMIT)
        return StepResult(self._seen(), np.ones(len(action)), fallen)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows."""
        self._state = np.ascontiguousarray(self._state[:, rows])

    def _seen(self) -> NDArray[Any]:
        return self._state.T.astype(np.float32)


class MountainCar(_Rows):
    """Batched mountain car with discrete actions."""

    state = ("_place", "_speed")

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start at rest near the bottom of the valley."""
        self._place = uniforms(seeds, 1)[:, 0] * 0.2 - 0.6
        self._speed = np.zeros(len(seeds))
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Accelerate to the left, not at all, or to the right."""
        speed = self._speed + ((action - 1) * 0.001 + np.cos(3 * self._place) * -0.0025)
        speed = np.clip(speed, -0.07, 0.07)
        place = np.clip(self._place + speed, -1.2, 0.6)
        speed[(place == -1.2) & (speed < 0)] = 0.0
        self._place, self._speed = place, speed
        arrived = (place >= 0.5) & (speed >= 0)
        return StepResult(self._seen(), np.full(len(place), -1.0), arrived)

    def _seen(self) -> NDArray[Any]:
        return np.stack((self._place, self._speed), axis=1).astype(np.float32)


class MountainCarContinuous(MountainCar):
    """Mountain car with continuous actions. The state is float32, as in Gymnasium."""

    def step(self, action: NDArray[Any]) -> StepResult:
        """Accelerate by the action."""
        push = action[:, 0]
        force = np.clip(push, -1.0, 1.0)
        speed = self._speed + (force * 0.0015 - 0.0025 * np.cos(3 * self._place))
        speed = np.clip(speed, -0.07, 0.07)
        place = np.clip(self._place + speed, -1.2, 0.6)
        speed[(place == -1.2) & (speed < 0)] = 0.0
        arrived = (place >= 0.45) & (speed >= 0)
        # Gymnasium rounds its state to float32 after every step.
        self._place = place.astype(np.float32).astype(np.float64)
        self._speed = speed.astype(np.float32).astype(np.float64)
        return StepResult(self._seen(), 100.0 * arrived - 0.1 * np.square(push), arrived)


MAZE = "Maze-v0"
_MAX_WALK = 100  # steps, with one random number each
_HOLES, _LAKE_GOAL = (5, 7, 11, 12), 15
DOORS = ("SE", "EW", "SW", "NS", "E", "NW", "NE", "EW", "W")
_COMPASS = {"N": -3, "S": 3, "E": 1, "W": -1}


class Grid(_Rows):
    """Batched grid world. Each transition leads to one of several equally likely fields."""

    state = ("_field", "_outcome")

    def __init__(self, following: NDArray[np.int64], reward: Floats, ending: Flags) -> None:
        """Create a grid from its next fields (states, actions, outcomes), rewards and ends."""
        self.following, self.reward, self.ending = following, reward, ending

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start on field 0."""
        self._field = np.zeros(len(seeds), np.int64)
        outcomes = self.following.shape[2]
        self._outcome = (uniforms(seeds, _MAX_WALK) * outcomes).astype(np.int64)
        self._turn = 0
        return self._field

    def step(self, action: NDArray[Any]) -> StepResult:
        """Take a step."""
        self._field = self.following[self._field, action, self._outcome[:, self._turn]]
        self._turn += 1
        return StepResult(self._field, self.reward[self._field], self.ending[self._field])


def frozen_lake() -> Grid:
    """Return Gymnasium's slippery frozen lake."""
    row, column = np.divmod(np.arange(16), 4)
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))
    landed = np.stack(
        [np.clip(row + dr, 0, 3) * 4 + np.clip(column + dc, 0, 3) for dr, dc in moves], axis=1
    )
    slips = np.array([[(a - 1) % 4, a, (a + 1) % 4] for a in range(4)])
    following = landed[:, slips]  # (16, 4, 3)
    reward = (np.arange(16) == _LAKE_GOAL).astype(np.float64)
    ending = np.isin(np.arange(16), (*_HOLES, _LAKE_GOAL))
    following[ending] = np.arange(16)[ending][:, None, None]
    return Grid(following, reward, ending)


def _maze() -> Grid:
    """Return a maze of 3 x 3 rooms."""
    following = np.array(
        [
            [[room + _COMPASS[d] if d in doors else room] for d in "NSEW"]
            for room, doors in enumerate(DOORS)
        ]
    )
    at_goal = np.arange(9) == 8
    return Grid(following, np.where(at_goal, 1.0, -0.1 / 9), at_goal)


_STICKS, _MAX_TAKEN = 10, 3


class Nim(_Rows):
    """Batched games of Nim against a perfect opponent."""

    state = ("_sticks", "_draws")

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start with ten sticks."""
        self._sticks = np.full(len(seeds), _STICKS)
        self._draws = uniforms(seeds, _STICKS)
        self._turn = 0
        return self._sticks

    def step(self, action: NDArray[Any]) -> StepResult:
        """Take sticks, then apply the opponent's move."""
        sticks = self._sticks
        illegal = (action < 1) | (action > _MAX_TAKEN) | (action > sticks)
        left = np.where(illegal, 0, sticks - action)
        lost = illegal | (left == 0)
        # Perfect play leaves 1, 5, 9, ... sticks. If impossible, the opponent moves at random.
        perfect = (left - 1) % 4
        legal = np.minimum(left, _MAX_TAKEN)
        anything = 1 + (self._draws[:, self._turn] * legal).astype(np.int64)
        left = np.where(lost, 0, left - np.where(perfect > 0, perfect, anything))
        won = ~lost & (left == 0)
        self._sticks = left
        self._turn += 1
        return StepResult(left, won * 1.0 - lost * 1.0, won | lost)


_WIDTH, _HEIGHT, _PADDLE, _BALL, _SPEED = 800.0, 600.0, 80.0, 10.0, 5.0
_LOWEST = _HEIGHT - _PADDLE
_FACE = 10.0  # width of a paddle


class Pong(_Rows):
    """Batched Pong against a tracking opponent, with positions in pixels."""

    state = ("_own", "_other", "_x", "_y", "_dx", "_dy")

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start with the ball in the center, moving left or right."""
        draws = uniforms(seeds, 2)
        count = len(seeds)
        self._own = np.full(count, (_HEIGHT - _PADDLE) / 2)
        self._other = self._own.copy()
        self._x, self._y = np.full(count, _WIDTH / 2), np.full(count, _HEIGHT / 2)
        self._dx = np.where(draws[:, 0] < 0.5, -_SPEED, _SPEED)
        self._dy = draws[:, 1] * 2 * _SPEED - _SPEED
        return self._seen()

    def step(self, action: NDArray[Any]) -> StepResult:
        """Move the paddle, the opponent and the ball in this order."""
        wish = np.where(action == 0, -_SPEED, np.where(action == 1, _SPEED, 0.0))
        self._own = np.clip(self._own + wish, 0.0, _LOWEST)
        chase = np.sign(self._y - (self._other + _PADDLE / 2)) * _SPEED
        self._other = np.clip(self._other + chase, 0.0, _LOWEST)
        x, y = self._x + self._dx, self._y + self._dy
        dx, dy = self._dx, np.where((y <= 0) | (y >= _HEIGHT - _BALL), -self._dy, self._dy)
        hit = (dx < 0) & (x <= _FACE) & (self._own <= y) & (y <= self._own + _PADDLE)
        back = (
            (dx > 0)
            & (x >= _WIDTH - _FACE - _BALL)
            & (self._other <= y)
            & (y <= self._other + _PADDLE)
        )
        met = np.where(hit, self._own, self._other)
        turned = hit | back
        dy = np.where(turned, _SPEED * (2.0 * (y - met) / _PADDLE - 1.0), dy)
        self._x, self._y, self._dx, self._dy = x, y, np.where(turned, -dx, dx), dy
        return StepResult(self._seen(), hit.astype(np.float64), (x < 0) | (x > _WIDTH - _BALL))

    def _seen(self) -> NDArray[Any]:
        seen = (self._own + _PADDLE / 2, self._x, self._y, self._dx, self._dy)
        return np.stack(seen, axis=1).astype(np.float32)


class _Physics:
    """N simulated episodes in batches of power-of-two sizes, compacted as episodes end."""

    most_rows = 64

    def __init__(self, env: str, *, can_fall: bool = False, is_foreign: bool = False) -> None:
        self._id, self._can_fall, self._is_foreign = env, can_fall, is_foreign
        self._envs: dict[int, Any] = {}

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start one episode per seed."""
        import torch

        self._torch = torch
        self._use(len(seeds))
        numbers = (seeds >> np.uint64(33)).astype(np.int64).tolist()
        numbers += [numbers[-1]] * (self._env.num_envs - len(numbers))
        self._env.reset(seed=numbers)
        return self._env.exact_obs.numpy()[self._rows]

    def step(self, action: NDArray[Any]) -> StepResult:
        """Simulate one control step."""
        if self._is_foreign and action.ndim > 1:
            low, high = np.array((self._env.spec.action_low, self._env.spec.action_high))
            action = low + (action + 1.0) / 2.0 * (high - low)
        self._action[self._rows] = action
        moved = self._env.step(self._torch.as_tensor(self._action))
        rows = self._rows
        fallen = np.zeros(len(rows), bool)
        if self._can_fall:
            fallen = (moved.info["reward_survive"] == 0).numpy()[rows]
        elif self._is_foreign:
            fallen = (moved.terminated | moved.truncated).numpy()[rows]
        reward = moved.reward.double() if self._is_foreign else self._env.exact_reward
        return StepResult(self._env.exact_final_obs.numpy()[rows], reward.numpy()[rows], fallen)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only the given rows and move them to a smaller batch if possible."""
        self._rows = self._rows[rows]
        if self._is_foreign:  # its states can only be replayed
            return
        if _size(len(rows)) < self._env.num_envs:
            state, chosen = self._env.state_dict(), self._rows
            self._use(len(rows))
            spare = self._env.num_envs - len(rows)
            chosen = self._torch.as_tensor(np.concatenate((chosen, chosen[:1].repeat(spare))))
            self._env.load_state_dict(_sliced(state, chosen))

    def _use(self, count: int) -> None:
        """Select a simulation of at least `count` episodes. Each size is built only once."""
        size = _size(count)
        if size not in self._envs:
            from telic.envs.factory import make

            # Falls are detected from the reward; an automatic reset would waste time.
            fixed: dict[str, Any] = {"terminate_when_unhealthy": False} if self._can_fall else {}
            self._envs[size] = make(self._id, num_envs=size, **fixed)
        self._env = self._envs[size]
        self._rows = np.arange(count)
        is_discrete = self._env.spec.num_actions is not None
        shape = (size,) if is_discrete else (size, self._env.act_dim)
        self._action = np.zeros(shape, np.int64 if is_discrete else np.float64)


def _size(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def _sliced(state: Any, rows: Any) -> Any:
    """Return selected rows of an environment's state."""
    if is_dict(state):
        return {name: _sliced(part, rows) for name, part in state.items()}
    return state[rows] if hasattr(state, "dtype") else state


_WORLDS: dict[str, Callable[[], World]] = {
    "CartPole-v1": _CartPole,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "InvertedPendulum-v5": partial(_Physics, "InvertedPendulum-v5", can_fall=True),
    "InvertedDoublePendulum-v5": partial(_Physics, "InvertedDoublePendulum-v5", can_fall=True),
    "Swimmer-v5": partial(_Physics, "Swimmer-v5", can_fall=False),
    "FrozenLake-v1": frozen_lake,
    MAZE: _maze,
    "Nim-v0": Nim,
    "Pong-v0": Pong,
}

TASKS = tuple(_WORLDS)


def find_task(name: str, target: float | None = None) -> SearchTask:
    """Return a task by id, or any Gymnasium environment. Raises UnknownName or ConfigError."""
    if name not in _WORLDS:
        return gymnasium_task(name, target)
    aims = {} if target is None else dict.fromkeys(("target", "good", "solved"), target)
    return _tasks()[name].model_copy(update=aims)


def make_world(task: SearchTask) -> World:
    """Create a world that steps episodes of the task in a batch."""
    own = _WORLDS.get(task.id)
    return own() if own is not None else _Physics(task.id, is_foreign=True)


@cache
def _tasks() -> dict[str, SearchTask]:
    table = tomllib.loads((Path(__file__).parent / "tasks.toml").read_text(encoding="utf-8"))
    return {name: SearchTask.model_validate({"id": name, **row}) for name, row in table.items()}
