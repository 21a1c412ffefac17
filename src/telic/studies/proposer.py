"""Propose the next candidate of an autonomous study: the baseline, numbers, or a model's draft.

The contract names the proposer (`automation.proposer`), and a person approves it as `autonomy`.
"numeric" moves one parameter of the scope at a time, away from the incumbent's value; a list of
words is a command that reads the state of the study as JSON and prints a draft as JSON. Both see
only the ledger, so a killed loop proposes the same again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from telic.core.text import is_dict
from telic.errors import TelicError
from telic.storage.reading import parse_json
from telic.studies.canonical import content_hash
from telic.studies.documents.contract import ParamRange
from telic.studies.errors import StudyError
from telic.studies.launch.machine import run_program
from telic.studies.next import NextAction
from telic.studies.study import Study

_ROUNDS = 12
"""halvings of the step of the numeric proposer before it gives up"""


def propose_change(study: Study, step: NextAction) -> dict[str, Any] | None:
    """Return a draft with its title; None where an author is needed, or ideas are used up.

    Raises StudyError E_PROPOSER when the proposer's command fails.
    """
    if step.args.get("kind") == "baseline":
        return {"title": "baseline", "kind": "baseline"}
    automation = study.contract.automation
    if not automation.autoloop or study.standing("autonomy").status != "approved":
        return None
    if automation.proposer == "numeric":
        return next(_moves(study), None)
    return None if automation.proposer is None else _asked(study, automation.proposer)


def _values(study: Study, candidate: str | None) -> dict[str, Any]:
    """Return the parameters that a candidate sets."""
    if candidate is None:
        return dict(study.contract.baseline.overrides)
    return {path: x.to for path, x in study.candidate(candidate).change.overrides.items()}


def _moves(study: Study) -> Iterator[dict[str, Any]]:
    """Yield untried moves of one parameter each: both ways, then with half the step."""
    values = _values(study, study.incumbent.candidate if study.incumbent else None)
    params = {
        path: allowed
        for path, allowed in study.contract.scope.params.items()
        if allowed.type in ("float", "int") and allowed.min is not None and allowed.max is not None
    }
    tried = {content_hash(_values(study, name)) for name in study.state.candidates}
    for place in range(2 * _ROUNDS):
        share, is_up = 0.5 ** (place // 2 + 1), place % 2 == 0
        for path, allowed in params.items():
            now = values.get(path)
            to = _moved(now, allowed, share if is_up else -share)
            if to != now and content_hash({**values, path: to}) not in tried:
                yield _draft(study, values, path, to)


def _moved(now: Any, allowed: ParamRange, share: float) -> float | int:
    """Return a value moved by a share of its range, on a log scale where the range asks for it."""
    low, high = float(allowed.min or 0.0), float(allowed.max or 0.0)
    is_log = low > 0 and high / low >= 10
    to, back = (math.log, math.exp) if is_log else (float, float)
    start = to(now) if isinstance(now, int | float) else (to(low) + to(high)) / 2
    value = back(min(max(start + share * (to(high) - to(low)), to(low)), to(high)))
    ratio = allowed.max_step_ratio
    if ratio is not None and isinstance(now, int | float) and now > 0:
        value = min(max(value, now / ratio), now * ratio)
    value = min(max(float(f"{value:.4g}"), low), high)
    return round(value) if allowed.type == "int" else value


def _draft(study: Study, values: dict[str, Any], path: str, to: Any) -> dict[str, Any]:
    """Return a draft that moves one parameter and keeps what the incumbent sets."""
    kept = {name: {"from": value, "to": value} for name, value in values.items()}
    primary = study.metric_spec.primary
    evidence = study.evidence_names("audit") or list(study.state.evidence)
    return {
        "title": f"{path} {to:g}",
        "kind": "config",
        "change": {"overrides": {**kept, path: {"from": values.get(path), "to": to}}},
        "hypothesis": {
            "statement": f"{path} = {to:g} improves {primary.key}.",
            "mechanism": "One parameter of the scope moves; nothing else changes.",
            "expected": {"metric": primary.key, "direction": primary.direction},
            "falsifier": "gain < 0",
        },
        "evidence_refs": evidence[-1:],
        "origin": {"engine": "numeric"},
    }


def _asked(study: Study, argv: tuple[str, ...]) -> dict[str, Any]:
    """Return the draft that the proposer's command prints for the state of the study."""
    history = [
        {"id": name, "status": held.status, "reason": held.reason, "overrides": overrides}
        for name, held in study.state.candidates.items()
        for overrides in [study.candidate(name).change.model_dump(mode="json")["overrides"]]
    ]
    told = {
        "task": study.contract.task.as_data(),
        "metric": study.metric_spec.primary.as_data(),
        "scope": study.contract.scope.as_data(),
        "incumbent": study.incumbent and study.incumbent.as_data(),
        "values": _values(study, study.incumbent.candidate if study.incumbent else None),
        "candidates": history,
        "evidence": (study.evidence_names("audit") or list(study.state.evidence))[-5:],
    }
    try:
        answer = parse_json(run_program(argv, study.root, json.dumps(told)), "The proposer's draft")
    except TelicError as error:
        raise StudyError("E_PROPOSER", error.message, hint=error.hint) from None
    if not is_dict(answer) or not isinstance(answer.get("title"), str):
        raise StudyError("E_PROPOSER", "The proposer printed no draft with a title.")
    return {"origin": {"engine": argv[0], "model": argv[0]}, **answer}
