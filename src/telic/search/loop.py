"""The parts of a search for `telic.loop`: propose, evaluate, reflect, select and confirm.

The parts are generators: they yield trials and are sent back their rollouts, so that the driver can
play the episodes of many runs in one batch; see `runner.do_runs`. Episodes are functions of
parameters and seeds, so the past is played again instead of stored, and more episodes decide which
of two similar candidates is better.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from telic.core.stats import paired_greater
from telic.search.config import Switches
from telic.search.plan import SearchPlan
from telic.search.proposers import PolicyDraft, PolicyProposal, ProposedPolicies, View
from telic.search.records import (
    Candidates,
    Entry,
    History,
    ModelQuestion,
    Place,
    PolicyCandidate,
    Recheck,
    SearchIteration,
)
from telic.search.run import Choice, SearchRun, tried_of
from telic.search.task import BatchRecording, Floats, PolicyTrial, Rollouts, generator
from telic.search.writer import WatchedCandidate, describe_behaviour

Tested = tuple[list[PolicyCandidate], Rollouts | None]


class Evaluated(NamedTuple):
    """The candidates of an iteration after their episodes."""

    candidates: tuple[PolicyCandidate, ...]
    choice: Choice
    checks: tuple[Recheck, ...] = ()
    calls: tuple[ModelQuestion, ...] = ()
    note: str | None = None


class SearchParts:
    """Implement the steps of the loop for one run of a search."""

    candidate_type, verdict_type = ProposedPolicies, SearchIteration

    def __init__(
        self,
        run: SearchRun,
        should_stop: Callable[[], bool],
        on_iteration: Callable[[SearchIteration], None],
    ) -> None:
        """Prepare a run from its start; the journal brings it to where it was.

        Args:
            run: its parts and counters.
            should_stop: polled before each iteration.
            on_iteration: called with each iteration that is finished now, not with earlier ones.
        """
        self.run_state, self.done = run, list[SearchIteration]()
        self._should_stop, self._on_iteration = should_stop, on_iteration
        self._proposed = self._judged = 0

    def propose(self, number: int) -> Plays[ProposedPolicies | None]:
        """Return the next candidates; random ones first, where a model is to see some."""
        run = self.run_state
        if run.is_over or self._should_stop():
            return None
        self._proposed = number
        if run.candidates == 0 and run.warmup:
            rng, policy = generator(run.seed, "warm-up"), run.plan.policy
            points = [policy.space.fit(policy.draw(rng)).params for _ in range(run.warmup)]
            drafts = tuple(PolicyDraft(point, "warm-up") for point in points)
            return ProposedPolicies(place="warm-up", drafts=drafts)
        view = run.view()
        yield from remember(run)
        drafts, calls, note = run.proposer.propose(view)
        return ProposedPolicies(place="first", drafts=tuple(drafts), calls=calls, note=note)

    def check(self, number: int, candidate: ProposedPolicies) -> None:
        """Run every proposal: its parameters were fitted to the policy's space."""

    def run(self, number: int, candidate: ProposedPolicies) -> Plays[Evaluated]:
        """Play the candidates, revise the best, and play more episodes of the likely winner."""
        run = self.run_state
        if candidate.place == "warm-up":
            tried, _ = yield from _evaluate(run, "warm-up", candidate.drafts, count=1)
            best = max(tried, key=lambda each: each.mean)
            return Evaluated(tuple(tried), Choice(best, "warm-up"))
        view = run.view()
        is_new = self._proposed == number
        if not is_new:
            yield from remember(run)
        run.iteration += 1
        first, rollouts = yield from _evaluate(run, "first", candidate.drafts)
        recording = rollouts.recording if rollouts else None
        if is_new:
            run.proposer.observe(first, recording)
        else:
            run.proposer.replay(view, first, recording)
        revised = _reflect(run, view, first, rollouts)
        second, _ = yield from _evaluate(run, "second", revised.drafts)
        checks = yield from race(run, first, second)
        choice = choose(first, second, run.plan.switches, run.history)
        checks += yield from confirm(run, choice, was_skipped=not revised.drafts)
        calls = (*candidate.calls, *revised.calls)
        note = candidate.note or revised.note
        return Evaluated((*first, *second), choice, tuple(checks), calls, note)

    def judge(self, number: int, candidate: ProposedPolicies, result: Evaluated) -> SearchIteration:
        """Return the record of the iteration, with the candidate that counts."""
        self._judged = number
        return self.run_state.finish(*result)

    def decide(
        self, number: int, candidate: ProposedPolicies, verdict: SearchIteration
    ) -> Plays[None]:
        """Continue after an iteration; one that was read back is taken into account first."""
        if self._judged == number:
            self._on_iteration(verdict)
        else:
            yield from replay_iteration(self.run_state, verdict)
        self.done.append(verdict)


