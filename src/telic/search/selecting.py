"""Which candidate of an iteration counts, and how far a revision may go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from telic.search.environments.task import Task
from telic.search.history import History
from telic.search.proposers.proposer import Draft
from telic.search.records import Candidate, Winner
from telic.search.switches import Switches

_LEARNED_AT = 0.95
_LEARNED_FROM = 10


class Choice(NamedTuple):
    """The candidate that counts, and where it came from."""

    selected: Candidate
    winner: Winner


def choose(
    first: Sequence[Candidate],
    second: Sequence[Candidate],
    switches: Switches,
    history: History,
) -> Choice:
    """Return the candidate that counts among the first ones and the revision, if there is one.

    After a race all episodes of a policy count, else only those of this iteration. A revision that
    changed nothing is no better for its luck on other starts, except by the published accounting.
    """

    def worth(candidate: Candidate) -> float:
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


def gate_value(switches: Switches, task: Task, history: History) -> float | None:
    """Return the return from which on a policy should be left alone; None when there is no gate."""
    if switches.gate == "off":
        return None
    match switches.gate_at:
        case "default":
            return task.good
        case "half":
            return task.worst + (task.good - task.worst) / 2
        case "learned":
            means = [each.mean for each in history.everything]
            # A policy among the best few of many is not to be spoiled, whatever its task.
            return float(np.quantile(means, _LEARNED_AT)) if len(means) >= _LEARNED_FROM else None
    return float(switches.gate_at)


def limited(draft: Draft, first: Candidate, most: float) -> Draft:
    """Return a revision whose numbers differ from the first candidate's by at most `most`."""
    before, after = np.array(first.params), np.array(draft.params)
    near = np.round(np.clip(after, before - most, before + most), 6)
    if np.array_equal(near, after):
        return draft
    note = f"a change larger than {most:g} was cut, because the policy was good already"
    return draft._replace(params=tuple(near.tolist()), warnings=(*draft.warnings, note))
