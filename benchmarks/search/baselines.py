"""Run Stable-Baselines3 on the same tasks, budgets and measurements, for comparison.

    python benchmarks/search/baselines.py CartPole-v1 ppo [--runs 10] [--steps 100000]

The budget counts training episodes, or environment steps if these are given. Evaluations are not
counted and take place at ten fixed points for every algorithm. Settings are those of RL Baselines3
Zoo (`zoo.toml`) if it has the task, or else the library's defaults. Observations are scaled as for
searched policies. Where the Zoo normalizes them, evaluations use the normalization of training.
"""

from __future__ import annotations

import argparse
import time
import tomllib
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray

from telic.core.seeds import derive
from telic.errors import ConfigError, MissingExtra, UnknownName
from telic.search.plan import SearchPlan, make_plan
from telic.search.policies import Weights
from telic.search.records import (
    NO_MODEL,
    PolicyCandidate,
    SearchConfig,
    SearchIteration,
    TrialEpisodes,
)
from telic.search.runner import summarize_search_run
from telic.search.task import Floats, Player, PolicyTrial, SearchTask, rollout_seeds
from telic.search.worlds import make_world

CHOICES, NUMBERS = ("dqn", "a2c", "ppo", "trpo"), ("ddpg", "td3", "sac", "a2c", "ppo", "trpo")
_POINTS = 10
_FOREVER = 10**9
_LINEAR, _WANDERING = "linear ", "ornstein-uhlenbeck "


