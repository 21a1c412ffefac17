"""Named child seeds and counter-based random numbers.

All functions are stateless. `derive` hashes a path of names to a seed, and `uniform` and `normal`
map (seed, counter) to numbers. An environment that uses its seed and episode number for reset noise
gets the same numbers in any batch, on any device, and after resuming.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_MASK32 = 0xFFFFFFFF


def derive(*path: int | str) -> int:
    """Return a 31-bit seed derived from a path of names, e.g. (seed, "evaluate", 3)."""
    digest = hashlib.blake2b("/".join(map(str, path)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & 0x7FFFFFFF


def _scramble(x: Tensor) -> Tensor:
    """Mix 32-bit integers held in int64 (the "lowbias32" finalizer of Wellons, 2018)."""
    x = x ^ (x >> 16)  # a new tensor; in-place operations from here on
    x.mul_(0x7FEB352D).bitwise_and_(_MASK32)
    x.bitwise_xor_(x >> 15)
    x.mul_(0x846CA68B).bitwise_and_(_MASK32)
    return x.bitwise_xor_(x >> 16)


def uniform(seed: Tensor, counter: Tensor, size: int, stream: int = 0) -> Tensor:
    """Return float64 numbers in [0, 1) of shape (N, size), which depend only on the arguments.

    Args:
        seed: (N,) int64, one per row.
        counter: (N,) int64, e.g. the episode number.
        size: numbers per row.
        stream: distinguishes several draws with the same counter.
    """
    import torch

    column = torch.arange(size, device=seed.device, dtype=torch.int64)
    place = (counter * 0x85EB + stream * 0xC2B2AE35) & _MASK32
    key = _scramble(_scramble((seed & _MASK32) ^ 0x9E3779B9) ^ _scramble(place))[:, None]
    high = _scramble((key + column * 0x9E3779B9) & _MASK32)
    low = _scramble(high ^ (key * 0x27D4EB2F & _MASK32))
    # 53 bits, the precision of float64
    return ((high >> 5).double() * 67108864.0 + (low >> 6)) * (1.0 / 9007199254740992.0)


def normal(seed: Tensor, counter: Tensor, size: int, stream: int = 0) -> Tensor:
    """Return standard normal float64 numbers, shape (N, size). See `uniform` for the arguments."""
    half = (size + 1) // 2
    u = uniform(seed, counter, 2 * half, stream)
    # Box-Muller; 1 - u is in (0, 1], so the logarithm is finite
    radius = (-2.0 * (1.0 - u[:, :half]).log()).sqrt()
    angle = 2.0 * math.pi * u[:, half:]
    import torch

    return torch.cat((radius * angle.cos(), radius * angle.sin()), dim=1)[:, :size]