def _evaluate(
    run: SearchRun, place: Place, drafts: Sequence[PolicyDraft], count: int | None = None
) -> Plays[Tested]:
    """Try drafts, on the same episodes for all of an iteration where starts are common."""
    if not drafts:
        return [], None
    seeds = run.seeds_for("try", len(drafts))
    if any(map(run.history.has_met, [draft.params for draft in drafts], seeds)):
        # A policy left as it is: the same episodes once more would add nothing and count twice.
        seeds = run.seeds_for("again", len(drafts))
    trial = run.trial([draft.params for draft in drafts], seeds, count or run.plan.rollouts)
    is_watched = run.plan.switches.evidence != "none" or run.proposer.needs_transitions
    rollouts = yield trial._replace(is_recorded=is_watched)
    candidates = run.take_in(drafts, place, seeds, rollouts)
    for candidate in candidates:
        run.history.count(candidate)
    return candidates, rollouts


def _reflect(
    run: SearchRun, view: View, tried: Candidates, rollouts: Rollouts | None
) -> PolicyProposal:
    """Return the second candidate of an iteration, where there is to be one."""
    switches = run.plan.switches
    if switches.second == "none" or rollouts is None:
        return PolicyProposal([])
    row, first = max(enumerate(tried), key=lambda pair: pair[1].mean)
    if run.critic is None:
        return run.model.propose_again(view, first) if run.model else run.again.propose(view)
    gate = gate_value(run.plan, run.history)
    is_good = gate is not None and first.mean >= gate
    if switches.gate == "skip" and is_good:
        return PolicyProposal([], note="good enough: the revision was skipped")
    evidence = describe_behaviour(switches.evidence, run.plan, rollouts, row)
    memories: Any = run.model.memories if run.model else {}
    revised = run.critic.revise(view, WatchedCandidate(first, evidence, gate, memories))
    if switches.gate == "limit" and is_good:
        drafts = [limited(draft, first, switches.max_edit) for draft in revised.drafts]
        return revised._replace(drafts=drafts)
    return revised


Result = TypeVar("Result")
Plays = Generator[PolicyTrial, Rollouts, Result]

_FINALISTS, _FIRST_ROUND = 16, 4
_RACE_LOOKS, _RACE_ERROR = 3, 0.05
_LEARNED_AT = 0.95
_LEARNED_FROM = 10


def replay_iteration(run: SearchRun, iteration: SearchIteration) -> Plays[None]:
    """Restore the state after a stored iteration, replaying episodes that a part learns from."""
    view = run.view()
    first = [candidate for candidate in iteration.candidates if candidate.place == "first"]
    second = [candidate for candidate in iteration.candidates if candidate.place == "second"]
    recording = yield from _play_again(run, first)
    yield from _play_again(run, second)
    if first:
        run.proposer.replay(view, first, recording)
    run.restore(iteration)


def remember(run: SearchRun) -> Plays[None]:
    """Play what the next prompt shows of earlier candidates; this costs no budget."""
    switches, task = run.plan.switches, run.plan.task
    if run.model is None:
        return
    entries = run.history.shown(switches.history_view)
    wants_all = "trajectories" in switches.context and task.is_table
    shown = entries if wants_all else entries[-switches.excerpts :] if switches.excerpts else []
    run.model.memories = {}
    if shown:
        trial = run.trial([e.params for e in shown], [e.seed for e in shown], 1)
        rollouts = yield trial._replace(is_recorded=True)
        run.model.memories = {e.number: rollouts.trace(row, 0) for row, e in enumerate(shown)}
    if switches.evidence == "last_trace" and entries:
        last = entries[-1]
        trial = run.trial([last.params], [last.seed], run.plan.rollouts)
        rollouts = yield trial._replace(is_recorded=True)
        run.model.last = describe_behaviour("last_trace", run.plan, rollouts, 0)


def race(run: SearchRun, first: Candidates, second: Candidates) -> Plays[list[Recheck]]:
    """Under select=race, replay candidate and revision until one is significantly better.

    Both meet the same starts, so pairs of episodes are compared. Over all rounds a race between
    equals ends early by mistake in at most 5 of 100 cases: each look has its share of that.
    """
    if run.plan.switches.select != "race" or not second:
        return []
    best = run.history.of(max(first, key=lambda candidate: candidate.mean).number)
    revision = run.history.of(second[0].number)
    one, other = (np.array(each.tried.returns) for each in (_of(first, best), second[0]))
    checks: list[Recheck] = []
    for look in range(_RACE_LOOKS):
        if best.params == revision.params or _differ(one, other):
            break
        purpose = f"race {look}" if look else "race"
        found = yield from _check(run, purpose, [best, revision], run.plan.rollouts)
        if not found:
            break
        checks += found
        one, other = (
            np.concatenate((mine, check.tried.returns))
            for mine, check in zip((one, other), found, strict=True)
        )
    return checks


def _of(candidates: Candidates, entry: Entry) -> PolicyCandidate:
    return next(each for each in candidates if each.params == entry.params)


def _differ(one: Floats, other: Floats) -> bool:
    looks = [paired_greater(one, other), paired_greater(other, one)]
    return any(p is not None and p < _RACE_ERROR / (2 * _RACE_LOOKS) for p in looks)