def zoo() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the settings of RL Baselines3 Zoo, by algorithm and task."""
    return tomllib.loads((Path(__file__).parent / "zoo.toml").read_text(encoding="utf-8"))


class TrainedBaseline(NamedTuple):
    """Trained network, with its player and its history."""

    player: Player
    iterations: list[SearchIteration]


def train(plan: SearchPlan, name: str, number: int, steps: int | None) -> TrainedBaseline:
    """Train one run of an algorithm, for the episodes of the plan or for a number of steps."""
    seed = derive(plan.config.seed, plan.task.id, "run", number)
    algorithm = find_algorithm(name, plan.task)
    settings = zoo().get(name, {}).get(plan.task.id)
    spent = TrainingSpent(plan.config.episodes, steps)
    envs, normalizer = _make_envs(plan, seed, spent, settings)
    model = algorithm("MlpPolicy", envs, seed=seed, device="cpu", **_arguments(settings, plan.task))

    def update_progress(steps: int, total: int) -> None:
        model._current_progress_remaining = 1.0 - spent.share(steps)

    # Schedules and exploration follow the share of the budget, whichever way it is counted.
    model._update_current_progress_remaining = update_progress
    network = TrainedNetwork(model, plan, normalizer)
    player = Player(plan.task, make_world(plan.task), network, cap=plan.task.cap, clips=True)
    watch = _watcher(plan, seed, player, spent, network)
    model.learn(_FOREVER, callback=watch)
    network.restore()
    return TrainedBaseline(player, watch.iterations)


@contextmanager
def _alone() -> Generator[None]:
    """Train on one thread, which is faster for such small networks, and ignore small batches."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def _make_envs(
    plan: SearchPlan, seed: int, spent: TrainingSpent, settings: dict[str, Any] | None
) -> tuple[Any, Any]:
    """Return environments for the library, and their observation normalization."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    settings = settings or {}

    def make() -> TaskEnv:
        return TaskEnv(plan, seed, spent)

    envs = DummyVecEnv([make] * settings.get("n_envs", 1))
    if not settings.get("normalize"):
        return envs, None
    normalizer = VecNormalize(envs, gamma=settings.get("gamma", 0.99))
    return normalizer, normalizer


def _arguments(settings: dict[str, Any] | None, task: SearchTask) -> dict[str, Any]:
    """Return the settings of the algorithm."""
    out: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        if name == "noise":
            from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise

            size = np.full(len(task.actions), float(value.removeprefix(_WANDERING)))
            out["action_noise"] = OrnsteinUhlenbeckActionNoise(np.zeros(len(size)), size)
        elif isinstance(value, str) and value.startswith(_LINEAR):
            out[name] = _falling(float(value.removeprefix(_LINEAR)))
        elif name not in ("n_envs", "normalize"):
            out[name] = deepcopy(value)  # the library adds to what it is given
    return out


def _falling(start: float) -> Callable[[float], float]:
    return lambda left: start * left


class TrainingSpent:
    """Used part of a budget, in episodes or, if these are given, environment steps."""

    def __init__(self, episodes: int, steps: int | None) -> None:
        self._episodes, self._steps = episodes, steps
        self.begun = self.ended = 0

    def share(self, steps: int) -> float:
        """Return the used fraction of the budget after a number of steps."""
        used = self.ended / self._episodes if self._steps is None else steps / self._steps
        return min(1.0, used)


class TaskEnv(gymnasium.Env):
    """Gymnasium environment with one episode at a time and one-hot states for tables."""

    def __init__(self, plan: SearchPlan, seed: int, spent: TrainingSpent) -> None:
        task = plan.task
        self._task, self._world, self._seed, self._spent = task, make_world(task), seed, spent
        self._see = _Seen(plan)
        self._limit = min(plan.task.cap or task.time_limit, task.time_limit)
        self._steps = 0
        width = task.states or len(task.observations)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        if task.action_low is not None and task.action_high is not None:
            shape = (len(task.actions),)
            self.action_space = gymnasium.spaces.Box(task.action_low, task.action_high, shape)
        else:
            self.action_space = gymnasium.spaces.Discrete(len(task.actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin the next episode of this run."""
        self._steps = 0
        obs = self._world.start(rollout_seeds(derive(self._seed, "train", self._spent.begun), 1))
        self._spent.begun += 1
        return self._see(obs)[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one step."""
        chosen = np.asarray(action)[None]
        moved = self._world.step(
            chosen if self._task.is_continuous else chosen + self._task.first_action
        )
        self._steps += 1
        terminated, is_late = bool(moved.terminated[0]), self._steps >= self._limit
        self._spent.ended += terminated or is_late
        return self._see(moved.obs)[0], float(moved.reward[0]), terminated, is_late, {}


class _Seen:
    """Observations of a network, scaled as for searched policies, with one-hot states."""

    def __init__(self, plan: SearchPlan) -> None:
        task = plan.task
        self._states = task.states
        self._center = np.array([observation.center for observation in task.observations])
        self._half = np.array([observation.half_range for observation in task.observations])
        if not plan.protocol.is_scaled:
            self._center, self._half = 0.0 * self._center, np.ones_like(self._half)

    def __call__(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        if self._states is not None:
            return np.eye(self._states, dtype=np.float32)[obs]
        return ((obs - self._center) / self._half).astype(np.float32)


class TrainedNetwork:
    """Trained network in place of a searched policy, without parameters to search."""

    def __init__(self, model: Any, plan: SearchPlan, normalizer: Any) -> None:
        self.space = plan.policy.space
        self._model, self._task, self._see = model, plan.task, _Seen(plan)
        self._normalizer = normalizer
        self._best: tuple[float, Any, Any] = (-np.inf, None, None)

    def keep(self, mean: float) -> None:
        """Store the network and its normalization if it is the best so far."""
        if mean > self._best[0]:
            scale = self._normalizer and deepcopy(self._normalizer.obs_rms)
            self._best = (mean, deepcopy(self._model.policy.state_dict()), scale)

    def restore(self) -> None:
        """Restore the best network."""
        _, weights, scale = self._best
        self._model.policy.load_state_dict(weights)
        if self._normalizer:
            self._normalizer.obs_rms = scale

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return no parameters."""
        return np.empty(0)

    def weights(self, params: Floats) -> Weights:
        """Return nothing, because the network has its own weights."""
        return ()

    def network(self, params: tuple[float, ...]) -> NoReturn:
        """Fail, because the network of another library cannot be exported."""
        raise NotImplementedError

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Act without exploration."""
        seen = self._see(obs)
        if self._normalizer:
            seen = self._normalizer.normalize_obs(seen)
        action, _ = self._model.predict(seen, deterministic=True)
        return action if self._task.is_continuous else action + self._task.first_action


def find_algorithm(name: str, task: SearchTask) -> Any:
    """Return the class of an algorithm, or raise UsageError if it does not fit the task."""
    known = NUMBERS if task.is_continuous else CHOICES
    if name not in {*CHOICES, *NUMBERS}:
        raise UnknownName("algorithm of Stable-Baselines3", name, sorted({*CHOICES, *NUMBERS}))
    if name not in known:
        kind = "numbers" if task.is_continuous else "choices"
        raise ConfigError(
            f"{name} does not apply to {task.id}, whose actions are {kind}.",
            hint=f"Use one of: {', '.join(known)}.",
        )
    package = "sb3-contrib" if name == "trpo" else "stable-baselines3"
    try:
        library = import_module(package.replace("-", "_"))
    except ImportError:
        raise MissingExtra(package, "sb3", f"The baseline {name}") from None
    return getattr(library, name.upper())


def _watcher(
    plan: SearchPlan,
    seed: int,
    player: Player,
    spent: TrainingSpent,
    network: TrainedNetwork,
) -> Any:
    """Return a callback that evaluates at fixed points and ends training with the budget."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watcher(BaseCallback):
        iterations: list[SearchIteration]

        def __init__(self) -> None:
            super().__init__()
            self.iterations = []

        def _on_step(self) -> bool:
            if spent.share(self.num_timesteps) * _POINTS >= len(self.iterations) + 1:
                self._evaluate()
            return len(self.iterations) < _POINTS

        def _evaluate(self) -> None:
            number = len(self.iterations) + 1
            root = derive(seed, "evaluate", number)
            seeds = rollout_seeds(root, plan.rollouts)[None, :]
            (rollouts,) = player.play([PolicyTrial(np.empty((1, 0)), seeds)])
            tried = TrialEpisodes.of(root, rollouts, 0)
            candidate = PolicyCandidate(number=number, params=(), origin="sb3", tried=tried)
            network.keep(candidate.mean)
            best = max(
                [candidate, *(iteration.candidates[0] for iteration in self.iterations)],
                key=lambda each: each.mean,
            )
            self.iterations.append(
                SearchIteration(
                    number=number,
                    candidates=(candidate,),
                    selected=number,
                    winner="first",
                    incumbent=best.number,
                    incumbent_mean=best.mean,
                    episodes=spent.ended,
                    steps=self.num_timesteps,
                    model=NO_MODEL,
                )
            )

    return Watcher()


def main():
    """Train the runs of one baseline, and print their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("algorithm", choices=sorted({*CHOICES, *NUMBERS}))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=4000)
    parser.add_argument("--steps", type=int, help="budget in environment steps instead of episodes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    request = {"env": options.env, "method": "random", "switches": {"confirm": 0}}
    config = SearchConfig.parse({**request, "episodes": options.episodes, "seed": options.seed})
    plan = make_plan(config)
    for number in range(1, options.runs + 1):
        started = time.monotonic()
        with _alone():
            trained = train(plan, options.algorithm, number, options.steps)
        seconds = time.monotonic() - started
        found = summarize_search_run(
            plan, trained.player, number, trained.iterations, "completed", seconds
        )
        print(
            f"run {number}: fresh {found.fresh.mean:.4g}, best seen {found.best_seen:.4g}, ", end=""
        )
        print(f"{found.steps} steps, {seconds:.0f} s")


if __name__ == "__main__":
    main()
