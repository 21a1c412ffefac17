"""Stable-Baselines3 on the same tasks, budgets and measurements, for comparison.

The budget counts training episodes. Evaluations come on top, at ten fixed points, for every
algorithm alike; observations are scaled as for searched policies, in training and evaluation. A run
that was cut off is done again from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from telic.core.events import Listener, SearchRunEnd, from_facts, ignore
from telic.core.seeds import derive
from telic.errors import ConfigError, MissingExtra, UnknownName
from telic.search.plan import SearchPlan, make_plan
from telic.search.policies import PolicyFamily, Weights
from telic.search.records import (
    NO_MODEL,
    PolicyCandidate,
    SearchConfig,
    SearchFolder,
    SearchIteration,
    SearchRunSummary,
)
from telic.search.results import summarise
from telic.search.rollouts import Player, PolicyTrial
from telic.search.run import tried_of
from telic.search.task import Floats, SearchTask, rollout_seeds
from telic.search.worlds import make_world
from telic.storage.files import JsonLines, write_json

CHOICES, NUMBERS = ("dqn", "a2c", "ppo", "trpo"), ("ddpg", "td3", "sac", "a2c", "ppo", "trpo")
_POINTS = 10
_FOREVER = 10**9


def do_baselines(
    config: SearchConfig,
    path: Path,
    numbers: Sequence[int],
    *,
    emit: Listener = ignore,
    should_stop: Callable[[], bool] | None = None,
) -> list[SearchRunSummary]:
    """Train the runs of a baseline one after the other and return what they came to."""
    folder, plan = SearchFolder(path), make_plan(config)
    stop = should_stop or folder.stop.exists
    summaries: list[SearchRunSummary] = []
    for number in numbers:
        with folder.holding([number]):
            summary = _do_baseline(plan, folder, number, stop)
        if summary is None:
            break
        summaries.append(summary)
        emit(from_facts(SearchRunEnd, summary.model_dump(mode="json")))
    return summaries


def _do_baseline(
    plan: SearchPlan, folder: SearchFolder, number: int, stop: Callable[[], bool]
) -> SearchRunSummary | None:
    """Train one run and write down what it came to; None when somebody asked to stop."""
    log = folder.run(number).iterations
    log.unlink(missing_ok=True)
    started = time.monotonic()
    trained = train(plan, number, stop)
    if trained is None:
        return None
    with JsonLines(log) as lines:
        for iteration in trained.iterations:
            lines.append(iteration.model_dump(mode="json"))
    seconds = time.monotonic() - started
    summary = summarise(plan, trained.player, number, trained.iterations, "completed", seconds)
    write_json(folder.run(number).summary, summary)
    return summary


class TrainedBaseline(NamedTuple):
    """A trained network, who plays it, and how it came about."""

    player: Player
    iterations: list[SearchIteration]


def train(plan: SearchPlan, number: int, should_stop: Callable[[], bool]) -> TrainedBaseline | None:
    """Train one run; None when somebody asked to stop."""
    seed = derive(plan.config.seed, plan.task.id, "run", number)
    env = TaskEnv(plan.task, plan.terms.cap, seed)
    algorithm = find_algorithm(plan.config.method, plan.task)
    model = algorithm("MlpPolicy", env, seed=seed, device="cpu")
    network = TrainedNetwork(model, plan.policy, env)
    player = Player(plan.task, make_world(plan.task), network, cap=plan.terms.cap, clips=True)
    watch = _watcher(plan, seed, player, env, network, should_stop)
    model.learn(_FOREVER, callback=watch)
    if len(watch.iterations) < _POINTS:
        return None
    network.restore()
    return TrainedBaseline(player, watch.iterations)


class TaskEnv(gymnasium.Env):
    """One episode at a time, as Gymnasium has it; states of a table are shown one-hot."""

    def __init__(self, task: SearchTask, cap: int | None, seed: int) -> None:
        self.task, self._world, self._seed = task, make_world(task), seed
        self._limit = min(cap or task.time_limit, task.time_limit)
        self.episodes = self._steps = 0
        width = task.states or len(task.observations)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (width,), np.float32)
        if task.action_low is not None and task.action_high is not None:
            shape = (len(task.actions),)
            self.action_space = gymnasium.spaces.Box(task.action_low, task.action_high, shape)
        else:
            self.action_space = gymnasium.spaces.Discrete(len(task.actions))

    def seen(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return observations as the network gets them."""
        if self.task.states is not None:
            return np.eye(self.task.states, dtype=np.float32)[obs]
        centre = [observation.centre for observation in self.task.observations]
        half = [observation.half_range for observation in self.task.observations]
        return ((obs - np.array(centre)) / np.array(half)).astype(np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin the next episode of this run."""
        self._steps = 0
        obs = self._world.start(rollout_seeds(derive(self._seed, "train", self.episodes), 1))
        return self.seen(obs)[0], {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Make one step."""
        chosen = np.asarray(action)[None]
        moved = self._world.step(
            chosen if self.task.is_continuous else chosen + self.task.first_action
        )
        self._steps += 1
        terminated, is_late = bool(moved.terminated[0]), self._steps >= self._limit
        self.episodes += terminated or is_late
        return self.seen(moved.obs)[0], float(moved.reward[0]), terminated, is_late, {}


class TrainedNetwork:
    """A trained network in the place of a searched policy; it has no numbers to search."""

    def __init__(self, model: Any, family: PolicyFamily, env: TaskEnv) -> None:
        self.space = family.space
        self._model, self._env = model, env
        self._best: tuple[float, Any] = (-np.inf, None)

    def keep(self, mean: float) -> None:
        """Remember the network if it is the best so far."""
        if mean > self._best[0]:
            self._best = (mean, deepcopy(self._model.policy.state_dict()))

    def restore(self) -> None:
        """Go back to the best network."""
        self._model.policy.load_state_dict(self._best[1])

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return no numbers."""
        return np.empty(0)

    def weights(self, params: Floats) -> Weights:
        """Return nothing: the network is its own."""
        return ()

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Act without exploration."""
        action, _ = self._model.predict(self._env.seen(obs), deterministic=True)
        return action if self._env.task.is_continuous else action + self._env.task.first_action


def find_algorithm(method: str, task: SearchTask) -> Any:
    """Return the class that a method like sb3:ppo means; raises UsageError when it does not fit."""
    name = method.partition(":")[2]
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
    env: TaskEnv,
    network: TrainedNetwork,
    should_stop: Callable[[], bool],
) -> Any:
    """Return a callback that evaluates at fixed points and ends training with the budget."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watcher(BaseCallback):
        iterations: list[SearchIteration]

        def __init__(self) -> None:
            super().__init__()
            self.iterations = []

        def _on_step(self) -> bool:
            due = plan.config.episodes * (len(self.iterations) + 1) / _POINTS
            if env.episodes >= due:
                self._evaluate()
            is_done = len(self.iterations) == _POINTS
            return not (is_done or should_stop())

        def _evaluate(self) -> None:
            number = len(self.iterations) + 1
            root = derive(seed, "evaluate", number)
            seeds = rollout_seeds(root, plan.rollouts)[None, :]
            (rollouts,) = player.play([PolicyTrial(np.empty((1, 0)), seeds)])
            tried = tried_of(root, rollouts, 0)
            candidate = PolicyCandidate(
                number=number, params=(), origin=plan.config.method, tried=tried
            )
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
                    episodes=env.episodes,
                    steps=self.num_timesteps,
                    model=NO_MODEL,
                )
            )

    return Watcher()