def choose(first: Candidates, second: Candidates, switches: Switches, history: History) -> Choice:
    """Return the candidate that counts among the first ones and the revision, if there is one.

    After a race all episodes of a policy count, else only those of this iteration. A revision that
    changed nothing gains nothing from luck on other starts, except in the published accounting.
    """

    def worth(candidate: PolicyCandidate) -> float:
        is_pooled = switches.select == "race"
        return history.of(candidate.number).mean if is_pooled else candidate.mean

    best = max(first, key=worth)
    if not second or switches.select == "single":
        return Choice(best, "first")
    revision = max(second, key=worth)
    is_same = switches.common_seeds and revision.params == best.params
    is_tie = is_same or worth(revision) == worth(best)
    is_better = switches.ties_to_second if is_tie else worth(revision) > worth(best)
    if switches.select == "always_second" or is_better:
        return Choice(revision, "second")
    return Choice(best, "first")


def confirm(run: SearchRun, choice: Choice, *, was_skipped: bool) -> Plays[list[Recheck]]:
    """Play more episodes of who may be the best: the challenger, and at last the finalists.

    Where a revision was skipped, its episodes go to the incumbent instead.
    """
    incumbent, entry = run.history.incumbent, run.history.of(choice.selected.number)
    assert incumbent is not None, "something was tried"
    checks: list[Recheck] = []
    if was_skipped and run.plan.switches.gate == "skip" and run.critic is not None:
        checks += yield from _check(run, "check", [incumbent], run.plan.rollouts)
    elif len(entry.returns) < run.plan.confirm and entry.mean > run.history.bar:
        checks += yield from _check(run, "check", [entry], run.plan.confirm)
    if run.is_over and run.plan.reserve:
        checks += yield from race_finalists(run)
    return checks


def race_finalists(run: SearchRun) -> Plays[list[Recheck]]:
    """Play the policies that have proven most against one another, on the same new episodes.

    Sequential halving (Karnin, Koren, Somekh, 2013): each round has an equal share of the episodes
    and keeps the better half, so that most are spent on policies of similar quality. Earlier
    episodes do not count; with a small budget fewer policies take part, so that each has a few
    episodes in the first round.
    """
    room = run.budget_left if run.is_spent else run.plan.reserve
    count = _FINALISTS
    while count > 2 and room < _FIRST_ROUND * count * _rounds(count):
        count //= 2
    racing = run.history.best(count)
    rounds = _rounds(len(racing))
    checks: list[Recheck] = []
    returns: dict[int, tuple[float, ...]] = {entry.number: () for entry in racing}
    for left in range(rounds, 0, -1):
        found = yield from _check(run, f"final {left}", racing, room // left // len(racing))
        checks += found
        for check in found:
            returns[check.candidate] += check.tried.returns
            room -= len(check.tried.returns)
        order = sorted(racing, key=lambda e: -float(np.mean(returns[e.number] or (-np.inf,))))
        racing = order[: -(-len(order) // 2)]
    return checks


def _rounds(count: int) -> int:
    return max(1, (count - 1).bit_length())


def gate_value(plan: SearchPlan, history: History) -> float | None:
    """Return the threshold above which a policy is not revised; None without a gate."""
    if plan.switches.gate == "off":
        return None
    good, worst = plan.terms.good, plan.task.worst
    match plan.switches.gate_at:
        case "default":
            return good
        case "half":
            return worst + (good - worst) / 2
        case "learned":
            means = [entry.mean for entry in history.everything]
            # A policy among the best few of many is not to be spoiled, whatever its task.
            return float(np.quantile(means, _LEARNED_AT)) if len(means) >= _LEARNED_FROM else None
        case number:
            return float(number)


def limited(draft: PolicyDraft, first: PolicyCandidate, most: float) -> PolicyDraft:
    """Return a revision whose numbers differ from the first candidate's by at most `most`."""
    before, after = np.array(first.params), np.array(draft.params)
    near = np.round(np.clip(after, before - most, before + most), 6)
    if np.array_equal(near, after):
        return draft
    note = f"a change larger than {most:g} was cut, because the policy was good already"
    return draft._replace(params=tuple(near.tolist()), warnings=(*draft.warnings, note))


def _check(
    run: SearchRun, purpose: str, entries: Sequence[Entry], count: int
) -> Plays[list[Recheck]]:
    """Play further episodes of policies, as far as the budget goes."""
    count = min(count, run.budget_left // len(entries))
    if count < 1:
        return []
    seeds = run.seeds_for(purpose, len(entries))
    rollouts = yield run.trial([entry.params for entry in entries], seeds, count)
    run.spend(rollouts)
    checks = [
        Recheck(
            candidate=entry.number,
            tried=tried_of(seeds[row], rollouts, row),
            is_final=purpose.startswith("final"),
        )
        for row, entry in enumerate(entries)
    ]
    for check in checks:
        run.history.check(check)
    return checks


def _play_again(run: SearchRun, candidates: Candidates) -> Plays[BatchRecording | None]:
    if not candidates or not run.proposer.needs_transitions:
        return None
    trial = run.trial(
        [candidate.params for candidate in candidates],
        [candidate.tried.seed for candidate in candidates],
        len(candidates[0].tried.returns),
    )
    rollouts = yield trial._replace(is_recorded=True)
    return rollouts.recording
