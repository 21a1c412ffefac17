"""The trials of a policy search: a line each, and the path of those that were best in turn."""

from __future__ import annotations

from typing import Any

from telic.retelling.tale import ModelCall
from telic.search.records import PolicyCandidate, SearchIteration
from telic.studies.canonical import content_hash

_SHOWN = 6


def trial_lines(log: list[SearchIteration]) -> list[dict[str, Any]]:
    """Return a line per trial; a second try is the child of the first of its iteration."""
    rows: list[dict[str, Any]] = []
    for iteration in log:
        first = next((each for each in iteration.candidates if each.place == "first"), None)
        orders = [call.key for call in iteration.calls]
        for each in iteration.candidates:
            is_child = each.place == "second" and first is not None
            rows.append(
                {
                    "n": each.number,
                    "iteration": iteration.number,
                    "parent": first.number if is_child and first else None,
                    "params_hash": content_hash(list(each.params)),
                    "score": each.mean,
                    "episodes": len(each.tried.returns),
                    "work_order": orders[-1] if orders else None,
                    "kept": each.number == iteration.selected,
                }
            )
    return rows


def trial(log: list[SearchIteration], number: int) -> PolicyCandidate:
    """Return a trial by its number."""
    return next(each for entry in log for each in entry.candidates if each.number == number)


def best_in_turn(log: list[SearchIteration]) -> str:
    """Return the means of the trials that were the best so far, first to last."""
    means = {each.incumbent: each.incumbent_mean for each in log}
    shown = [f"{mean:.4g}" for mean in means.values()]
    if len(shown) > _SHOWN:
        shown = [*shown[:2], "…", *shown[2 - _SHOWN :]]
    return " → ".join(shown)


def model_calls(logs: dict[int, list[SearchIteration]]) -> tuple[ModelCall, ...]:
    """Return every question to a model; keys are the same whenever the search is told."""
    return tuple(
        ModelCall(
            key=f"{number}/{each.number}/{place}/{call.key}",
            role=call.role,
            model=call.model,
            usd=call.price_usd,
            tokens=None
            if call.input_tokens is None or call.output_tokens is None
            else call.input_tokens + call.output_tokens,
        )
        for number, log in logs.items()
        for each in log
        for place, call in enumerate(each.calls)
    )
