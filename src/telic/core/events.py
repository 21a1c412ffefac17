"""What library code reports while it works; terminals, logs and dashboards listen.

An event is a plain dictionary with an "event" name; it crosses a process boundary as one line of
JSON. The names and their fields are listed here and nowhere else.

    probe.done       member, mode, microseconds_per_step, terms
    train.start      run, members, step, total_steps, device, resumed
    train.progress   step, total_steps, steps_per_second, seconds_left, returns {member: number}
    train.finding    member, name, message, values
    eval.done        step, seconds it took, members {member: EvaluationRecord}
    train.end        status, steps, seconds
    video.progress   path, frame, frames
    session.start      session, path, intent, env, resumed
    session.asked      criteria, doubts, not_understood
    session.tried      examples, judge_problems, reward_problems
    session.selected   number, kept, scores of the variants' short trials
    session.iteration  number, change
    session.checkpoint number, step, scores {member: number}, while training goes on
    session.judged     fields of Iteration without policies: number, score, passed, best, tags, ...
    session.forecast   fields of Forecast: steps, seconds, calls, dollars, before the start
    session.spent      number, seconds, steps, usd, calls, left {hours, steps, usd, calls}
    session.paused     message
    session.resumed
    session.waiting    reason (approval or cores), message
    session.admitted   waited_s
    session.notes      number, notes: the iteration that answers them, and who said what
    bench.case         case, env, intent
    bench.result       fields of CaseResult
    search.start       search, env, label, runs, left
    search.iteration   run, number, episodes, budget, selected, incumbent, winner, note
    search.run         fields of RunSummary
    model.sent       role, key, model, system, prompt, images, effort, max_tokens, attempt
    model.retry      role, key, model, error, failures, wait_s
    model.reply      role, key, model, answer, tokens, price_usd, latency_s, attempts, cached
    model.rejected   role, key, model, answer, error
    model.failed     role, key, model, kind, error
    log              message
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
