"""Proposer interface and numeric proposers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from telic.core.config import Record
from telic.search.policies import PolicyFamily, Space
from telic.search.records import Candidates, Entry, History, ModelQuestion, Place
from telic.search.task import BatchRecording, Floats, SearchTask, generator

_RANDOM_AT_ONCE = 10
_STEPS_AT_ONCE = 4
_DRAWN_FIRST, _PARENTS = 12, 3
_MAX_DOUBLINGS = 3
_STILL, _RISE = 15, 0.005  # populations without progress, and minimum relative rise of the median
_NARROW = 0.05  # fraction of the half range
_SWEEPS = 500
_ENOUGH = 5  # visits after which a state-action pair counts as known
_TIE = 1e-7
_DISCOUNT = 0.9999  # makes cycles worth less than termination


class SearchView(NamedTuple):
    """Information on which a proposal is based."""

    history: History
    iteration: int
    iterations: int
    """expected total number of iterations"""
    seed: int
    """seed of the run"""
    run: int


class PolicyDraft(NamedTuple):
    """Policy to evaluate."""

    params: tuple[float, ...]
    origin: str
    explanation: str = ""
    warnings: tuple[str, ...] = ()


class PolicyProposal(NamedTuple):
    """Candidates of one iteration, and the model calls that produced the candidates."""

    drafts: list[PolicyDraft]
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None


class ProposedPolicies(Record):
    """First candidates of an iteration, as stored in the journal."""

    place: Place
    drafts: tuple[PolicyDraft, ...]
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None


class Proposer:
    """Base class of proposers. Candidates depend only on the seed and the observed results.

    By default, a proposal is reproducible from the view, and results of proposals are ignored.
    """

    name: str
    at_once: int
    """number of candidates in the next proposal"""
    needs_transitions = False
    """whether `observe` requires the recorded transitions of the episodes"""

    def __init__(self, task: SearchTask, policy: PolicyFamily, seed: int) -> None:
        self._task, self._policy, self._space, self._seed = task, policy, policy.space, seed

    def propose(self, view: SearchView) -> PolicyProposal:
        """Return one or more candidates."""
        raise NotImplementedError

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Update the proposer with the results of the candidates it proposed last, in order."""

    def replay(
        self, view: SearchView, candidates: Candidates, recording: BatchRecording | None
    ) -> None:
        """Restore the state after a stored iteration, without calling a model."""
        self.propose(view)
        self.observe(candidates, recording)


def drafts(space: Space, points: Sequence[Floats], origin: str) -> list[PolicyDraft]:
    """Convert points to candidates within the bounds."""
    return [PolicyDraft(space.fit(point, is_rounded=False).params, origin) for point in points]


class Random(Proposer):
    """Random search with the policy family's distribution."""

    name = "random"
    at_once = _RANDOM_AT_ONCE

    def propose(self, view: SearchView) -> PolicyProposal:
        """Draw random policies."""
        rng = generator(view.seed, self.name, view.iteration)
        points = [self._policy.draw(rng) for _ in range(self.at_once)]
        return PolicyProposal(drafts(self._policy.space, points, self.name))


class Climb(Proposer):
    """Hill climbing: perturb some parameters of the best policies at several scales.

    Initial policies are random until returns differ, because a flat landscape has no gradient.
    Later, one of four candidates remains random to escape local optima.
    """

    name = "climb"

    def __init__(
        self, task: SearchTask, policy: PolicyFamily, seed: int, count: int = _STEPS_AT_ONCE
    ) -> None:
        super().__init__(task, policy, seed)
        self.at_once = count

    def propose(self, view: SearchView) -> PolicyProposal:
        """Perturb the incumbent, or another policy with a similar return."""
        rng = generator(view.seed, self.name, view.iteration)
        space, tried = self._policy.space, view.history.everything
        heights = {entry.mean for entry in tried}
        is_early = self.at_once > 1 and len(tried) < _DRAWN_FIRST
        is_flat = is_early or len(heights) < 2
        parents = [] if is_flat else _above_the_usual(view.history)
        points: list[Floats] = []
        for place in range(self.at_once):
            is_drawn = self.at_once > 1 and place == self.at_once - 1
            if is_flat or is_drawn:
                points.append(self._policy.draw(rng))
            else:
                # Sample the parent geometrically: the first with probability 1/2, the next 1/4, ...
                parent = min(int(rng.geometric(0.5)) - 1, len(parents) - 1)
                points.append(_neighbor(space, parents[parent].params, rng))
        return PolicyProposal(drafts(space, points, self.name))


