"""What a model is told: templates, filled from the task, the policy and the history."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from telic.llm import prompt_hash, render
from telic.search.environments.task import Task
from telic.search.evidence import describe_trace, excerpt
from telic.search.history import Entry, History
from telic.search.protocol import Terms
from telic.search.records import Candidate
from telic.search.rollouts import Trace
from telic.search.space import Space
from telic.search.switches import Switches

_TEMPLATES = Path(__file__).parent / "prompts"
_NEW = "Do not repeat a policy that was tried before."
_KEEP = "You may return the policy unchanged."
SYSTEM = (
    "You improve small control policies by choosing their numbers. You answer with the numbers "
    "asked for and a short reason, nothing else."
)


class Prompt(NamedTuple):
    """A finished prompt and the version of its template."""

    text: str
    version: str


class Writer:
    """Writes the prompts of one run."""

    def __init__(self, task: Task, space: Space, switches: Switches, terms: Terms) -> None:
        self._task, self._space, self._switches, self._terms = task, space, switches, terms

    def search(
        self,
        history: History,
        iteration: int,
        iterations: int,
        memories: Mapping[int, Trace],
        first: Candidate | None = None,
    ) -> Prompt:
        """Ask for a new policy; `first` is one whose result is to be known already."""
        has_text = "env_text" in self._switches.context
        known = (
            ""
            if first is None
            else (
                f"\nTried a moment ago: {self._list(first.params)} with a mean return of "
                f"{first.mean:.2f}.\n"
            )
        )
        wanted = self._switches.candidates
        return self._fill(
            "search",
            rank=self._space.rank,
            last=self._space.rank - 1,
            range=self._range(),
            target=f"{self._terms.target:g}",
            iteration=iteration,
            iterations=self._terms.stated_iterations or iterations,
            environment=f"\n{self._environment()}\n" if has_text else "",
            history=self._history(history, memories),
            first=known,
            count="one policy" if wanted == 1 else f"{wanted} different policies",
            explore="try other values" if self._space.is_table else "try both signs of a number",
            step=self._step(),
            rules=_NEW,
        )

    def critic(
        self,
        history: History,
        first: Candidate,
        evidence: str,
        gate: float | None,
        memories: Mapping[int, Trace],
    ) -> Prompt:
        """Ask for a revision of a policy that was watched."""
        advice = ""
        if gate is not None:
            advice = (
                f"From a mean return of {gate:g} on, unless something fails again and again, leave "
                "the policy as it is or change a single number a little, with a good reason.\n"
            )
        return self._fill(
            "critic",
            environment=self._environment(),
            params=self._list(first.params),
            mean=f"{first.mean:.4g}",
            episodes=len(first.tried.returns),
            target=f"{self._terms.target:g}",
            evidence=evidence,
            history=self._history(history, memories),
            step=self._step(),
            gate=advice,
            rules=_KEEP if self._switches.allow_no_change else _NEW,
        )

    def critic_only(
        self,
        history: History,
        iteration: int,
        iterations: int,
        evidence: str,
        memories: Mapping[int, Trace],
    ) -> Prompt:
        """Ask for a policy and its revision in one breath."""
        return self._fill(
            "critic_only",
            environment=self._environment(),
            history=self._history(history, memories),
            evidence=evidence or "Nothing was tried yet.",
            iteration=iteration,
            iterations=self._terms.stated_iterations or iterations,
            target=f"{self._terms.target:g}",
            step=self._step(),
            rules=_NEW,
        )

    def _fill(self, name: str, **values: object) -> Prompt:
        template = (_TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
        return Prompt(render(template, **values), prompt_hash(template))

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
            f"Each lies in [{space.low:g}, {space.high:g}], with at most {space.decimals} {digits}."
        )

    def _step(self) -> str:
        if self._space.is_table:
            return "Any number may take any of its values."
        return f"A step of about {self._task.step_size:g} in a number is a sensible small change."

    def _history(self, history: History, memories: Mapping[int, Trace]) -> str:
        entries = history.shown(self._switches.history_view)
        if not entries:
            return "Nothing yet."
        lines = [self._entry(each, memories.get(each.number)) for each in entries]
        if hidden := len(history.shown("full")) - len(entries):
            lines.append(f"- {hidden} more that are not listed")
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
            steps = describe_trace(self._task, memory, self._switches.trace_steps)
            return f"{line}\n  one of its episodes:\n" + "\n".join(
                f"    {each}" for each in steps.splitlines()
            )
        return f"{line}\n  an episode: {excerpt(self._task, memory)}"

    def _list(self, params: tuple[float, ...]) -> str:
        digits = self._space.decimals
        return "[" + ", ".join(f"{each:.{digits}f}" for each in params) + "]"
