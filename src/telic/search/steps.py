"""The steps that `loop.py` puts in order: take up, remember, race, choose, confirm.

Episodes are functions of parameters and seeds, so the past is played again instead of kept, and a
doubt about who is better is settled by more episodes where they decide something.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np

from telic.search.history import Entry, History
from telic.search.methods import Switches
from telic.search.proposers import PolicyDraft
from telic.search.records import Candidates, PolicyCandidate, Recheck, SearchIteration
from telic.search.rollouts import BatchRecording, PolicyTrial, Rollouts
from telic.search.run import Choice, SearchRun, tried_of
from telic.search.task import SearchTask
from telic.search.writer import describe_behaviour

Result = TypeVar("Result")
Plays = Generator[PolicyTrial, Rollouts, Result]

_FINALISTS = 5
_LEARNED_AT = 0.95
_LEARNED_FROM = 10


def take_up(run: SearchRun, iteration: SearchIteration) -> Plays[None]:
    """Come to the state after an iteration on disk, playing again what somebody learned from."""
    view = run.view()
    first = [candidate for candidate in iteration.candidates if candidate.place == "first"]
    second = [candidate for candidate in iteration.candidates if candidate.place == "second"]
    recording = yield from _play_again(run, first)
    yield from _play_again(run, second)
    if first:
        run.proposer.replay(view, first, recording)
    run.take_up(iteration)


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
        run.model.last = describe_behaviour("last_trace", task, rollouts, 0, switches.trace_steps)


def race(run: SearchRun, first: Candidates, second: Candidates) -> Plays[list[Recheck]]:
    """Under select=race, play candidate and revision again while they cannot be told apart."""
    if run.plan.switches.select != "race" or not second:
        return []
    best = run.history.of(max(first, key=lambda candidate: candidate.mean).number)
    revision = run.history.of(second[0].number)
    doubt = 2.0 * ((best.error or 0.0) + (revision.error or 0.0))
    if best.params == revision.params or abs(best.mean - revision.mean) > doubt:
        return []
    return (yield from _check(run, "race", [best, revision], run.plan.rollouts))


def choose(first: Candidates, second: Candidates, switches: Switches, history: History) -> Choice:
    """Return the candidate that counts among the first ones and the revision, if there is one.

    After a race all episodes of a policy count, else only those of this iteration. A revision that
    changed nothing is no better for its luck on other starts, except by the published accounting.
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
        finalists = run.history.best(_FINALISTS)
        room = run.budget_left if run.is_spent else run.plan.reserve
        checks += yield from _check(run, "final", finalists, room // len(finalists))
    return checks


def gate_value(switches: Switches, task: SearchTask, history: History) -> float | None:
    """Return the return from which on a policy should be left alone; None when there is no gate."""
    if switches.gate == "off":
        return None
    match switches.gate_at:
        case "default":
            return task.good
        case "half":
            return task.worst + (task.good - task.worst) / 2
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
            is_final=purpose == "final",
        )
        for row, entry in enumerate(entries)
    ]
    for check in checks:
        run.history.check(check)
    return checks


def _play_again(run: SearchRun, candidates: Candidates) -> Plays[BatchRecording | None]:
    if not candidates or not run.needs_transitions:
        return None
    trial = run.trial(
        [candidate.params for candidate in candidates],
        [candidate.tried.seed for candidate in candidates],
        len(candidates[0].tried.returns),
    )
    rollouts = yield trial._replace(is_recorded=True)
    if run.critic is not None:
        run.critic.observe(rollouts.recording)
    return rollouts.recording
