"""Policy search methods as presets of switches, and the plan for a request.

Step cap, warm-up, target and thresholds come from the task or from the published setup. All runs of
a search share one plan.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, NamedTuple

from telic import __version__
from telic.core.plugins import load_plugin, plugin_names
from telic.core.seeds import derive
from telic.errors import ConfigError, UnknownName
from telic.search.config import NUMERIC, PROPOSERS, MethodSettings, SearchConfig
from telic.search.policies import WITH_RANDOM_PARTS, PolicyFamily, make_policy
from telic.search.records import NO_MODEL, SearchProtocol
from telic.search.task import Player, SearchTask
from telic.search.worlds import find_task, make_world

_REVISED: dict[str, Any] = {
    "second": "critic",
    "evidence": "mean_trace",
    "select": "keep_best",
    "excerpts": 5,
}
_METHODS: dict[str, dict[str, Any]] = {
    "props": {},
    "props+": {"context": ("history", "env_text", "trajectories")},
    "r2po": {
        "second": "critic",
        "evidence": "stats+median",
        "allow_no_change": True,
        "gate": "skip",
        "select": "keep_best",
    },
    "reptraj": _REVISED,
    "alwayscritic": {**_REVISED, "select": "always_second"},
    "threetraj": {**_REVISED, "evidence": "three_traces", "excerpts": 0},
    "criticonly": {
        "proposer": "none",
        "context": ("history", "env_text"),
        "evidence": "last_trace",
        "excerpts": 5,
    },
    "actorsecondpass": {"second": "propose_again", "select": "keep_best"},
    "puresearch": {"second": "propose_again", "second_sees_first": False, "select": "keep_best"},
    "hybrid": {"proposer": "hybrid", "select": "race"},
    **{name: {"proposer": name, "select": "race"} for name in NUMERIC},
}

METHODS = tuple(_METHODS)
PUBLISHED = METHODS[:9]
"""published methods, all of which use a language model"""

_AS_PUBLISHED: dict[str, Any] = {
    "history_view": "full",
    "uncertainty": False,
    "trace_steps": 100_000,
    "thinning": "ends",
    "ties_to_second": True,
    "keeps_losers": False,
    "common_seeds": False,
    "confirm": 0,
    "temperature": 0.0,
    "report": "selected",
}
_CLIPPING = ("props", "props+", "r2po")


def method_names() -> list[str]:
    """Return the names of all methods: built-in methods, then proposers from plugins."""
    return [*METHODS, *plugin_names("proposers", METHODS)]


def switches_of(method: str, *, is_faithful: bool = False) -> MethodSettings:
    """Return the switches of a method, or raise UnknownName.

    With `is_faithful`, the switches reproduce the published runs: full history without uncertainty,
    discarded losers, ties in favor of the revision, independent seeds, actions clipped only by some
    methods, and, for R2PO, a threshold that is only stated in the prompt.
    """
    name = method.lower()
    values: dict[str, Any]
    if name in _METHODS:
        values = dict(_METHODS[name])
    elif name in (others := plugin_names("proposers", METHODS)):
        values = {"proposer": name, "select": "race"}
    else:
        raise UnknownName(
            "method", method, [*METHODS, *others], see="telic envs --search --presets"
        )
    if is_faithful:
        clips = name not in PUBLISHED or name in _CLIPPING
        values |= {**_AS_PUBLISHED, "clip_actions": clips}
        if name not in PUBLISHED:  # the best of a population would exceed the better of two
            values["report"] = "better_of_two"
        if name == "r2po":
            values["gate"] = "advise"
        if name == "threetraj":
            values["trace_steps"] = 50
    return MethodSettings.parse(values)


_STATED = 400
_CAP = 1000
_PUBLISHED_GOOD = {"InvertedDoublePendulum-v5": 450.0, "Swimmer-v5": 230.0, "FrozenLake-v1": 0.85}
_PUBLISHED_STEP = {"InvertedDoublePendulum-v5": 0.1, "Swimmer-v5": 0.1}
"""published step sizes that differ from the task's"""


