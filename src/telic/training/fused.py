"""Gradient steps of PPO in one native call per epoch, for small networks on CPUs.

`fused.c` is compiled when telic is installed from source, and wheels contain the library. Without
it, and for networks, distributions and devices that it does not support, `ppo.update` takes the
same steps with PyTorch, equal up to rounding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from telic.core.tensors import flags
from telic.training.networks import HALF_LOG_TAU, Gaussian, Networks
from telic.training.population import Actor, Population, UpdateStats

if TYPE_CHECKING:
    from telic.training.ppo import Samples

_VARIANTS = {"AVX512": "avx512", "AVX2": "avx2", "DEFAULT": "neon"}
"""library for each CPU capability that PyTorch reports"""
BETAS = (0.9, 0.999)
EPSILON = 1e-5
KL_STOP = 1.5
"""threshold of the KL divergence for early stopping, as a multiple of the target"""
LEARNING_RATES = 1e-5, 1e-2
"""bounds of the adaptive schedule"""
_DEPTH = 8
_WIDEST = 128
"""largest hidden layer; PyTorch is faster for wider ones"""
_ACTIVATIONS = ("tanh", "elu", "relu")
_SCHEDULES = {"constant": 0, "linear": 0, "per_minibatch": 1, "adaptive": 2}
_ACTIVE, _FINITE = 1, 2


class _Epoch(ctypes.Structure):
    """Arguments of `ppo_epoch`: the struct of the same name in fused.c."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("layers", "activation", "schedule")),
        ("actor_widths", ctypes.c_int32 * (_DEPTH + 1)),
        ("critic_widths", ctypes.c_int32 * (_DEPTH + 1)),
        *((name, ctypes.c_int32) for name in ("minibatch", "samples")),
        *((name, ctypes.c_float) for name in ("clip", "entropy_coef", "value_coef")),
        *((name, ctypes.c_float) for name in ("max_grad_norm", "target_kl", "kl_stop")),
        *((name, ctypes.c_float) for name in ("beta1", "beta2", "epsilon", "half_log_tau")),
        *((name, ctypes.c_float) for name in ("lowest_rate", "highest_rate")),
        *((name, ctypes.c_double) for name in ("power1", "power2")),
        *((name, ctypes.c_void_p) for name in ("inputs", "actions", "log_probs", "advantages")),
        *((name, ctypes.c_void_p) for name in ("returns", "mask", "rate_factors", "order")),
        *((name, ctypes.c_void_p) for name in ("flat", "first", "second", "gradient")),
        *((name, ctypes.c_void_p) for name in ("rate", "count", "sums")),
    )


@cache
def native_library() -> ctypes.CDLL | None:
    """Load the library for this CPU, or return None if there is none."""
    name = _VARIANTS.get(torch.backends.cpu.get_cpu_capability())
    try:
        library = ctypes.CDLL(str(Path(__file__).with_name(f"libfused-{name}.so")))
    except OSError:
        return None
    library.ppo_scratch.restype = ctypes.c_int64
    return library


def is_supported(population: Population) -> bool:
    """Return whether `run_epochs` supports a population and its library is present."""
    layers = (*population.views.actor, *population.views.critic)
    return (
        population.device.type == "cpu"
        and type(population.networks) is Networks
        and type(population.distribution) is Gaussian
        and len(population.views.actor) == len(population.views.critic) <= _DEPTH
        and max(layer.weight.shape[-1] for layer in layers) <= _WIDEST
        and native_library() is not None
    )


def run_epochs(
    population: Population, actor: Actor, samples: Samples, orders: Iterable[Tensor], size: int
) -> UpdateStats:
    """Update every active member on its samples, as `ppo.update` does.

    Each of `orders`, (P, B), is the order of the samples in one epoch, and `size` is the number of
    samples in a minibatch.
    """
    native = native_library()
    assert native is not None
    samples = type(samples)._make(column.contiguous() for column in samples)
    sums = torch.zeros(population.size, 7)
    epochs = [
        _epoch(population, actor, samples, sums, member, size) for member in range(population.size)
    ]
    scratch = torch.zeros(native.ppo_scratch(ctypes.byref(epochs[0])))
    active, finite = flags(population.alive), [True] * population.size
    for order in orders:
        order = order.contiguous()
        for member in range(population.size):
            if not active[member]:
                continue
            epoch, count = epochs[member], float(population.adam.count[member])
            epoch.power1, epoch.power2 = BETAS[0] ** count, BETAS[1] ** count
            epoch.order, epoch.samples = order[member].data_ptr(), order.shape[1]
            state = native.ppo_epoch(ctypes.byref(epoch), ctypes.c_void_p(scratch.data_ptr()))
            active[member] = bool(state & _ACTIVE)
            finite[member] = bool(state & _FINITE)
        if not any(active):
            break
    *parts, steps = sums.unbind(1)
    means = [part / steps.clamp_min(1.0) for part in parts]
    return UpdateStats._make((*means, steps, torch.tensor(finite)))


def _epoch(
    population: Population, actor: Actor, samples: Samples, sums: Tensor, member: int, size: int
) -> _Epoch:
    """Return the arguments of a member, which point to its tensors."""

    def start(tensor: Tensor | None) -> int | None:
        return None if tensor is None else tensor[member].data_ptr()

    networks, adam = population.views, population.adam
    widths = [
        (layers[0].weight.shape[1], *(layer.weight.shape[2] for layer in layers))
        for layers in (networks.actor, networks.critic)
    ]
    columns = dict(zip(samples._fields, map(start, samples), strict=True))
    hyperparameters = {
        name: float(getattr(population, name)[member])
        for name in ("clip", "entropy_coef", "value_coef", "max_grad_norm", "target_kl")
    }
    return _Epoch(
        layers=len(networks.actor),
        activation=_ACTIVATIONS.index(population.shape.activation),
        schedule=_SCHEDULES[population.settings.schedule],
        actor_widths=widths[0],
        critic_widths=widths[1],
        minibatch=size,
        kl_stop=KL_STOP,
        beta1=BETAS[0],
        beta2=BETAS[1],
        epsilon=EPSILON,
        half_log_tau=HALF_LOG_TAU,
        lowest_rate=LEARNING_RATES[0],
        highest_rate=LEARNING_RATES[1],
        mask=start(actor.mask),
        rate_factors=start(population.rate_factors),
        flat=start(population.flat),
        first=start(adam.first),
        second=start(adam.second),
        gradient=start(population.grad),
        rate=start(population.learning_rate),
        count=start(adam.count),
        sums=start(sums),
        **columns,
        **hyperparameters,
    )
