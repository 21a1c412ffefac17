"""One run of a search: its parts, its counters, and the journal it resumes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from telic.core.plugins import load_plugin
from telic.core.seeds import derive
from telic.errors import ConfigError
from telic.llm import ModelAnswerError, Models
from telic.search.config import Switches
from telic.search.language_model import Asker, Hybrid, ModelProposer, objection
from telic.search.plan import SearchPlan
from telic.search.proposers import (
    Ars,
    Climb,
    Cma,
    PolicyDraft,
    PolicyProposal,
    Proposer,
    Random,
    Tabular,
    View,
)
from telic.search.records import (
    NO_MODEL,
    Candidates,
    History,
    ModelQuestion,
    Place,
    PolicyCandidate,
    Recheck,
    SearchIteration,
    TrialEpisodes,
    Winner,
)
from telic.search.task import (
    Floats,
    PolicyTrial,
    Rollouts,
    rollout_seeds,
)
from telic.search.writer import WatchedCandidate, Writer


class ModelCritic:
    """A language model that reads what happened."""

    name = "critic"

    def __init__(self, asker: Asker, writer: Writer, switches: Switches) -> None:
        self._asker, self._writer, self._switches = asker, writer, switches

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
        """Ask for a revision."""
        prompt = self._writer.critic(view.history, watched)
        may_repeat = self._switches.allow_no_change
        refused = objection(view.history, watched.candidate, may_repeat=may_repeat)
        try:
            return self._asker.ask("critic", prompt, refused, self.name)
        except ModelAnswerError as error:
            note = f"no valid answer from the critic, so no revision: {str(error)[:300]}"
            return PolicyProposal([], note=note)


class Choice(NamedTuple):
    """The candidate that counts in an iteration, and where it came from."""

    selected: PolicyCandidate
    winner: Winner


class SearchRun:
    """The state of one run; everything in it follows from the plan, the number and the log."""

    def __init__(self, plan: SearchPlan, number: int, models: Models | None) -> None:
        self.plan, self.number = plan, number
        self.seed = derive(plan.config.seed, plan.task.id, "run", number)
        switches = plan.switches
        self.history = History(confirm=plan.confirm, keeps_losers=switches.keeps_losers)
        self.episodes = self.steps = self.candidates = self.iteration = 0
        self.model: ModelProposer | None = None
        self.model_name: str | None = None
        self.critic: ModelCritic | None = None
        if models is not None:
            self._connect(models)
        self.proposer = self._make_proposer()
        self.again = Climb(plan.policy, count=1)

    @property
    def budget_left(self) -> int:
        """Episodes that may still be played."""
        return self.plan.budget - self.episodes

    @property
    def warmup(self) -> int:
        """Random policies to try first: a model is shown some, an optimiser needs none."""
        if self.model is None:
            return 0
        room = max(0, self.plan.budget - self.cost)
        return min(self.plan.terms.warmup, self.plan.budget // 2, room)

    @property
    def is_spent(self) -> bool:
        """Return whether the budget, less the finalists' share, is too small for an iteration."""
        reserve = self.plan.reserve if self.iteration else 0
        return self.budget_left - reserve < self.cost

    @property
    def is_solved(self) -> bool:
        """Return whether the best policy is proven good and the run is to stop then."""
        best = self.history.incumbent
        if best is None or not self.plan.config.stop_when_solved:
            return False
        is_firm = len(best.returns) >= max(self.plan.confirm, self.plan.rollouts)
        worth = best.mean if self.plan.task.is_deterministic else best.proven()
        return is_firm and worth >= self.plan.terms.good

    @property
    def is_over(self) -> bool:
        """Return whether no other iteration follows."""
        return self.is_spent or self.is_solved or self.history.is_decided

    def require_room(self) -> None:
        """Raise ConfigError when the budget has no room for a single iteration."""
        if self.budget_left < self.cost:
            raise ConfigError(
                f"A budget of {self.plan.config.episodes} episodes has no room for one iteration: "
                f"{self.cost // self.plan.rollouts} candidates of {self.plan.rollouts} episodes.",
                hint="Raise --episodes, or lower the need with --switch rollouts=2.",
            )

    @property
    def cost(self) -> int:
        """Episodes of the next iteration, checks left out."""
        second = self.plan.switches.second != "none"
        return self.plan.rollouts * (self.proposer.at_once + second)

    @property
    def expected_calls(self) -> int:
        """Questions to a model in the whole run, if every answer is valid and none is skipped."""
        iterations = (self.plan.budget - self.plan.reserve - self.warmup) // self.cost
        return max(1, iterations) * (1 + (self.plan.switches.second != "none"))

    def view(self) -> View:
        """Return what a proposer may know."""
        total = self.iteration + max(1, (self.budget_left - self.plan.reserve) // self.cost)
        return View(self.history, self.iteration + 1, total, self.seed, self.number)

    def trial(
        self, params: Sequence[tuple[float, ...]], seeds: Sequence[int], count: int
    ) -> PolicyTrial:
        """Return a wish to try policies, each on `count` episodes that follow from its seed."""
        rows = np.stack([rollout_seeds(seed, count) for seed in seeds])
        return PolicyTrial(np.array(params, dtype=np.float64), rows)

    def seeds_for(self, purpose: str, count: int) -> list[int]:
        """Return the seeds of the next `count` policies; equal ones where starts are common."""
        if self.plan.switches.common_seeds:
            return [derive(self.seed, purpose, self.iteration)] * count
        first = self.candidates
        return [derive(self.seed, purpose, self.iteration, first + i) for i in range(count)]

    def take_in(
        self, drafts: Sequence[PolicyDraft], place: Place, seeds: Sequence[int], rollouts: Rollouts
    ) -> list[PolicyCandidate]:
        """Return drafts that were tried as numbered candidates, and count what they took."""
        out: list[PolicyCandidate] = []
        for row, draft in enumerate(drafts):
            tried = tried_of(seeds[row], rollouts, row)
            out.append(
                PolicyCandidate(
                    number=self.candidates,
                    params=draft.params,
                    origin=draft.origin,
                    place=place,
                    explanation=draft.explanation,
                    warnings=draft.warnings,
                    tried=tried,
                )
            )
            self.candidates += 1
        self.spend(rollouts)
        return out

    def spend(self, rollouts: Rollouts) -> None:
        """Count episodes and steps."""
        self.episodes += rollouts.returns.size
        self.steps += int(rollouts.lengths.sum())

    def restore(self, iteration: SearchIteration) -> None:
        """Restore the state after a stored iteration."""
        self.history.add(iteration)
        self.episodes, self.steps = iteration.episodes, iteration.steps
        self.candidates += len(iteration.candidates)
        self.iteration = iteration.number

    def finish(
        self,
        candidates: Candidates,
        choice: Choice,
        checks: Sequence[Recheck] = (),
        calls: tuple[ModelQuestion, ...] = (),
        note: str | None = None,
    ) -> SearchIteration:
        """Return the record of an iteration."""
        incumbent = self.history.incumbent
        assert incumbent is not None, "something was tried"
        iteration = SearchIteration(
            number=self.iteration,
            candidates=tuple(candidates),
            selected=choice.selected.number,
            winner=choice.winner,
            checks=tuple(checks),
            incumbent=incumbent.number,
            incumbent_mean=incumbent.mean,
            episodes=self.episodes,
            steps=self.steps,
            model=self.model_name or NO_MODEL,
            calls=calls,
            note=note,
        )
        self.history.show(iteration)
        return iteration

    def _connect(self, models: Models) -> None:
        """Let a model be the proposer, the critic or both."""
        plan, switches = self.plan, self.plan.switches
        asker = Asker(models, plan.policy.space, self.number)
        writer = Writer(plan.task, plan.policy.space, switches, plan.terms)
        self.model = ModelProposer(asker, writer, plan.policy, switches)
        self.model_name = asker.model
        if switches.second == "critic":
            self.critic = ModelCritic(asker, writer, switches)

    def _cma(self) -> Cma:
        return Cma(self.plan.policy.space, self.seed, self.plan.terms.good)

    def _make_proposer(self) -> Proposer:
        plan, space = self.plan, self.plan.policy.space
        kind, model = plan.switches.proposer, self.model
        if plan.switches.asks_a_model:
            if model is not None and kind != "hybrid":
                return model
            # Without a model the proposer is numeric, and the label says so.
            numeric = Tabular(plan.task, space) if space.is_table else self._cma()
            return numeric if model is None else Hybrid(model, numeric)
        match kind:
            case "cma":
                return self._cma()
            case "ars":
                return Ars(space, self.seed)
            case "climb":
                return Climb(plan.policy)
            case "random":
                return Random(plan.policy)
            case "tabular":
                return Tabular(plan.task, space)
            case _:
                make = load_plugin("proposers", kind)
                assert make is not None, "the plan looked for it"
                return make(plan.task, plan.policy, self.seed)


def tried_of(seed: int, rollouts: Rollouts, row: int) -> TrialEpisodes:
    """Return the record of one policy's episodes."""
    returns = cast("Floats", np.round(rollouts.returns[row], 9))
    return TrialEpisodes(
        seed=seed,
        returns=tuple(returns.tolist()),
        lengths=tuple(rollouts.lengths[row].tolist()),
        ends="".join(rollouts.ends[row]),
    )
