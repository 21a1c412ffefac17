"""Run a reward that is written for one environment at a time, by calling it once for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from telic.envs.info import Info
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardStep
from telic.rewards.definition import Definition, Instance
from telic.rewards.mistakes import Circumstances, explain, place
from telic.rewards.rows import RowReader, to_rows
from telic.rewards.runner import unpack
from telic.rewards.state import CannotCapture, capture, restore


class LoopedRunner:
    """Calls the reward N times per step. Implements `Runner`.

    A reward that keeps state gets one instance per environment, renewed with every episode, as if
    each environment ran in a process of its own.
    """

    def __init__(
        self,
        definition: Definition,
        weights: Mapping[str, float],
        term_names: tuple[str, ...] | None,
        *,
        is_stateful: bool,
        whole_info: bool = False,
        raises: bool = False,
    ) -> None:
        """Prepare; nothing is executed before `start`.

        Args:
            definition: makes the instances.
            weights: values that replace the reward's own.
            term_names: the terms to give out; None: those returned in each step.
            is_stateful: whether environments need instances of their own.
            whole_info: give every info value, not only those whose names are in the source.
            raises: make numpy raise where a number stops being finite, to find the line.
        """
        self._definition = definition
        self._weights = weights
        self._source = source = definition.source
        self._term_names = term_names
        self._is_stateful = is_stateful
        self._reader = RowReader(source.scan if source and not whole_info else None)
        self._on_bad_number: Literal["raise", "ignore"] = "raise" if raises else "ignore"
        self.instances: list[Instance] = []
        self._device: Device = "cpu"
        self._steps = 0

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew; see `Runner.start`."""
        self._device, self._steps = device, 0
        if self._is_stateful:
            self.instances = [self._create() for _ in range(num_envs)]
        else:
            self.instances = [self._create()] * num_envs

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`."""
        actions = to_rows(action) if action.is_floating_point() else action.tolist()
        given = zip(
            self.instances,
            to_rows(obs),
            actions,
            to_rows(next_obs),
            self._reader.read(info, len(obs)),
            strict=True,
        )
        results: list[Any] = []
        try:
            # A division by zero shows as inf and is reported as such, not as a warning per step.
            with np.errstate(all=self._on_bad_number, under="ignore"):
                for instance, *row in given:
                    results.append(instance.call(*row))
        except Exception as error:
            width = action.shape[-1] if action.ndim > 1 else 1
            when = Circumstances(self._steps, len(results), tuple(info), obs.shape[-1], width)
            raise explain(error, self._source, when) from error
        self._steps += 1
        return self._gather(results)

    def reset(self, mask: Tensor) -> None:
        """Give ended episodes a new instance; see `Runner.reset`."""
        if self._is_stateful:
            for row in mask.nonzero()[:, 0].tolist():
                self.instances[row] = self._create()

    def state_dict(self) -> dict[str, Any]:
        """Return what each environment's instance keeps; nothing where that is not plain data."""
        if not self._is_stateful:
            return {}
        try:
            return {"instances": [capture(each) for each in self.instances]}
        except CannotCapture:
            return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back into fresh instances."""
        for instance, data in zip(self.instances, state.get("instances", ()), strict=False):
            restore(instance, data)

    def _create(self) -> Instance:
        return self._definition.create(self._weights)

    def _gather(self, results: list[Any]) -> RewardStep:
        pairs = [unpack(each, self._source) for each in results]
        names = self._term_names
        if names is None:
            names = tuple(dict.fromkeys(name for _, terms in pairs for name in terms))
        columns = {name: [terms.get(name, 0.0) for _, terms in pairs] for name in names}
        return RewardStep(
            self._column([total for total, _ in pairs], ""),
            {name: self._column(values, name) for name, values in columns.items()},
        )

    def _column(self, values: list[Any], term: str) -> Tensor:
        try:
            array = np.array(values, dtype=np.float64)
            # numpy reads None as NaN
            if array.size != len(values) or (np.isnan(array).any() and None in values):
                raise ValueError(f"shape {array.shape[1:]}")
        except (TypeError, ValueError) as error:
            raise self._not_a_number(values, term) from error
        return torch.from_numpy(array.reshape(-1)).to(self._device, torch.float32)

    def _not_a_number(self, values: list[Any], term: str) -> RewardError:
        line = self._source.scan.term_line(term) if self._source and term else None
        what = f'term "{term}"' if term else "the total"
        example = next((x for x in values if np.size(x) != 1 or not np.isscalar(x)), values[0])
        shape = np.shape(example)
        got = f"an array of shape {shape}" if shape else f"a {type(example).__name__}"
        return RewardError(
            f"{place(self._source, line)}, {what} is {got}; it must be one number.",
            hint="Reduce it, e.g. with np.sum(...), or return 0.0 where there is nothing.",
            line=line,
            term=term or None,
        )
