"""What looks wrong with a training, said once: a population of 48 must not say it 48 times.

Findings of one kind come in bursts, a line per member. The first burst is one line with a count;
members that join later are counted, and told together when the training ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from telic.core.events import ProbeFinding, TrainFinding
from telic.core.text import count

_NAMED = 3
"""members that are listed by name; of more, one and their number"""


class FindingLines:
    """Gathers the findings of one training and makes lines of them."""

    def __init__(self) -> None:
        self._burst: dict[str, list[TrainFinding]] = {}
        self._said: dict[str, TrainFinding] = {}
        self._later: dict[str, int] = {}
        self._probed: set[tuple[str, str]] = set()

    def add(self, finding: TrainFinding) -> None:
        """Take in what was found of one member."""
        if finding.name in self._said:
            self._later[finding.name] = self._later.get(finding.name, 0) + 1
        else:
            self._burst.setdefault(finding.name, []).append(finding)

    def new(self) -> Iterator[str]:
        """Yield a line for each kind that was not told yet."""
        for name, findings in self._burst.items():
            self._said[name] = findings[0]
            yield f"{_who([each.member for each in findings])}: {findings[0].message}"
        self._burst = {}

    def rest(self) -> Iterator[str]:
        """Yield what is left to be told when the training has ended, and begin anew."""
        yield from self.new()
        for name, more in self._later.items():
            kind, first = name.partition(":")[0].replace("_", " "), self._said[name].member
            yield f"{count(more, 'member')} more had the same as {first} later: {kind}"
        self._said, self._later, self._probed = {}, {}, set()

    def unheard(self, findings: Iterable[ProbeFinding]) -> list[ProbeFinding]:
        """Return what no reward that was probed before had, too."""
        new = [each for each in findings if (each.name, each.message) not in self._probed]
        self._probed |= {(each.name, each.message) for each in new}
        return new


def _who(members: list[str]) -> str:
    if len(members) <= _NAMED:
        return ", ".join(members)
    return f"{len(members)} members, such as {members[0]}"
