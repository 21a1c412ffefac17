"""What the composer gathers while it reads an intent: terms, leaves, memory and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Term(NamedTuple):
    """One term of a reward."""

    name: str
    code: str
    """an expression of the variables that `Draft.lines` defines, about 1 in size"""
    weight: float
    words: str
    latex: str


class Part(NamedTuple):
    """One leaf or guard of a judge."""

    title: str
    code: str
    """a call of leaf, near or guard, without the title"""


@dataclass(slots=True)
class Draft:
    """A reward and a judge in the making."""

    terms: list[Term] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    """statements of compute() before the terms"""
    memory: dict[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    judge_lines: list[str] = field(default_factory=list)
    env_args: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    """changes of the trainer's settings that this behaviour needs"""
    seconds: float = 8.0
    """length of an episode"""
    doubts: list[str] = field(default_factory=list)
    """what the words left open, and what was taken"""

    def add(self, name: str, code: str, weight: float, words: str, latex: str) -> None:
        """Add a term unless one of that name is there."""
        if all(each.name != name for each in self.terms):
            self.terms.append(Term(name, code, weight, words, latex))

    def need(self, *lines: str) -> None:
        """Add statements of the reward that are not there yet."""
        self.lines += [line for line in lines if line not in self.lines]

    def measure(self, *lines: str) -> None:
        """Add statements of the judge that are not there yet."""
        self.judge_lines += [line for line in lines if line not in self.judge_lines]

    def judge(self, title: str, code: str) -> None:
        """Add a leaf or guard unless one of that title is there."""
        if all(each.title != title for each in self.parts):
            self.parts.append(Part(title, code))
