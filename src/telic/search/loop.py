"""Steps of `telic.loop` for a search run: propose, evaluate, revise, select and confirm.

Steps are generators that yield trials and receive rollouts, so that the driver can batch the
episodes of many runs (see `runner.do_runs`). Episodes are deterministic for given parameters and
seeds, so they are replayed instead of stored, and candidates with similar returns are compared on
additional episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np

from telic.core.plugins import load_plugin
from telic.core.seeds import derive
from telic.core.stats import paired_greater
from telic.errors import ConfigError
from telic.llm import Models
from telic.search._language_model import Hybrid, ModelCritic, ModelProposer, PolicyRequester
from telic.search._writer import WatchedCandidate, Writer, describe_behavior
from telic.search.config import MethodSettings
from telic.search.plan import SearchPlan
from telic.search.proposers import (
    Ars,
    Climb,
    Cma,
    PolicyDraft,
    PolicyProposal,
    ProposedPolicies,
    Proposer,
    Random,
    SearchView,
    Tabular,
)
from telic.search.records import (
    NO_MODEL,
    Candidates,
    Entry,
    History,
    ModelQuestion,
    Place,
    PolicyCandidate,
    Recheck,
    SearchIteration,
    TrialEpisodes,
    Winner,
)
from telic.search.task import BatchRecording, PolicyTrial, Rollouts, generator, rollout_seeds

_Result = TypeVar("_Result")
_Plays = Generator[PolicyTrial, Rollouts, _Result]
_NUMERIC = {kind.name: kind for kind in (Cma, Ars, Climb, Random, Tabular)}
_FINALISTS, _FIRST_ROUND = 16, 4
_RACE_LOOKS, _RACE_ERROR = 3, 0.05


class SearchRun:
    """Steps and state of one run, determined by the plan, the run number and the journal."""

    candidate_type, verdict_type = ProposedPolicies, SearchIteration

    def __init__(
        self,
        plan: SearchPlan,
        number: int,
        models: Models | None,
        should_stop: Callable[[], bool] = lambda: False,
        on_iteration: Callable[[SearchIteration], None] = lambda iteration: None,
    ) -> None:
        """Create a run in its initial state. The journal restores its progress."""
        self.plan, self.number = plan, number
        self.seed = derive(plan.config.seed, plan.task.id, "run", number)
        self.history = History(confirm=plan.confirm, keeps_losers=plan.switches.keeps_losers)
        self.episodes = self.steps = self.candidates = self.iteration = 0
        self.done: list[SearchIteration] = []
        self._should_stop, self._on_iteration = should_stop, on_iteration
        self._proposed = self._judged = 0
        self._model: ModelProposer | None = None
        self._critic: ModelCritic | None = None
        self._model_name: str | None = None
        if models is not None:
            asker = PolicyRequester(models, plan, number)
            writer = Writer(plan)
            self._model = ModelProposer(asker, writer, plan, self.seed)
            self._model_name = asker.model
            if plan.switches.second == "critic":
                self._critic = ModelCritic(asker, writer, plan.switches)
        self.proposer = self._make_proposer()

    def _make_proposer(self) -> Proposer:
        plan, kind, model = self.plan, self.plan.switches.proposer, self._model
        given = plan.task, plan.policy, self.seed
        if plan.switches.asks_a_model:
            if model is not None and kind != "hybrid":
                return model
            # Without a model the proposer is numeric, as stated by the label.
            numeric = (Tabular if plan.policy.space.is_table else Cma)(*given)
            return numeric if model is None else Hybrid(model, numeric)
        make = _NUMERIC.get(kind) or load_plugin("proposers", kind)
        assert make is not None, "the plan looked for it"
        return make(*given)

    # ------------------------------------------------------------------------------ budget

    @property
    def budget_left(self) -> int:
        """Number of episodes left in the budget."""
        return self.plan.budget - self.episodes

    @property
    def cost(self) -> int:
        """Number of episodes in the next iteration, excluding checks."""
        second = self.plan.switches.second != "none"
        return self.plan.rollouts * (self.proposer.at_once + second)

    @property
    def warmup(self) -> int:
        """Number of initial random policies for a model, or 0 for numeric optimizers."""
        if self._model is None:
            return 0
        room = max(0, self.plan.budget - self.cost)
        return min(self.plan.task.warmup, self.plan.budget // 2, room)

    @property
    def expected_calls(self) -> int:
        """Expected number of model calls if every answer is valid and no call is skipped."""
        iterations = (self.plan.budget - self.plan.reserve - self.warmup) // self.cost
        return max(1, iterations) * (1 + (self.plan.switches.second != "none"))

    @property
    def is_spent(self) -> bool:
        """Return whether the budget without the finalists' share is too small for an iteration."""
        reserve = self.plan.reserve if self.iteration else 0
        return self.budget_left - reserve < self.cost

    @property
    def is_over(self) -> bool:
        """Return whether the run is finished: budget spent, finalists played, or task solved."""
        best = self.history.incumbent
        if self.is_spent or self.history.is_decided:
            return True
        if best is None or not self.plan.config.stop_when_solved:
            return False
        is_firm = len(best.returns) >= max(self.plan.confirm, self.plan.rollouts)
        worth = best.mean if self.plan.task.is_deterministic else best.proven()
        return is_firm and worth >= self.plan.task.good

    def require_room(self) -> None:
        """Raise ConfigError if the budget is too small for a single iteration."""
        if self.budget_left < self.cost:
            raise ConfigError(
                f"A budget of {self.plan.config.episodes} episodes is less than one iteration of "
                f"{self.cost // self.plan.rollouts} candidates of {self.plan.rollouts} episodes.",
                hint="Increase --episodes, or use fewer with --switch rollouts=2.",
            )

    # ------------------------------------------------------------------------------ loop parts

    def propose(self, number: int) -> _Plays[ProposedPolicies | None]:
        """Return the next candidates. A model starts after a few random candidates."""
        if self.is_over or self._should_stop():
            return None
        self._proposed = number
        if self.candidates == 0 and self.warmup:
            rng, policy = generator(self.seed, "warm-up"), self.plan.policy
            points = [policy.space.fit(policy.draw(rng)).params for _ in range(self.warmup)]
            drafts = tuple(PolicyDraft(point, "warm-up") for point in points)
            return ProposedPolicies(place="warm-up", drafts=drafts)
        view = self._view()
        yield from self._remember()
        drafts, calls, note = self.proposer.propose(view)
        return ProposedPolicies(place="first", drafts=tuple(drafts), calls=calls, note=note)

    def check(self, number: int, candidate: ProposedPolicies) -> None:
        """Accept every proposal, because parameters are already clipped to the policy's space."""

    def run(self, number: int, candidate: ProposedPolicies) -> _Plays[SearchIteration]:
        """Evaluate the candidates, revise the best one, and evaluate the likely winner again."""
        if candidate.place == "warm-up":
            tried, _ = yield from self._evaluate("warm-up", candidate.drafts, 1)
            best = max(tried, key=lambda each: each.mean)
            return self._record(tried, (best, "warm-up"), [], (), None)
        view = self._view()
        is_new = self._proposed == number
        if not is_new:
            yield from self._remember()
        self.iteration += 1
        first, rollouts = yield from self._evaluate("first", candidate.drafts)
        recording = rollouts.recording if rollouts else None
        if is_new:
            self.proposer.observe(first, recording)
        else:
            self.proposer.replay(view, first, recording)
        revised = self._revise(view, first, rollouts)
        second, _ = yield from self._evaluate("second", revised.drafts)
        checks = yield from race(self, first, second)
        choice = _choose_candidate(first, second, self.plan.switches, self.history)
        checks += yield from self._confirm(choice[0], was_skipped=not revised.drafts)
        calls, note = (*candidate.calls, *revised.calls), candidate.note or revised.note
        return self._record([*first, *second], choice, checks, calls, note)

    def judge(
        self, number: int, candidate: ProposedPolicies, result: SearchIteration
    ) -> SearchIteration:
        """Return the record of the iteration, including the selected candidate."""
        self._judged = number
        return result

    def decide(
        self, number: int, candidate: ProposedPolicies, verdict: SearchIteration
    ) -> _Plays[None]:
        """Finish an iteration. An iteration restored from the journal first updates the state."""
        if self._judged == number:
            self._on_iteration(verdict)
        else:
            view, by_place = self._view(), dict[str, list[PolicyCandidate]]()
            for each in verdict.candidates:
                by_place.setdefault(each.place, []).append(each)
            first = by_place.get("first", [])
            recording = yield from self._play_again(first)
            yield from self._play_again(by_place.get("second", []))
            if first:
                self.proposer.replay(view, first, recording)
            self.history.add(verdict)
            self.episodes, self.steps = verdict.episodes, verdict.steps
            self.candidates += len(verdict.candidates)
            self.iteration = verdict.number
        self.done.append(verdict)

    # ------------------------------------------------------------------------------ helpers

    def trial(
        self, params: Sequence[tuple[float, ...]], seeds: Sequence[int], count: int
    ) -> PolicyTrial:
        """Build a trial of policies with `count` episodes each, derived from their seeds."""
        rows = np.stack([rollout_seeds(seed, count) for seed in seeds])
        return PolicyTrial(np.array(params, dtype=np.float64), rows)

    def seeds_for(self, purpose: str, count: int) -> list[int]:
        """Return seeds for the next `count` policies. With `common_seeds`, all seeds are equal."""
        if self.plan.switches.common_seeds:
            return [derive(self.seed, purpose, self.iteration)] * count
        first = self.candidates
        return [derive(self.seed, purpose, self.iteration, first + i) for i in range(count)]

    def spend(self, rollouts: Rollouts) -> None:
        """Update the episode and step counters."""
        self.episodes += rollouts.returns.size
        self.steps += int(rollouts.lengths.sum())

    def _view(self) -> SearchView:
        total = self.iteration + max(1, (self.budget_left - self.plan.reserve) // self.cost)
        return SearchView(self.history, self.iteration + 1, total, self.seed, self.number)

    def _evaluate(
        self, place: Place, drafts: Sequence[PolicyDraft], count: int | None = None
    ) -> _Plays[tuple[list[PolicyCandidate], Rollouts | None]]:
        """Evaluate drafts. With `common_seeds`, all drafts of an iteration share their episodes."""
        if not drafts:
            return [], None
        params = [draft.params for draft in drafts]
        seeds = self.seeds_for("try", len(drafts))
        if any(map(self.history.has_met, params, seeds)):
            # For an unchanged policy, the same episodes would add no information and count twice.
            seeds = self.seeds_for("again", len(drafts))
        is_watched = self.plan.switches.evidence != "none" or self.proposer.needs_transitions
        trial = self.trial(params, seeds, count or self.plan.rollouts)
        rollouts = yield trial._replace(is_recorded=is_watched)
        candidates = [
            PolicyCandidate(
                number=self.candidates + row,
                place=place,
                tried=TrialEpisodes.of(seeds[row], rollouts, row),
                **draft._asdict(),
            )
            for row, draft in enumerate(drafts)
        ]
        self.candidates += len(candidates)
        self.spend(rollouts)
        for candidate in candidates:
            self.history.count(candidate)
        return candidates, rollouts

    def _revise(
        self, view: SearchView, tried: Candidates, rollouts: Rollouts | None
    ) -> PolicyProposal:
        """Propose the second candidate of an iteration, or nothing if the plan has none."""
        switches = self.plan.switches
        if switches.second == "none" or rollouts is None:
            return PolicyProposal([])
        row, first = max(enumerate(tried), key=lambda pair: pair[1].mean)
        if self._critic is None or self._model is None:
            again = Climb(self.plan.task, self.plan.policy, self.seed, count=1)
            return self._model.propose_again(view, first) if self._model else again.propose(view)
        gate = self.plan.task.good if switches.gate_at is None else switches.gate_at
        if switches.gate == "skip" and first.mean >= gate:
            return PolicyProposal([], note="revision skipped: the policy is good enough")
        evidence = describe_behavior(switches.evidence, self.plan, rollouts, row)
        stated = None if switches.gate == "off" else gate
        watched = WatchedCandidate(first, evidence, stated, self._model.memories)
        return self._critic.revise(view, watched)

    def _confirm(self, selected: PolicyCandidate, *, was_skipped: bool) -> _Plays[list[Recheck]]:
        """Evaluate possibly best policies again: the challenger, and later the finalists.

        The episodes of a skipped revision are spent on the incumbent.
        """
        incumbent, entry = self.history.incumbent, self.history.of(selected.number)
        assert incumbent is not None, "something was tried"
        checks: list[Recheck] = []
        if was_skipped and self.plan.switches.gate == "skip" and self._critic is not None:
            checks += yield from _check(self, "check", [incumbent], self.plan.rollouts)
        elif len(entry.returns) < self.plan.confirm and entry.mean > self.history.bar:
            checks += yield from _check(self, "check", [entry], self.plan.confirm)
        if self.is_over and self.plan.reserve:
            checks += yield from race_finalists(self)
        return checks

    def _record(
        self,
        candidates: Candidates,
        choice: tuple[PolicyCandidate, Winner],
        checks: Sequence[Recheck],
        calls: tuple[ModelQuestion, ...],
        note: str | None,
    ) -> SearchIteration:
        incumbent = self.history.incumbent
        assert incumbent is not None, "something was tried"
        iteration = SearchIteration(
            number=self.iteration,
            candidates=tuple(candidates),
            selected=choice[0].number,
            winner=choice[1],
            checks=tuple(checks),
            incumbent=incumbent.number,
            incumbent_mean=incumbent.mean,
            episodes=self.episodes,
            steps=self.steps,
            model=self._model_name or NO_MODEL,
            calls=calls,
            note=note,
        )
        self.history.show(iteration)
        return iteration

    def _remember(self) -> _Plays[None]:
        """Replay the earlier episodes that the next prompt includes, at no cost to the budget."""
        switches, model = self.plan.switches, self._model
        if model is None:
            return
        entries = self.history.shown(switches.history_view)
        wants_all = "trajectories" in switches.context and self.plan.task.is_table
        shown = entries if wants_all else entries[-switches.excerpts :] if switches.excerpts else []
        model.memories = {}
        if shown:
            trial = self.trial([e.params for e in shown], [e.seed for e in shown], 1)
            rollouts = yield trial._replace(is_recorded=True)
            model.memories = {e.number: rollouts.trace(row, 0) for row, e in enumerate(shown)}
        if switches.evidence == "last_trace" and entries:
            last = entries[-1]
            trial = self.trial([last.params], [last.seed], self.plan.rollouts)
            rollouts = yield trial._replace(is_recorded=True)
            model.last = describe_behavior("last_trace", self.plan, rollouts, 0)

    def _play_again(self, candidates: Candidates) -> _Plays[BatchRecording | None]:
        """Replay earlier episodes if the proposer learns from their transitions."""
        if not candidates or not self.proposer.needs_transitions:
            return None
        trial = self.trial(
            [candidate.params for candidate in candidates],
            [candidate.tried.seed for candidate in candidates],
            len(candidates[0].tried.returns),
        )
        rollouts = yield trial._replace(is_recorded=True)
        return rollouts.recording


# ---------------------------------------------------------------------------------- selection


def race(run: SearchRun, first: Candidates, second: Candidates) -> _Plays[list[Recheck]]:
    """With `select=race`, evaluate both candidates until one is significantly better.

    Both policies use common random numbers, so episodes are compared in pairs. The probability that
    a race between equal policies ends early is at most 5 %, with a Bonferroni correction.
    """
    if run.plan.switches.select != "race" or not second:
        return []
    leader = max(first, key=lambda candidate: candidate.mean)
    rivals = [run.history.of(leader.number), run.history.of(second[0].number)]
    one, other = (np.array(each.tried.returns) for each in (leader, second[0]))
    checks: list[Recheck] = []
    for look in range(_RACE_LOOKS):
        chances = [paired_greater(one, other), paired_greater(other, one)]
        is_decided = any(p is not None and p < _RACE_ERROR / (2 * _RACE_LOOKS) for p in chances)
        if rivals[0].params == rivals[1].params or is_decided:
            break
        purpose = f"race {look}" if look else "race"
        found = yield from _check(run, purpose, rivals, run.plan.rollouts)
        if not found:
            break
        checks += found
        one, other = (
            np.concatenate((mine, check.tried.returns))
            for mine, check in zip((one, other), found, strict=True)
        )
    return checks


def _choose_candidate(
    first: Candidates, second: Candidates, switches: MethodSettings, history: History
) -> tuple[PolicyCandidate, Winner]:
    """Select the best of the first candidates and the revision, if there is one.

    Only episodes of this iteration count, except after a race. A revision without changes cannot
    win by luck on other seeds, except with the published accounting.
    """

    def worth(candidate: PolicyCandidate) -> float:
        is_pooled = switches.select == "race"
        return history.of(candidate.number).mean if is_pooled else candidate.mean

    best = max(first, key=worth)
    if not second or switches.select == "single":
        return best, "first"
    revision = max(second, key=worth)
    is_same = switches.common_seeds and revision.params == best.params
    is_tie = is_same or worth(revision) == worth(best)
    is_better = switches.ties_to_second if is_tie else worth(revision) > worth(best)
    is_second = switches.select == "always_second" or is_better
    return (revision, "second") if is_second else (best, "first")


def race_finalists(run: SearchRun) -> _Plays[list[Recheck]]:
    """Compare the policies with the highest lower bounds on common new episodes.

    Sequential halving (Karnin, Koren, Somekh, 2013): each round has an equal share of the episodes
    and keeps the better half of the policies, so most episodes compare policies of similar quality.
    Earlier episodes are ignored. A small budget reduces the number of finalists, so that each plays
    several episodes in the first round.
    """

    def rounds(count: int) -> int:
        return max(1, (count - 1).bit_length())

    room = run.budget_left if run.is_spent else run.plan.reserve
    count = _FINALISTS
    while count > 2 and room < _FIRST_ROUND * count * rounds(count):
        count //= 2
    racing = run.history.best(count)
    checks: list[Recheck] = []
    returns: dict[int, tuple[float, ...]] = {entry.number: () for entry in racing}
    for left in range(rounds(len(racing)), 0, -1):
        found = yield from _check(run, f"final {left}", racing, room // left // len(racing))
        checks += found
        for check in found:
            returns[check.candidate] += check.tried.returns
            room -= len(check.tried.returns)
        order = sorted(racing, key=lambda e: -float(np.mean(returns[e.number] or (-np.inf,))))
        racing = order[: -(-len(order) // 2)]
    return checks


def _check(
    run: SearchRun, purpose: str, entries: Sequence[Entry], count: int
) -> _Plays[list[Recheck]]:
    """Play additional episodes of policies within the remaining budget."""
    count = min(count, run.budget_left // len(entries))
    if count < 1:
        return []
    seeds = run.seeds_for(purpose, len(entries))
    rollouts = yield run.trial([entry.params for entry in entries], seeds, count)
    run.spend(rollouts)
    is_final, checks = purpose.startswith("final"), list[Recheck]()
    for row, entry in enumerate(entries):
        tried = TrialEpisodes.of(seeds[row], rollouts, row)
        checks.append(Recheck(candidate=entry.number, tried=tried, is_final=is_final))
        run.history.check(checks[-1])
    return checks
