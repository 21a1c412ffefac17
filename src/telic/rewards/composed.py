"""Rewards as data: weighted terms, with phases for sequential behaviors.

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
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from telic.envs.vector import Info
from telic.rewards import signals, terms
from telic.rewards.contract import RewardFunction
from telic.rewards.node import Program, Recipe, StepView, Term

STAGE, FINISH = "stage", "finish"
_STAGES = [
    {"name": STAGE, "description": "paid at every step for each completed phase", "latex": "k"},
    {"name": FINISH, "description": "paid once per completed phase", "latex": r"[\text{done}]"},
]
"""terms that all sequences have in common"""


class Phase(NamedTuple):
    """Phase of a sequence. The terms of a phase are paid while the phase is active."""

    name: str
    terms: Mapping[str, Term]
    until: tuple[Tensor, ...] = ()
    """conditions that must hold together before the next phase begins, empty for the last phase"""
    seconds: float = 0.0
    """total time for which the conditions must have held"""


class ComposedReward(RewardFunction):
    """Base class for rewards that consist of terms that subclasses define.

        weights     dict with one number per term
        terms       dict of terms from `telic.rewards.terms`
        phases      phases of a sequence, whose terms are paid while a phase is active
        memory      state of the terms by name, where names of phase 2 end with "_2"

    The reward's formula is the weighted sum of the terms' formulas.
    """

    terms: Any = MappingProxyType[str, Any]({})
    phases: ClassVar[tuple[Phase, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.latex:
            # An underscore would typeset the rest as an index.
            cls.latex = "r = " + " + ".join(
                rf"w_{{\text{{{each['name'].replace('_', ' ')}}}}} {_factor(each['latex'])}"
                for each in cls._described()
            )

    @classmethod
    def _described(cls) -> list[dict[str, str]]:
        listed = [item for phase in cls.phases for item in phase.terms.items()]
        found = [_about(name, term) for name, term in listed]
        found += _STAGES if cls.phases else []
        return found + [_about(name, term) for name, term in cls.terms.items()]

    def described_terms(self) -> list[dict[str, str]]:
        """Return the description and the formula of every term."""
        return self._described()

    @cached_property
    def _programs(self) -> tuple[Program, ...]:
        """Compiled programs for each phase, followed by the one for the terms outside of phases."""
        ends = [cast("tuple[Term, ...]", each.until) for each in self.phases[:-1]] + [()]
        own = [(*each.terms.values(), *end) for each, end in zip(self.phases, ends, strict=False)]
        return tuple(map(Program, [*own, self.terms.values()]))

    def compute(
        self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the weighted sum of the terms, and the weighted terms by name."""
        phase = self.memory["phase"] if self.phases else None
        step = StepView(action, next_obs, info, self.memory, phase=phase)
        paid = self._sequence(step) if self.phases else {}
        for name, value in zip(self.terms, self._programs[-1](step), strict=True):
            paid[name] = self.weights[name] * value
        return cast("Tensor", sum(paid.values())), paid

    def _sequence(self, step: StepView) -> dict[str, Tensor]:
        """Return the terms of the phases, and advance where a phase is complete."""
        memory, dt = self.memory, step.dt
        phase: Tensor = memory["phase"]
        paid: dict[str, Tensor] = {}
        reached = torch.zeros_like(phase, dtype=torch.bool)
        needed = torch.zeros_like(phase)
        for index, each in enumerate(self.phases):
            is_on = phase == index
            share = float(f"{(index + 1) / len(self.phases):.4g}") * is_on.float()
            values = self._programs[index](self._begun(index, is_on, step))
            for name, value in zip(each.terms, values, strict=False):
                paid[name] = self.weights[name] * share * value
            if index < len(self.phases) - 1:
                holds = is_on
                for condition in values[len(each.terms) :]:
                    holds = holds & (condition > 0)
                reached = reached | holds
                needed = torch.where(is_on, max(each.seconds - 0.5 * dt, 0.0), needed)
        clock = memory["clock"] + dt * reached.float()
        done = reached & (clock >= needed)
        memory["phase"] = phase + done.float()
        memory["clock"] = torch.where(done, torch.zeros_like(clock), clock)
        paid[STAGE] = self.weights[STAGE] * phase
        paid[FINISH] = self.weights[FINISH] * done.float()
        return paid

    def _begun(self, index: int, is_on: Tensor, step: StepView) -> StepView:
        """Return the step for a phase. The phase's memory is zero until the phase begins."""
        suffix = f"_{index + 1}"
        for name, value in self.memory.items():
            if name.endswith(suffix):
                on = is_on.float()
                self.memory[name] = value * (on if value.ndim == 1 else on.unsqueeze(-1))
        return StepView(step.action, step.next_obs, step.info, self.memory, suffix)


def _about(name: str, term: Term) -> dict[str, str]:
    return {"name": name, "description": term.words, "latex": term.formula()}


def _factor(latex: str) -> str:
    """Return a formula as a factor, with parentheses if it is negative or a sum."""
    if latex.startswith("("):
        return latex
    is_sum = latex.startswith(("-", r"\pm")) or " - " in latex or " + " in latex
    return f"({latex})" if is_sum else latex


def offered_modules() -> dict[str, dict[str, Any]]:
    """Return the names in `telic.rewards` that reward files may import, by module."""

    def phase(*arguments: Any, **named: Any) -> Phase:
        return Phase(*arguments, **named)  # a function, so that untrusted code cannot subclass it

    library = {
        module.__name__.rpartition(".")[2]: {
            name: value for name, value in vars(module).items() if isinstance(value, Recipe)
        }
        for module in (signals, terms)
    }
    return {"composed": {"ComposedReward": ComposedReward, "Phase": phase}, **library}
