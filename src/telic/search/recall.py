"""Episodes are functions of parameters and seeds, so the past is played again instead of kept."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from telic.search.evidence import describe_behaviour
from telic.search.records import Candidate, Iteration
from telic.search.rollouts import Recording, Rollouts, Trial
from telic.search.run import Run

Plays = Generator[Trial, Rollouts, None]


def remember(run: Run) -> Plays:
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


def take_up(run: Run, iteration: Iteration) -> Plays:
    """Come to the state after an iteration on disk, playing again what somebody learned from."""
    view = run.view()
    first = [each for each in iteration.candidates if each.place == "first"]
    second = [each for each in iteration.candidates if each.place == "second"]
    recording = yield from _play_again(run, first)
    yield from _play_again(run, second)
    if first:
        run.proposer.replay(view, first, recording)
    run.take_up(iteration)


def _play_again(
    run: Run, candidates: Sequence[Candidate]
) -> Generator[Trial, Rollouts, Recording | None]:
    if not candidates or not run.needs_transitions:
        return None
    trial = run.trial(
        [each.params for each in candidates],
        [each.tried.seed for each in candidates],
        len(candidates[0].tried.returns),
    )
    rollouts = yield trial._replace(is_recorded=True)
    if run.critic is not None:
        run.critic.observe(rollouts.recording)
    return rollouts.recording