def _published(task: SearchTask, method: str) -> SearchTask:
    """Return a task with the conditions of the published runs.

    Step cap, warm-up and stated target depended on the method. Thresholds, step sizes and success
    criteria also differed, and no policy can meet some of these criteria.
    """
    target = _published_target(task, method)
    values: dict[str, Any] = {
        "cap": _CAP,
        "warmup": 20,
        "target": target,
        "good": _PUBLISHED_GOOD.get(task.id, task.good),
        # An episode succeeds at the stated target, with a tolerance of 0.1 %.
        "solved": target - max(1e-6, 0.001 * max(1.0, abs(target))),
        "step_size": _PUBLISHED_STEP.get(task.id, task.step_size),
    }
    later = method in ("props+", "r2po", "threetraj")
    if later and task.id in ("Nim-v0", "FrozenLake-v1", "MountainCar-v0"):
        values["warmup"] = 0
    if task.id == "MountainCarContinuous-v0" and method in ("props+", "threetraj"):
        values["warmup"] = 0
    if task.id == "Swimmer-v5" and method in ("props+", "r2po"):
        values["warmup"] = 100
    if task.id == "Maze-v0":
        values["cap"] = 20 if later else 100
    return task.model_copy(update=values)


def _published_target(task: SearchTask, method: str) -> float:
    if task.id == "InvertedDoublePendulum-v5":
        return {"r2po": 500.0, "threetraj": 200.0}.get(method, 10_000.0)
    if task.id == "Maze-v0":
        return 0.9 if method in ("props+", "r2po", "threetraj") else 1.0
    stated = {
        "MountainCar-v0": -120.0,
        "MountainCarContinuous-v0": 100.0,
        "Swimmer-v5": 250.0,
        "FrozenLake-v1": 1.0,
    }
    return stated.get(task.id, task.target)


_PACKAGES = ("numpy", "cma", "gymnasium", "mujoco", "torch")
_RESERVE, _RESERVE_OF_A_MODEL = 0.15, 0.1  # fractions of the budget
_CONFIRM = 4  # required episodes of a numeric incumbent, as a multiple of `rollouts`


