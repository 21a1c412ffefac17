"""THE MAIN FLOW of a search: propose, evaluate, reflect, select, record.

A run is a generator. It yields trials and is sent back their rollouts, so that whoever drives it
can play the episodes of many runs in one batch; see `runner.do_runs`. An iteration that is on disk
is taken up instead of done again, so resuming is running again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from telic.search.proposers import PolicyDraft, PolicyProposal, View
from telic.search.records import Candidates, Outcome, Place, PolicyCandidate, SearchIteration
from telic.search.rollouts import Rollouts
from telic.search.run import Choice, SearchRun
from telic.search.steps import Plays, choose, confirm, gate_value, limited, race, remember, take_up
from telic.search.task import generator
from telic.search.writer import WatchedCandidate, describe_behaviour

Tested = tuple[list[PolicyCandidate], Rollouts | None]


def search_policy(
    run: SearchRun,
    done: Iterable[SearchIteration],
    record: Callable[[SearchIteration], None],
    should_stop: Callable[[], bool],
) -> Plays[Outcome]:
    """Do a run, or go on with it after the iterations that are done; return how it ended."""
    for iteration in done:
        yield from take_up(run, iteration)
    if run.candidates == 0 and run.warmup:
        record((yield from _warm_up(run)))
    while not run.is_over:
        if should_stop():
            return "stopped"
        view = run.view()
        yield from remember(run)
        proposed = run.proposer.propose(view)
        run.iteration += 1
        first, rollouts = yield from _evaluate(run, "first", proposed.drafts)
        run.proposer.observe(first, rollouts.recording if rollouts else None)
        revised = _reflect(run, view, first, rollouts)
        second, _ = yield from _evaluate(run, "second", revised.drafts)
        checks = yield from race(run, first, second)
        choice = choose(first, second, run.plan.switches, run.history)
        checks += yield from confirm(run, choice, was_skipped=not revised.drafts)
        calls = (*proposed.calls, *revised.calls)
        note = proposed.note or revised.note
        record(run.finish((*first, *second), choice, checks, calls, note))
    return "completed"


def _warm_up(run: SearchRun) -> Plays[SearchIteration]:
    """Try random policies on one episode each, for a model to see."""
    rng = generator(run.seed, "warm-up")
    policy = run.plan.policy
    points = [policy.space.fit(policy.draw(rng)).params for _ in range(run.warmup)]
    drafts = [PolicyDraft(point, "warm-up") for point in points]
    candidates, _ = yield from _evaluate(run, "warm-up", drafts, count=1)
    best = max(candidates, key=lambda candidate: candidate.mean)
    return run.finish(candidates, Choice(best, "warm-up"))


def _evaluate(
    run: SearchRun, place: Place, drafts: Sequence[PolicyDraft], count: int | None = None
) -> Plays[Tested]:
    """Try drafts, on the same episodes for all of an iteration where starts are common."""
    if not drafts:
        return [], None
    seeds = run.seeds_for("try", len(drafts))
    if any(map(run.history.has_met, [draft.params for draft in drafts], seeds)):
        # A policy left as it is: the same episodes once more would tell nothing and count twice.
        seeds = run.seeds_for("again", len(drafts))
    trial = run.trial([draft.params for draft in drafts], seeds, count or run.plan.rollouts)
    is_watched = run.plan.switches.evidence != "none" or run.needs_transitions
    rollouts = yield trial._replace(is_recorded=is_watched)
    if run.critic is not None and place != "warm-up":
        run.critic.observe(rollouts.recording)
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
