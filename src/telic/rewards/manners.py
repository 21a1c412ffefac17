"""Look at single raw calls of a reward: does it change its inputs, does it return whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from telic.rewards.batched import BatchedRunner
from telic.rewards.decide import Decision
from telic.rewards.definition import Definition, Source
from telic.rewards.findings import Finding
from telic.rewards.mistakes import place
from telic.rewards.recording import Recording, Transition
from telic.rewards.reward import Reward
from telic.rewards.rows import RowReader, to_rows

_CALLS = 4
_INPUTS = ("obs", "action", "next_obs")


def check_manners(reward: Reward, decision: Decision, recording: Recording) -> list[Finding]:
    """Return findings about changed inputs and about single numbers where columns belong."""
    definition = reward.definition
    if definition is None:
        return []
    changed: dict[str, None] = {}
    scalars: dict[str, None] = {}
    if decision.mode == "batched":
        runner = BatchedRunner(definition, reward.new_weights, None)
        runner.start(recording.num_envs, recording.device)
        for moment in recording.transitions[:_CALLS]:
            names, result = _batched_call(runner, moment)
            changed.update(dict.fromkeys(names))
            values = {"total": result[0], **result[1]}
            scalars.update(dict.fromkeys(k for k, v in values.items() if np.ndim(v) == 0))
    else:
        for moment in recording.transitions[:_CALLS]:
            changed.update(dict.fromkeys(_row_call(reward, definition, moment)))
    source = definition.source
    found = [_changes_inputs(definition, list(changed))] if changed else []
    if scalars and source and source.scan.batched:
        found.append(_scalar_terms(source, list(scalars)))
    return found


def _batched_call(runner: BatchedRunner, moment: Transition) -> tuple[list[str], Any]:
    """Return the inputs that a call changes, and its result."""
    given = [getattr(moment, name).clone() for name in _INPUTS]
    info = runner.lend(moment.info)
    result = runner.instance.call(given[0], given[1], given[2], info)
    changed = [
        name
        for name, value in zip(_INPUTS, given, strict=True)
        if not torch.equal(value, getattr(moment, name))
    ]
    lent = {name: moment.info[name] for name in info.lent}
    changed += [f'info["{k}"]' for k, v in lent.items() if not _equal(v, info[k])]
    return changed, result


def _row_call(reward: Reward, definition: Definition, moment: Transition) -> list[str]:
    """Return the inputs of the first environment that a fresh instance changes."""
    reader = RowReader(definition.source.scan if definition.source else None)
    instance = definition.create(reward.new_weights)
    given, kept = [
        [_first_row(getattr(moment, name)) for name in _INPUTS]
        + [reader.read(moment.info, len(moment.obs))[0]]
        for _ in range(2)
    ]
    with np.errstate(all="ignore"):
        instance.call(given[0], given[1], given[2], given[3])
    changed = [
        name
        for name, one, other in zip(_INPUTS, given, kept, strict=False)
        if not _equal(one, other)
    ]
    fields = {name: value for name, value in kept[-1].items() if not name.startswith("mj_")}
    changed += [f'info["{k}"]' for k, v in fields.items() if not _equal(v, given[-1].get(k))]
    return changed


def _first_row(batch: torch.Tensor) -> Any:
    return to_rows(batch)[0] if batch.is_floating_point() else batch[0].item()


def _equal(one: Any, other: Any) -> bool:
    one, other = _array(one), _array(other)
    same_kind = one.shape == other.shape and other.dtype != object
    return same_kind and bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _changes_inputs(definition: Definition, names: list[str]) -> Finding:
    return Finding(
        name="changes_inputs",
        message=f"{definition.name} changes {', '.join(names)}, which it is given to read. It gets "
        "copies, so nothing is harmed; compute new values instead, e.g. x = x * 2 for x *= 2.",
    )


def _scalar_terms(source: Source, names: list[str]) -> Finding:
    line = next((source.scan.term_line(name) for name in names if name != "total"), None)
    return Finding(
        name="scalar_terms",
        message=f"{place(source, line)}: one number for all environments in {', '.join(names)}. It "
        "is repeated for each; return tensors of shape (N,), e.g. torch.full_like(speed, 1.0).",
    )


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value)
