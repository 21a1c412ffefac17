"""Prompts built from task, policy and history, and text descriptions of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import jinja2
import numpy as np
from numpy.typing import NDArray

from telic.llm import prompt_hash
from telic.search.config import Thinning
from telic.search.plan import SearchPlan
from telic.search.proposers import SearchView
from telic.search.records import Entry, History, PolicyCandidate
from telic.search.task import TERMINATED, TIME_LIMIT, Floats, Rollouts, SearchTask, Trace

_EXCERPT = 8
_EDGE = 4  # steps kept at both ends of a downsampled trace
_ENDS = {TERMINATED: "the episode ended by itself", TIME_LIMIT: "the time limit ended the episode"}
_TEMPLATES = Path(__file__).parent / "prompts"
_NEW = "Do not repeat a policy that was tried before."
_KEEP = "You may return the policy unchanged."
_LEAVE = (
    "If the mean return is at least {gate} and no failure recurs, leave the policy unchanged or "
    "change a single parameter slightly, with a good reason.\n"
)
SYSTEM = (
    "You improve small control policies by choosing their parameters. Answer with the requested "
    "parameters and a short reason, nothing else."
)
Memories = Mapping[int, Trace]


class Prompt(NamedTuple):
    """Rendered prompt and the version of its template."""

    text: str
    version: str


class WatchedCandidate(NamedTuple):
    """Candidate with recorded behavior and the gate threshold."""

    candidate: PolicyCandidate
    evidence: str
    gate: float | None
    memories: Memories


class Writer:
    """Build the prompts of one run."""

    def __init__(self, plan: SearchPlan) -> None:
        self._task, self._space, self._switches = plan.task, plan.policy.space, plan.switches
        self._stated_iterations = plan.stated_iterations

    def search(
        self, view: SearchView, memories: Memories, first: PolicyCandidate | None = None
    ) -> Prompt:
        """Build the prompt for a new policy, including the result of the candidate `first`."""
        has_text = "env_text" in self._switches.context
        known = ""
        if first is not None:
            params = self._list(first.params)
            known = f"\nTried just now: {params} with a mean return of {first.mean:.2f}.\n"
        wanted = self._switches.candidates
        return self._fill(
            "search",
            rank=self._space.rank,
            last=self._space.rank - 1,
            range=self._range(),
            target=f"{self._task.target:g}",
            iteration=view.iteration,
            iterations=self._stated_iterations or view.iterations,
            environment=f"\n{self._environment()}\n" if has_text else "",
            history=self._history(view.history, memories),
            first=known,
            count="one policy" if wanted == 1 else f"{wanted} different policies",
            explore="try other values" if self._space.is_table else "try both signs of a parameter",
            step=self._step(),
            rules=_NEW,
        )

    def critic(self, history: History, watched: WatchedCandidate) -> Prompt:
        """Build the prompt for the revision of a policy whose behavior was recorded."""
        first, gate = watched.candidate, watched.gate
        advice = "" if gate is None else _LEAVE.format(gate=f"{gate:g}")
        return self._fill(
            "critic",
            environment=self._environment(),
            params=self._list(first.params),
            mean=f"{first.mean:.4g}",
            episodes=len(first.tried.returns),
            target=f"{self._task.target:g}",
            evidence=watched.evidence,
            history=self._history(history, watched.memories),
            step=self._step(),
            gate=advice,
            rules=_KEEP if self._switches.allow_no_change else _NEW,
        )

    def critic_only(self, view: SearchView, evidence: str, memories: Memories) -> Prompt:
        """Build the prompt for a policy and its revision in a single answer."""
        return self._fill(
            "critic_only",
            environment=self._environment(),
            history=self._history(view.history, memories),
            evidence=evidence or "No policy was tried yet.",
            iteration=view.iteration,
            iterations=self._stated_iterations or view.iterations,
            target=f"{self._task.target:g}",
            step=self._step(),
            rules=_NEW,
        )

    def _fill(self, name: str, **values: object) -> Prompt:
        template = (_TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
        form = jinja2.Template(
            template, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
        )
        return Prompt(form.render(values), prompt_hash(template))

    def _environment(self) -> str:
        names = "\n".join(f"- params[{i}]: {name}" for i, name in enumerate(self._space.names))
        return (
            f"## The task\n\n{self._task.story}\n\nReward: {self._task.rewards}\n\n"
            f"## The policy\n\n{self._space.formula} {self._range()}\n\n{names}\n"
        )

    def _range(self) -> str:
        space = self._space
        if space.choices is not None:
            return f"Each is one of {', '.join(map(str, space.choices))}."
        digits = "decimal" if space.decimals == 1 else "decimals"
        return (
            f"Each is in [{space.low:g}, {space.high:g}], with at most {space.decimals} {digits}."
        )

    def _step(self) -> str:
        if self._space.is_table:
            return "Any parameter may take any of its values."
        return f"A sensible small change of a parameter is about {self._task.step_size:g}."

    def _history(self, history: History, memories: Memories) -> str:
        entries = history.shown(self._switches.history_view)
        if not entries:
            return "Nothing yet."
        lines = [self._entry(entry, memories.get(entry.number)) for entry in entries]
        if hidden := len(history.shown("full")) - len(entries):
            lines.append(f"- {hidden} more not listed")
        return "\n".join(lines)

    def _entry(self, entry: Entry, memory: Trace | None) -> str:
        count = len(entry.returns)
        if self._switches.uncertainty:
            spread = "" if entry.error is None else f" ± {entry.error:.2g}"
            result = f"return {entry.mean:.4g}{spread} ({count} episode{'s' * (count > 1)})"
        elif entry.is_warmup:
            result = f"return {entry.mean:.2f} of a single episode"
        else:
            result = f"mean return {entry.mean:.2f}"
        line = f"- {self._list(entry.params)}: {result}"
        if memory is None:
            return line
        if "trajectories" in self._switches.context:
            switches = self._switches
            steps = describe_trace(self._task, memory, switches.trace_steps, switches.thinning)
            return f"{line}\n  one of its episodes:\n{indent(steps, '    ')}"
        return f"{line}\n  an episode: {excerpt(self._task, memory)}"

    def _list(self, params: tuple[float, ...]) -> str:
        digits = self._space.decimals
        return f"[{', '.join(f'{value:.{digits}f}' for value in params)}]"


def describe_behavior(kind: str, plan: SearchPlan, rollouts: Rollouts, candidate: int) -> str:
    """Describe the behavior of a candidate in the form that the switch `evidence` selects."""
    returns, switches = rollouts.returns[candidate], plan.switches
    parts: list[str] = []
    if kind.startswith("stats"):
        parts.append(statistics(plan.task.solved, rollouts, candidate))
    for title, rollout in _shown(kind, returns):
        trace = rollouts.trace(candidate, rollout)
        text = describe_trace(plan.task, trace, switches.trace_steps, switches.thinning)
        parts.append(f"### {title} (return {returns[rollout]:.4g})\n\n{text}")
    return "\n\n".join(parts)


def statistics(success: float, rollouts: Rollouts, candidate: int) -> str:
    """Summarize the episodes of a candidate."""
    returns, lengths = rollouts.returns[candidate], rollouts.lengths[candidate]
    ends, counts = np.unique(rollouts.ends[candidate], return_counts=True)
    solved = int((returns >= success).sum())
    how = "; ".join(
        f"in {n} {_ENDS.get(str(end), 'it was truncated')}"
        for end, n in zip(ends, counts, strict=True)
    )
    return (
        f"- return: mean {returns.mean():.4g}, lowest {returns.min():.4g}, "
        f"highest {returns.max():.4g}\n"
        f"- steps: mean {lengths.mean():.4g}, fewest {lengths.min()}, most {lengths.max()}\n"
        f"- of {len(returns)} episodes {solved} succeeded and {len(returns) - solved} did not\n"
        f"- {how}"
    )


def describe_trace(
    task: SearchTask, trace: Trace, most_steps: int, thinning: Thinning = "turns"
) -> str:
    """Describe an episode with one line per step, downsampled if it is long."""
    chosen = interesting_steps(trace, most_steps, thinning)
    # A single omitted step would take as much space as the note about its omission.
    between = [after - 1 for before, after in pairwise(chosen) if after - before == 2]
    steps = sorted([*chosen, *between])
    names = ["state"] if task.is_table else [seen.name for seen in task.observations]
    lines = [f"step: {', '.join(names)} -> action -> reward"]
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
    ending = _ENDS.get(trace.end, "it was truncated")
    lines.append(f"then {_numbers(trace.next_obs[-1])}; {ending} after {len(trace.obs)} steps")
    return "\n".join(lines)


def interesting_steps(trace: Trace, most: int, thinning: Thinning = "turns") -> list[int]:
    """Select at most `most` steps: both ends, then action changes, then evenly spaced steps.

    Repeated actions carry little information, while changes show where the policy decides. With
    `ends`, as in the published runs, only the first and last `most / 2` steps are selected.
    """
    count = len(trace.obs)
    if count <= most:
        return list(range(count))
    if thinning == "ends":
        return [*range(most - most // 2), *range(count - most // 2, count)]
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


def excerpt(task: SearchTask, trace: Trace) -> str:
    """Summarize the first and last steps of an episode in one line."""
    count = len(trace.obs)
    steps = range(count) if count <= _EXCERPT else [*range(_EDGE), *range(count - _EDGE, count)]
    parts = [f"{_numbers(trace.obs[s])}->{_numbers(trace.action[s])}" for s in steps]
    if count > _EXCERPT:
        parts.insert(_EDGE, f"({count - _EXCERPT} steps)")
    return " | ".join([*parts, _numbers(trace.next_obs[-1])])


def nearest(returns: Floats, value: float) -> int:
    """Return the index of the first episode whose return is closest to a value."""
    return int(np.abs(returns - value).argmin())


def _shown(kind: str, returns: Floats) -> list[tuple[str, int]]:
    """Return the title and index of each episode that the prompt describes."""
    median = ("The median episode", nearest(returns, float(np.median(returns))))
    match kind:
        case "median_trace" | "stats+median":
            return [median]
        case "mean_trace" | "last_trace":
            return [("The episode closest to the mean", nearest(returns, float(returns.mean())))]
        case "three_traces":
            worst, best = int(returns.argmin()), int(returns.argmax())
            return [("The worst episode", worst), median, ("The best episode", best)]
        case _:
            return []


def _numbers(value: NDArray[Any] | Any) -> str:
    words = [f"{number:.3g}" for number in np.atleast_1d(value)]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"
