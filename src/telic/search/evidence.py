"""How a candidate behaved, as text: statistics over its episodes, and typical ones step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telic.search.draws import Floats
from telic.search.environments.task import Task
from telic.search.rollouts import TERMINATED, TIME_LIMIT, Rollouts, Trace

_EXCERPT = 8
_EDGE = 4  # steps kept at either end of a thinned trace
_ENDS = {
    TERMINATED: "the episode ended by itself",
    TIME_LIMIT: "the time limit ended the episode",
}


def describe_behaviour(
    kind: str, task: Task, rollouts: Rollouts, candidate: int, most_steps: int
) -> str:
    """Return the evidence of one candidate, as a switch asks for it."""
    returns = rollouts.returns[candidate]
    parts: list[str] = []
    if kind.startswith("stats"):
        parts.append(statistics(task, rollouts, candidate))
    for title, rollout in _shown(kind, returns):
        trace = rollouts.trace(candidate, rollout)
        text = describe_trace(task, trace, most_steps)
        parts.append(f"### {title} (return {returns[rollout]:.4g})\n\n{text}")
    return "\n\n".join(parts)


def nearest(returns: Floats, value: float) -> int:
    """Return the first episode whose return is closest to a value."""
    return int(np.abs(returns - value).argmin())


def statistics(task: Task, rollouts: Rollouts, candidate: int) -> str:
    """Return what the episodes of a candidate came to, all together."""
    returns, lengths = rollouts.returns[candidate], rollouts.lengths[candidate]
    ends, counts = np.unique(rollouts.ends[candidate], return_counts=True)
    solved = int((returns >= task.solved).sum())
    how = "; ".join(
        f"in {n} {_ENDS.get(str(end), 'it was cut short')}"
        for end, n in zip(ends, counts, strict=True)
    )
    return (
        f"- return: mean {returns.mean():.4g}, lowest {returns.min():.4g}, "
        f"highest {returns.max():.4g}\n"
        f"- steps: mean {lengths.mean():.4g}, fewest {lengths.min()}, most {lengths.max()}\n"
        f"- of {len(returns)} episodes {solved} succeeded and {len(returns) - solved} did not\n"
        f"- {how}"
    )


def describe_trace(task: Task, trace: Trace, most_steps: int) -> str:
    """Return an episode, one line per step; a long one is thinned to where something changes."""
    chosen = interesting_steps(trace, most_steps)
    # To write a single step out takes no more room than to say that it is left out.
    between = [after - 1 for before, after in pairwise(chosen) if after - before == 2]
    steps = sorted([*chosen, *between])
    head = "state" if task.is_table else ", ".join(each.name for each in task.observations)
    lines = [f"step: {head} -> action -> reward"]
    before = -1
    for step in steps:
        if step > before + 1:
            lines.append(f"({step - before - 1} steps left out)")
        lines.append(
            f"{step}: {_numbers(trace.obs[step])} -> {_numbers(trace.action[step])} -> "
            f"{trace.reward[step]:.3g}"
        )
        before = step
    if len(trace.obs) > before + 1:
        lines.append(f"({len(trace.obs) - before - 1} steps left out)")
    ending = _ENDS.get(trace.end, "it was cut short")
    lines.append(f"then {_numbers(trace.next_obs[-1])}; {ending} after {len(trace.obs)} steps")
    return "\n".join(lines)


def excerpt(task: Task, trace: Trace) -> str:
    """Return the first and the last steps of an episode on one line."""
    count = len(trace.obs)
    steps = range(count) if count <= _EXCERPT else [*range(_EDGE), *range(count - _EDGE, count)]
    parts = [f"{_numbers(trace.obs[s])}->{_numbers(trace.action[s])}" for s in steps]
    if count > _EXCERPT:
        parts.insert(_EDGE, f"({count - _EXCERPT} steps)")
    return " | ".join([*parts, _numbers(trace.next_obs[-1])])


def interesting_steps(trace: Trace, most: int) -> list[int]:
    """Return at most `most` steps: both ends, then those where the action changes, then even ones.

    A long run of the same action tells little; where it changes is where a policy decides.
    """
    count = len(trace.obs)
    if count <= most:
        return list(range(count))
    edge = max(1, min(_EDGE, most // 3))
    chosen = {*range(edge), *range(count - edge, count)}
    action = trace.action if trace.action.ndim == 1 else np.sign(trace.action[:, 0])
    turns = np.flatnonzero(action[1:] != action[:-1]) + 1
    for pool in (turns, np.arange(count)):
        left = most - len(chosen)
        fresh = [int(step) for step in pool if int(step) not in chosen]
        if left <= 0 or not fresh:
            continue
        picks = np.linspace(0, len(fresh) - 1, min(left, len(fresh))).astype(int)
        chosen |= {fresh[pick] for pick in picks}
    return sorted(chosen)


def _shown(kind: str, returns: Floats) -> list[tuple[str, int]]:
    """Return the title and number of each episode that is written out."""
    median = ("The median episode", nearest(returns, float(np.median(returns))))
    if kind in ("median_trace", "stats+median"):
        return [median]
    if kind in ("mean_trace", "last_trace"):
        return [("The episode closest to the mean", nearest(returns, float(returns.mean())))]
    if kind == "three_traces":
        worst, best = int(returns.argmin()), int(returns.argmax())
        return [("The worst episode", worst), median, ("The best episode", best)]
    return []


def _numbers(value: NDArray[Any] | Any) -> str:
    if np.ndim(value) == 0:
        return f"{value:.3g}"
    if len(value) == 1:
        return f"{value[0]:.3g}"
    return "[" + ", ".join(f"{each:.3g}" for each in value) + "]"
