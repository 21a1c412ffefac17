"""Random numbers of rollouts: pure functions of (seed, place), alone or in any batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telic.core.seeds import derive

Seeds = NDArray[np.uint64]  # (N,), one per rollout
Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def rollout_seeds(root: int, count: int) -> Seeds:
    """Return `count` seeds of rollouts that belong to one root seed."""
    return _mix(np.full(count, root, np.uint64) * _GOLDEN, np.arange(count, dtype=np.uint64))


def uniform(seeds: Seeds, size: int) -> Floats:
    """Return numbers in [0, 1), shape (N, size); the same for a seed in whatever company."""
    place = np.arange(1, size + 1, dtype=np.uint64)
    bits = _mix(seeds[:, None], place[None, :])
    # 53 bits, as a float64 mantissa holds
    return (bits >> np.uint64(11)).astype(np.float64) * (1.0 / 9007199254740992.0)


def generator(*path: int | str) -> np.random.Generator:
    """Return a generator for a path of names, e.g. (seed, "propose", 3)."""
    return np.random.default_rng(derive(*path))


def _mix(state: Seeds, place: Seeds) -> Seeds:
    """Mix two 64-bit numbers (the finaliser of SplitMix64: Steele, Lea, Flood, 2014)."""
    x = state + (place + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))