class SearchPlan(NamedTuple):
    """Plan of a search, with all settings of a request resolved."""

    config: SearchConfig
    task: SearchTask
    """task, with the published conditions if the search is faithful"""
    switches: MethodSettings
    policy: PolicyFamily
    rollouts: int
    """number of episodes per candidate"""
    confirm: int
    """minimum number of episodes for a policy to become the incumbent"""

    @property
    def budget(self) -> int:
        """Number of episodes in the budget.

        A deterministic policy is played once but counts as `rollouts` episodes, so every task
        evaluates an equal number of candidates.
        """
        if self.task.is_deterministic and not self.config.faithful:
            return max(1, self.config.episodes // self.switches.rollouts)
        return self.config.episodes + (self.task.warmup if self.config.faithful else 0)

    @property
    def reserve(self) -> int:
        """Number of episodes reserved for the final comparison of the best policies."""
        share = _RESERVE if self.config.model is None else _RESERVE_OF_A_MODEL
        return round(share * self.budget) if self.confirm else 0

    @property
    def protocol(self) -> SearchProtocol:
        """Conditions that must be equal for returns to be comparable."""
        space, limit = self.policy.space, self.task.time_limit
        return SearchProtocol(
            env=self.task.id,
            policy=self.config.policy or ("table" if self.policy.space.is_table else "linear"),
            is_scaled=not (self.config.faithful or self.config.raw or self.task.is_table),
            low=space.low,
            high=space.high,
            decimals=space.decimals,
            clips=self.switches.clip_actions,
            limit=min(self.task.cap or limit, limit),
            target=self.task.target,
            episodes=self.config.episodes,
            warmup=self.task.warmup,
            warmup_is_extra=self.config.faithful,
            is_faithful=self.config.faithful,
            stops_when_solved=self.config.stop_when_solved,
            rollouts=self.rollouts,
            fresh_episodes=self.config.fresh_episodes,
        )

    @property
    def label(self) -> str:
        """Name in tables and plots. The name states if no language model is used."""
        method, model = self.config.method, self.config.model
        changed = "".join(f" {k}={v}" for k, v in sorted(self.config.switches.items()))
        if self.config.policy:
            changed += f" {self.config.policy}"
        if self.config.faithful or self.config.raw:
            changed += " as published" if self.config.faithful else " raw"
        if model is not None:
            return f"{method}{changed} ({model})"
        if not self.switches.asks_a_model:
            return f"{method}{changed} ({NO_MODEL})"
        stand_in = "tabular" if self.policy.space.is_table else "cma"
        return f"{method}{changed} by {stand_in} ({NO_MODEL})"

    @property
    def stated_iterations(self) -> int | None:
        """Number of iterations stated in prompts, or None for the true number."""
        is_stated = self.config.faithful and self.config.method.lower() != "r2po"
        return _STATED if is_stated else None

    @property
    def is_shared(self) -> bool:
        """Return whether all runs share one policy family and can therefore share a player."""
        return self.config.policy not in WITH_RANDOM_PARTS

    def of_run(self, number: int) -> SearchPlan:
        """Return the plan of one run, with the random parts of the policy family drawn for it."""
        return self._replace(policy=_policy(self.config, self.task, number))

    def player(self) -> Player:
        """Create a player for this plan."""
        return Player(
            self.task,
            make_world(self.task),
            self.policy,
            cap=self.task.cap,
            clips=self.switches.clip_actions,
        )


def make_plan(config: SearchConfig) -> SearchPlan:
    """Resolve a request. Raises UsageError for unknown names and inconsistent settings."""
    task = find_task(config.env, config.target)
    method = config.method.lower()
    if config.raw and task.is_table:
        raise ConfigError(
            f"Policies of {task.id} observe a state index, so there is nothing to scale.",
            hint="Omit --raw.",
        )
    base = switches_of(method, is_faithful=config.faithful)
    if config.faithful and base.excerpts:
        base = base.replace(excerpts=task.excerpts)
    for name in config.switches:
        if name not in MethodSettings.model_fields:
            base.override([f"{name}=0"])  # raises and suggests the closest names
    changes = dict(config.switches)
    if isinstance(changes.get("context"), str):
        changes["context"] = [changes["context"]]
    switches = base.replace(**changes)
    if config.model is not None and not switches.asks_a_model and switches.second != "critic":
        raise ConfigError(
            f"--method {method} does not use a model, so --model {config.model} has no effect.",
            hint="Omit --model, or use --method r2po or hybrid.",
        )
    if config.model is None and switches.second == "critic":
        if "second" in config.switches:
            raise ConfigError("A critic requires a language model.", hint="Add --model.")
        switches = switches.replace(second="none", evidence="none")
    policy = _policy(config, task, 1)
    _check_fit(switches.proposer, task)
    rollouts, confirm = _episodes(config, task, switches)
    terms = _published(task, method) if config.faithful else task
    plan = SearchPlan(config, terms, switches, policy, rollouts, confirm)
    if plan.budget < rollouts * switches.evaluations:
        raise ConfigError(
            f"A budget of {plan.budget} episodes is too small: one iteration needs "
            f"{rollouts * switches.evaluations}.",
            hint="Increase --episodes, or use fewer with --switch rollouts=5.",
        )
    return plan


def _policy(config: SearchConfig, task: SearchTask, run: int) -> PolicyFamily:
    return make_policy(
        config.policy,
        task,
        is_scaled=not (config.faithful or config.raw),
        seed=derive(config.seed, "policy", run),
        decimals=1 if config.faithful else 2,
    )


def _check_fit(proposer: str, task: SearchTask) -> None:
    if proposer not in PROPOSERS and load_plugin("proposers", proposer, METHODS) is None:
        known = [*PROPOSERS, *plugin_names("proposers", METHODS)]
        raise UnknownName("proposer", proposer, known)
    if proposer in ("cma", "ars") and task.is_table:
        raise ConfigError(
            f"{proposer} optimizes real numbers, but a policy of {task.id} is a table of actions.",
            hint="Use --method tabular, climb or random.",
        )
    if proposer == "tabular" and not task.is_table:
        raise ConfigError(
            f"The tabular method requires discrete states, and {task.id} has none.",
            hint="Use --method cma.",
        )


def versions() -> dict[str, str]:
    """Return the versions of all packages that affect results."""
    # telic itself may run from a checkout without installed metadata.
    return {"telic": __version__, **{name: version(name) for name in _PACKAGES}}


def _episodes(config: SearchConfig, task: SearchTask, switches: MethodSettings) -> tuple[int, int]:
    """Return the number of episodes per candidate and the number that an incumbent needs."""
    is_numeric = config.model is None and not config.faithful
    if task.is_deterministic and not config.faithful:
        return 1, 0
    rollouts, confirm = switches.rollouts, switches.confirm
    if is_numeric and "rollouts" not in config.switches:
        rollouts = task.rollouts
        if "confirm" not in config.switches:
            confirm = min(confirm, _CONFIRM * rollouts) if rollouts < confirm else 2 * rollouts
    return rollouts, confirm
