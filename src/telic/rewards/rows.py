"""What a reward for one environment at a time is given: rows of numpy arrays and Python numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.envs.info import Info
from telic.rewards.scan import Scan
from telic.rewards.simulator import SimulatorRow, model_of


def to_rows(batch: Tensor) -> np.ndarray:
    """Return a float64 copy of a batch, (N, ...); foreign code may do with it as it likes."""
    return batch.detach().to("cpu", torch.float64, copy=True).numpy()


class Columns:
    """Info values of one step as arrays (N, ...), each computed at first ask."""

    __slots__ = ("_arrays", "info")

    def __init__(self, info: Info) -> None:
        self.info = info
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = self.info.exact(name).detach().cpu().numpy().copy()
        return array


class RowReader:
    """Cuts infos into one plain dictionary per environment, of the names a source can ask for."""

    def __init__(self, scan: Scan | None) -> None:
        """Read the names found in a source; all names when there is no scan, or it cannot tell."""
        self._scan = None if scan is None or scan.open_info else scan
        self._names: list[str] | None = None
        self._simulator: dict[str, Any] = {}

    def read(self, info: Info, num_envs: int) -> list[dict[str, Any]]:
        """Return the info of each environment."""
        if self._names is None:
            self._names = self._choose(info)
        names, columns = self._names, Columns(info)
        values = zip(*(_cut(columns[name]) for name in names), strict=True)
        rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in values]
        rows = rows or [{} for _ in range(num_envs)]
        if self._simulator:
            for index, row in enumerate(rows):
                read = functools.partial(_field, columns, index)
                row.update(self._simulator, mj_data=SimulatorRow(info, read))
        return rows

    def _choose(self, info: Info) -> list[str]:
        names = [name for name in (*info, "_episode_start") if name in info]
        if "qpos" in info and (self._scan is None or self._scan.simulator):
            self._simulator = {"mj_model": model_of(info)}
        return names if self._scan is None else [n for n in names if n in self._scan.strings]


def _field(columns: Columns, row: int, name: str) -> Any:
    return columns[name][row]


def _cut(column: np.ndarray) -> list[Any]:
    """Return one value per environment: Python numbers, or arrays."""
    return column.tolist() if column.ndim == 1 else list(column)
