"""A reward that is data: weighted terms, and for what is done in sequence its phases.

    class Composed(ComposedReward):
        weights = {"speed_1": 1.0, "still_2": 1.0, "stage": 1.5, "finish": 10.0, "control": 0.1}
        memory = {"phase": 0.0, "clock": 0.0}
        memory_to = "actor"
        phases = (
            Phase("run", {"speed_1": Ratio(...)}, until=(Above(Along("forward"), 2.0),), seconds=3.0),
            Phase("stop", {"still_2": Small(...)}),
        )
        terms = {"control": Cost(Measured("effort"))}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from telic.envs.vector import Info
from telic.rewards import signals, terms
from telic.rewards.contract import RewardFunction
from telic.rewards.signals import Node, Number, Step
from telic.rewards.terms import Term

STAGE, FINISH = "stage", "finish"
_STAGE_WORDS = {
    STAGE: "for every phase that is done, at every step",
    FINISH: "once for every phase: it is done",
}
_STAGE_LATEX = {STAGE: "k", FINISH: r"[\text{done}]"}


class Phase(NamedTuple):
    """One thing of a sequence: its terms pay while it is on."""

    name: str
    terms: Mapping[str, Term]
    until: tuple[Number, ...] = ()
    """conditions that must hold together for the next phase to begin; of the last phase, none"""
    seconds: float = 0.0
    """how long they must have held in all"""


class ComposedReward(RewardFunction):
    """A reward made of terms; derive from it and list them.

        weights     a number for each term
        terms       {name: term}; terms of `telic.rewards.terms`
        phases      of a sequence; the terms of a phase pay while it is on, more in a later one
        memory      what the terms remember, by name; that of phase 2 ends with "_2"

    The sum of the formulas is the reward's formula.
    """

    phases: ClassVar[tuple[Phase, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        listed = cls.listed_terms()
        cls.latex = cls.latex or "r = " + " + ".join(
            rf"w_{{\text{{{name.replace('_', ' ')}}}}} {_factor(formula)}"
            for name, (_, formula) in listed.items()
        )

    @classmethod
    def listed_terms(cls) -> dict[str, tuple[str, str]]:
        """Return the words and the formula of every term, by name."""
        every = [*(phase.terms for phase in cls.phases), cls.stages(), cls._own_terms()]
        return {
            name: (term.words, term.formula()) if isinstance(term, Term) else term
            for each in every
            for name, term in each.items()
        }

    @classmethod
    def stages(cls) -> dict[str, tuple[str, str]]:
        """Return the two terms that every sequence has."""
        names = (STAGE, FINISH) if cls.phases else ()
        return {name: (_STAGE_WORDS[name], _STAGE_LATEX[name]) for name in names}

    @classmethod
    def _own_terms(cls) -> dict[str, Term]:
        return cast("dict[str, Term]", cls.terms)

    def compute(
        self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of the weighted terms, and each of them."""
        step = Step(action, next_obs, info, self.memory)
        paid = self._sequence(step) if self.phases else {}
        for name, term in self._own_terms().items():
            paid[name] = self.weights[name] * term.value(step)
        return cast("Tensor", sum(paid.values())), paid

    def _sequence(self, step: Step) -> dict[str, Tensor]:
        """Return the terms of the phases, and turn to the next phase where one is done."""
        memory, dt = self.memory, step.dt
        phase: Tensor = memory["phase"]
        step.phase = phase
        paid: dict[str, Tensor] = {}
        reached = torch.zeros_like(phase, dtype=torch.bool)
        needed = torch.zeros_like(phase)
        for index, each in enumerate(self.phases):
            is_on = phase == index
            share = float(f"{(index + 1) / len(self.phases):.4g}") * is_on.float()
            own = self._begun(index, is_on, step)
            for name, term in each.terms.items():
                paid[name] = self.weights[name] * share * term.value(own)
            if index < len(self.phases) - 1:
                holds = is_on
                for condition in each.until:
                    holds = holds & (own(condition) > 0)
                reached = reached | holds
                needed = torch.where(is_on, max(each.seconds - 0.5 * dt, 0.0), needed)
        clock = memory["clock"] + dt * reached.float()
        done = reached & (clock >= needed)
        memory["phase"] = phase + done.float()
        memory["clock"] = torch.where(done, torch.zeros_like(clock), clock)
        paid[STAGE] = self.weights[STAGE] * phase
        paid[FINISH] = self.weights[FINISH] * done.float()
        return paid

    def _begun(self, index: int, is_on: Tensor, step: Step) -> Step:
        """Return the step as a phase sees it; its memory is zero until it begins."""
        suffix = f"_{index + 1}"
        for name, value in self.memory.items():
            if name.endswith(suffix):
                on = is_on.float()
                self.memory[name] = value * (on if value.ndim == 1 else on.unsqueeze(-1))
        return Step(step.action, step.next_obs, step.info, self.memory, suffix)


def _factor(latex: str) -> str:
    """Return a formula as it is multiplied: in parentheses if it is negative or a sum."""
    is_sum = latex.startswith(("-", r"\pm")) or " - " in latex or " + " in latex
    return f"({latex})" if is_sum else latex


def offered_terms() -> dict[str, Any]:
    """Return what a reward file may import from `telic.rewards.terms`, and make objects with."""
    found: dict[str, Any] = {"Phase": _made(Phase)}
    for module in (signals, terms):
        for name, value in vars(module).items():
            is_node = isinstance(value, type) and issubclass(value, Node)
            if is_node and not name.startswith("_") and name not in ("Node", "Signal", "Term"):
                found[name] = _made(value)
    return found


def _made(cls: Any) -> Any:
    """Return a function that makes objects of a class, which foreign code cannot derive from."""

    def make(*arguments: Any, **named: Any) -> Any:
        return cls(*arguments, **named)

    return make
