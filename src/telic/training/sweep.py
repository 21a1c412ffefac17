"""Sweeps: values of varied settings from lists and ranges, and rounds that Optuna proposes."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple

from telic.core.seeds import derive
from telic.errors import ConfigError, MissingExtra
from telic.storage.files import read_fields, read_record
from telic.storage.layout import RunFolder
from telic.storage.scalars import EvaluationRow
from telic.training.job import TrainJob, TrainRequest
from telic.training.results import member_folders

_GRID, _SAMPLES, _ROUND = 3, 12, 4
"""default points per range, default combinations, and combinations per round of Optuna"""
_DIGITS = 4
_DECADE = 10.0

_Variant = Mapping[str, Any]


class ValueRange(NamedTuple):
    """Range of a setting, sampled on a logarithmic scale if it spans a decade."""

    low: float
    high: float

    @classmethod
    def read(cls, name: str, value: object) -> ValueRange | None:
        """Parse "LOW..HIGH", or return None for a single value."""
        if not isinstance(value, str):
            return None
        try:
            low, high = map(float, value.split(".."))
        except ValueError:
            low = high = math.nan
        if not low < high < math.inf:
            raise ConfigError(
                f"--vary {name}={value} is not a list or range of numbers.",
                hint=f"Use --vary {name}=0.1,0.2 or --vary {name}=1e-4..1e-3.",
            )
        return cls(low, high)

    @property
    def is_log(self) -> bool:
        """Return whether the scale is logarithmic."""
        return self.low > 0.0 and self.high / self.low >= _DECADE

    def at(self, share: float) -> float:
        """Return the value at a share of the range, with the digits that names of members show."""
        if self.is_log:
            return _rounded(self.low * (self.high / self.low) ** share)
        return _rounded(self.low + (self.high - self.low) * share)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _ranges(variant: _Variant) -> dict[str, ValueRange]:
    """Return the ranges among the values of a combination."""
    read = {name: ValueRange.read(name, value) for name, value in variant.items()}
    return {name: each for name, each in read.items() if each is not None}


def sampled(request: TrainRequest) -> TrainRequest:
    """Return a request with the values of a grid or random sample in place of ranges."""
    found = list[_Variant]()
    if request.sampler == "grid":
        count = request.samples or _GRID
        shares = [at / (count - 1) if count > 1 else 0.5 for at in range(count)]
        found += itertools.chain.from_iterable(_grid(each, shares) for each in request.variants)
    else:
        draws = random.Random(derive("sweep", request.seeds[0]))
        for _ in range(request.samples or _SAMPLES):
            base = draws.choice(request.variants)
            drawn = {**base, **{k: x.at(draws.random()) for k, x in _ranges(base).items()}}
            found += [] if drawn in found else [drawn]
    return request.replace(variants=found, sampler="grid", samples=None)


def _grid(variant: _Variant, shares: Sequence[float]) -> Iterator[_Variant]:
    ranges = _ranges(variant)
    for chosen in itertools.product(shares, repeat=len(ranges)):
        points = zip(ranges.items(), chosen, strict=True)
        yield {**variant, **{name: each.at(share) for (name, each), share in points}}


class OptunaRounds:
    """Combinations that Optuna proposes in rounds, maximizing the mean return over the seeds.

    The first training seed and the returns determine all proposals, so that a repeated sweep
    proposes what it proposed before.
    """

    def __init__(self, request: TrainRequest, at_once: int | None) -> None:
        if find_spec("optuna") is None:
            raise MissingExtra("optuna", "optuna", "--sampler optuna")
        if len(request.rewards) > 1:
            raise ConfigError(
                "Returns of different rewards cannot be compared, as --sampler optuna requires.",
                hint="Sweep one reward at a time, or use --sampler random.",
            )
        import optuna  # pyrefly: ignore[missing-import]

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._request, self._round = request, at_once or _ROUND
        seed, first = derive("sweep", request.seeds[0]), self._round
        with warnings.catch_warnings(action="ignore"):  # `constant_liar` may change
            sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=first, constant_liar=True
            )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._failed = optuna.trial.TrialState.FAIL
        self._trials: list[tuple[Any, _Variant]] = []
        self._left = request.samples or _SAMPLES
        self.returns: list[tuple[_Variant, float | None]] = []
        """evaluated combinations with their returns"""

    def propose(self) -> TrainRequest | None:
        """Return the request of the next round, or None after the last."""
        known, new = [variant for variant, _ in self.returns], list[_Variant]()
        while self._left and not new:
            count = min(self._round, self._left)
            self._left -= count
            self._trials += [self._ask() for _ in range(count)]
            for _, variant in self._trials:
                new += [] if variant in (*known, *new) else [variant]
            if not new:
                self._report()
        return self._with(new) if new else None

    @property
    def whole(self) -> TrainRequest:
        """Request for all evaluated combinations."""
        return self._with([variant for variant, _ in self.returns])

    def _with(self, variants: Sequence[_Variant]) -> TrainRequest:
        return self._request.replace(variants=variants, sampler="grid", samples=None)

    def _ask(self) -> tuple[Any, _Variant]:
        trial, listed = self._study.ask(), self._request.variants
        place = 0
        if len(listed) > 1:
            place = trial.suggest_categorical("combination", list(range(len(listed))))
        base = listed[place]
        drawn = {
            name: _rounded(trial.suggest_float(name, each.low, each.high, log=each.is_log))
            for name, each in _ranges(base).items()
        }
        return trial, {**base, **drawn}

    def learn(self, run: RunFolder, variants: Sequence[_Variant]) -> None:
        """Take the returns of a finished round."""
        bests = [
            read_fields(folder.summary, best=EvaluationRow | None)["best"] or {}
            for folder in member_folders(read_record(run.config, TrainJob), run)
        ]
        seeds = len(bests) // len(variants)
        for number, variant in enumerate(variants):
            rows = bests[number * seeds : (number + 1) * seeds]
            returns = [row.get("mean_return") for row in rows]
            known = [each for each in returns if each is not None]
            self.returns.append((variant, fmean(known) if len(known) == seeds else None))
        self._report()

    def _report(self) -> None:
        for trial, variant in self._trials:
            value = next(value for each, value in self.returns if each == variant)
            self._study.tell(trial, value, None if value is not None else self._failed)
        self._trials.clear()