def _above_the_usual(history: History) -> list[Entry]:
    """Return the best policies that exceed the median, or only the best one if none does."""
    usual = float(np.median([entry.mean for entry in history.everything]))
    best = history.best(_PARENTS)
    return [entry for entry in best if entry.mean > usual] or best[:1]


def _neighbor(space: Space, params: tuple[float, ...], rng: np.random.Generator) -> Floats:
    point = np.array(params)
    share = rng.uniform(1.0 / space.rank, 1.0)
    chosen = rng.random(space.rank) < share
    chosen[rng.integers(space.rank)] = True
    if space.choices is not None:
        # A table has no small steps, so change only one or two entries.
        few = rng.permutation(space.rank)[: 1 + rng.integers(2)]
        point[few] = rng.choice(np.array(space.choices, dtype=np.float64), len(few))
        return point
    half = (space.high - space.low) / 2
    size = half * 10.0 ** rng.uniform(-2.0, -0.3)
    return point + chosen * rng.normal(0.0, size, space.rank)


class Ars(Proposer):
    """Augmented random search (Mania, Guy, Recht, 2018) without selection of top directions.

    Steps are normalized by the standard deviation of the returns, so their length does not shrink
    with the gradient. Gradient estimates from few directions in high dimensions are mostly noise,
    which accumulates faster than progress, so the step size is small.
    """

    name = "ars"

    def __init__(self, task: SearchTask, policy: PolicyFamily, seed: int) -> None:
        super().__init__(task, policy, seed)
        space = self._space
        self._center = np.zeros(space.rank)
        half = (space.high - space.low) / 2
        self._spread, self._rate = half / 10, half / 30
        self._count = max(4, round(2 + 1.5 * np.log(space.rank)))
        self.at_once = 2 * self._count
        self._directions = np.empty((0, space.rank))

    def propose(self, view: SearchView) -> PolicyProposal:
        """Perturb the parameters in both directions along random vectors."""
        rng = generator(self._seed, self.name, view.iteration)
        self._directions = rng.normal(size=(self._count, self._space.rank))
        steps = self._spread * self._directions
        points = [*(self._center + steps), *(self._center - steps)]
        return PolicyProposal(drafts(self._space, points, self.name))

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Update the parameters by the estimated gradient."""
        means = np.array([candidate.mean for candidate in candidates])
        ahead, behind = means[: self._count], means[self._count :]
        spread = means.std()
        if spread > 0:
            gain = ((ahead - behind)[:, None] * self._directions).mean(0)
            # theta <- theta + rate / sigma_R * mean((r+ - r-) delta)
            self._center = self._center + self._rate / spread * gain
        self._center = np.clip(self._center, self._space.low, self._space.high)


class Cma(Proposer):
    """CMA-ES that starts at zero, and restarts with twice the population on stagnation (IPOP)."""

    name = "cma"

    def __init__(self, task: SearchTask, policy: PolicyFamily, seed: int) -> None:
        super().__init__(task, policy, seed)
        space, self._enough = self._space, task.good  # below it, a converged search restarts
        self._half = (space.high - space.low) / 2
        self._restarts = self._doublings = 0
        self._best, self._worst = -np.inf, np.inf
        self._begin(np.full(space.rank, (space.low + space.high) / 2))

    def propose(self, view: SearchView) -> PolicyProposal:
        """Sample the population."""
        self._random = generator(self._seed, self.name, view.iteration)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._asked: list[Floats] = self._strategy.ask()
        return PolicyProposal(drafts(self._space, self._asked, self.name))

    def inject(self, points: Sequence[Floats]) -> None:
        """Inject the given points unchanged into the next population."""
        inside = [np.clip(p, self._space.low + 1e-6, self._space.high - 1e-6) for p in points]
        self._strategy.inject(inside, force=True)

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Update the search distribution."""
        means = [candidate.mean for candidate in candidates]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flat returns are handled below
            self._strategy.tell(self._asked, [-mean for mean in means])
            is_stuck = bool(self._strategy.stop())
        self._best, self._worst = max(self._best, *means), min(self._worst, *means)
        middle = float(np.median(means))
        self._since = 0 if middle > self._height + _RISE * abs(self._height) else self._since + 1
        self._height = max(self._height, middle)
        is_narrow = float(np.max(self._strategy.stds)) < _NARROW * self._half
        if is_narrow and self._since >= _STILL and self._height < self._enough:
            is_stuck = True  # converged to a local optimum
        # Converged to the best return ever, unless all returns were equal.
        is_at_top = middle >= self._best > self._worst and middle >= min(self._enough, self._best)
        if is_stuck and not is_at_top:
            self._restarts += 1
            # A larger population helps on a rugged landscape, but not on a flat one.
            self._doublings += self._best > self._worst
            rng = generator(self._seed, "restart", self._restarts)
            self._begin(rng.uniform(-0.5, 0.5, self._space.rank) * self._half)

    def _begin(self, center: Floats) -> None:
        size = 4 + int(3 * np.log(self._space.rank))
        options: dict[str, Any] = {
            "bounds": [self._space.low, self._space.high],
            "popsize": size * 2 ** min(self._doublings, _MAX_DOUBLINGS),
            "randn": lambda *shape: self._random.standard_normal(shape),
            "seed": np.nan,  # random numbers come from `randn` only
            "verbose": -9,
            "verb_log": 0,
        }
        self._height, self._since = -np.inf, 0
        self._random = generator(self._seed, self.name, "begin", self._restarts)
        self._strategy = _library().CMAEvolutionStrategy(center, self._half / 3, options)
        self.at_once = self._strategy.popsize


