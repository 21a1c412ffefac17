"""InvertedPendulum, InvertedDoublePendulum and Swimmer, on the batched simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.environments.task import ObservedNumber, SearchTask, Seeds, StepResult

PENDULUM = SearchTask(
    id="InvertedPendulum-v5",
    story="A pole stands on a cart that is pushed along a rail with a force from -3 to 3. Keep the "
    "pole upright.",
    rewards="1 for every step. The episode ends when the pole leans more than 0.2 rad, or after "
    "1000 steps.",
    observations=(
        ObservedNumber("cart position", 0.0, 1.0),
        ObservedNumber("pole angle", 0.0, 0.2),
        ObservedNumber("cart velocity", 0.0, 1.5),
        ObservedNumber("pole angular velocity", 0.0, 1.5),
    ),
    actions=("force",),
    action_low=-3.0,
    action_high=3.0,
    time_limit=1000,
    target=1000.0,
    good=950.0,
    solved=1000.0,
    rollouts=3,
    excerpts=3,
)
DOUBLE_PENDULUM = SearchTask(
    id="InvertedDoublePendulum-v5",
    story="A pole stands on a pole that stands on a cart, which is pushed along a rail with a "
    "force from -1 to 1. Keep both poles upright.",
    rewards="about 10 for every step, less when the tip is away from its place or the poles turn. "
    "The episode ends when the tip is lower than 1 m, or after 1000 steps.",
    observations=(
        ObservedNumber("cart position", 0.0, 5.0),
        ObservedNumber("sine of the lower pole's angle", 0.0, 0.5),
        ObservedNumber("sine of the upper pole's angle", 0.0, 0.5),
        ObservedNumber("cosine of the lower pole's angle", 1.0, 0.5),
        ObservedNumber("cosine of the upper pole's angle", 1.0, 0.5),
        ObservedNumber("cart velocity", 0.0, 5.0),
        ObservedNumber("lower pole's angular velocity", 0.0, 5.0),
        ObservedNumber("upper pole's angular velocity", 0.0, 5.0),
        ObservedNumber("force of the rail's end", 0.0, 50.0),
    ),
    actions=("force",),
    action_low=-1.0,
    action_high=1.0,
    time_limit=1000,
    target=9350.0,
    good=9000.0,
    solved=9000.0,
    step_size=0.5,
    rollouts=3,
)
SWIMMER = SearchTask(
    id="Swimmer-v5",
    story="A chain of three links lies in a viscous fluid; two motors bend its joints with torques "
    "from -1 to 1. Swim forward, along x.",
    rewards="the forward velocity, minus 0.0001 times the squared torques. The episode ends after "
    "1000 steps.",
    observations=(
        ObservedNumber("angle of the front link", 0.0, 1.0),
        ObservedNumber("angle of the first joint", 0.0, 1.75),
        ObservedNumber("angle of the second joint", 0.0, 1.75),
        ObservedNumber("velocity x", 0.0, 1.0),
        ObservedNumber("velocity y", 0.0, 1.0),
        ObservedNumber("angular velocity of the front link", 0.0, 3.0),
        ObservedNumber("angular velocity of the first joint", 0.0, 5.0),
        ObservedNumber("angular velocity of the second joint", 0.0, 5.0),
    ),
    actions=("torque at the first joint", "torque at the second joint"),
    action_low=-1.0,
    action_high=1.0,
    time_limit=1000,
    target=350.0,
    good=330.0,
    solved=300.0,
    step_size=0.5,
    rollouts=1,
    excerpts=3,
    edit_levels=(0.06, 0.4, 0.9),
)


class Physics:
    """N episodes on the simulator, in batches of few sizes; rows that ended make room."""

    most_rows = 64

    def __init__(self, task: SearchTask) -> None:
        self._id = task.id
        self._can_fall = task.id != SWIMMER.id
        self._envs: dict[int, Any] = {}

    def start(self, seeds: Seeds) -> NDArray[Any]:
        """Begin one episode per seed."""
        import torch

        self._torch = torch
        self._use(len(seeds))
        numbers = (seeds >> np.uint64(33)).astype(np.int64).tolist()
        numbers += [numbers[-1]] * (self._env.num_envs - len(numbers))
        self._env.reset(seed=numbers)
        return self._env.exact_obs.numpy()[self._rows]

    def step(self, action: NDArray[Any]) -> StepResult:
        """Make one control step."""
        self._action[self._rows] = action
        moved = self._env.step(self._torch.from_numpy(self._action))
        rows = self._rows
        fallen = np.zeros(len(rows), bool)
        if self._can_fall:
            fallen = (moved.info["reward_survive"] == 0).numpy()[rows]
        obs, reward = self._env.exact_final_obs, self._env.exact_reward
        return StepResult(obs.numpy()[rows], reward.numpy()[rows], fallen)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows only, in a smaller batch where they fit into one."""
        self._rows = self._rows[rows]
        if _size(len(rows)) < self._env.num_envs:
            state, chosen = self._env.state_dict(), self._rows
            self._use(len(rows))
            spare = self._env.num_envs - len(rows)
            chosen = self._torch.from_numpy(np.concatenate((chosen, chosen[:1].repeat(spare))))
            self._env.load_state_dict(_sliced(state, chosen))

    def _use(self, count: int) -> None:
        """Take a simulation with room for that many episodes; making one is dear, so keep them."""
        size = _size(count)
        if size not in self._envs:
            from telic.envs import make

            # Who has fallen is told by the reward; a new start of its own would be wasted.
            fixed: dict[str, Any] = {"terminate_when_unhealthy": False} if self._can_fall else {}
            self._envs[size] = make(self._id, num_envs=size, **fixed)
        self._env = self._envs[size]
        self._rows = np.arange(count)
        self._action = np.zeros((size, self._env.act_dim))


def _size(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def _sliced(state: Any, rows: Any) -> Any:
    """Return an environment's state with some of its rows."""
    if isinstance(state, dict):
        return {name: _sliced(item, rows) for name, item in state.items()}
    return state[rows] if hasattr(state, "dtype") else state