def _library() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cma warns about missing plotting
        import cma
    return cma


class _TabularModel:
    """Transition counts of a tabular model."""

    def __init__(self, task: SearchTask) -> None:
        assert task.states is not None, "the plan allows this for tables only"
        self._first = task.first_action
        self._enough = 1 if task.is_deterministic else _ENOUGH
        shape = (task.states, len(task.actions))
        self._visits = np.zeros(shape)
        self._rewards = np.zeros(shape)
        self._followed = np.zeros((*shape, task.states))
        self._most = 1.0  # largest possible return of these tasks

    def learn(self, recording: BatchRecording) -> None:
        """Count the transitions of episodes."""
        _, state, action, reward, following, terminated = recording.transitions
        action = action - self._first
        # A table may contain actions that the task does not have.
        fine = (action >= 0) & (action < self._visits.shape[1])
        state, action, reward = state[fine], action[fine], reward[fine]
        following, continues = following[fine], ~terminated[fine]
        np.add.at(self._visits, (state, action), 1.0)
        np.add.at(self._rewards, (state, action), reward)
        np.add.at(self._followed, (state[continues], action[continues], following[continues]), 1.0)

    def best_table(self, rng: np.random.Generator) -> Floats:
        """Return the best action per state, assuming the maximum return of rarely tried actions."""
        worth = self._worth(np.zeros(len(self._visits)), unknown=self._most)
        for _ in range(_SWEEPS):
            before, worth = worth, self._worth(worth.max(1), unknown=self._most)
            if np.abs(worth - before).max() < 1e-9:
                break
        # Break ties randomly, so that runs take different paths.
        worth = worth + rng.uniform(0.0, _TIE, worth.shape)
        return worth.argmax(1).astype(np.float64) + self._first

    def _worth(self, value: Floats, unknown: float) -> Floats:
        """Return Q(s, a) = mean reward + sum_s' P(s' | s, a) V(s'), (states, actions)."""
        known = self._visits >= self._enough
        count = np.maximum(self._visits, 1.0)
        worth = (self._rewards + _DISCOUNT * (self._followed @ value)) / count
        return np.where(known, worth, unknown)


class Tabular(Proposer):
    """Propose the optimal table for the learned model."""

    name = "tabular"
    at_once = 1
    needs_transitions = True

    def __init__(self, task: SearchTask, policy: PolicyFamily, seed: int) -> None:
        super().__init__(task, policy, seed)
        self._model = _TabularModel(task)

    def propose(self, view: SearchView) -> PolicyProposal:
        """Solve the model by value iteration."""
        rng = generator(view.seed, self.name, view.iteration)
        return PolicyProposal(drafts(self._space, [self._model.best_table(rng)], self.name))

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Update the transition counts."""
        assert recording is not None, "a tabular model learns from steps"
        self._model.learn(recording)
