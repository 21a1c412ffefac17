"""A policy as a TorchScript module, for C++ and for Python without telic."""

# No `from __future__ import annotations`: TorchScript reads annotations as types, not as text.
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telic.training.export.files import PolicyArrays

_jit: Any = torch.jit  # it has no types
_MODULES: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}


class ScriptedPolicy(nn.Module):
    """Normaliser, network and action range; takes one observation (D,) or many (N, D)."""

    shift: Tensor
    scale: Tensor
    action_middle: Tensor
    action_half: Tensor

    def __init__(self, arrays: PolicyArrays) -> None:
        super().__init__()
        self.limit = arrays.limit
        self.discrete = arrays.range is None
        self.register_buffer("shift", torch.tensor(arrays.shift))
        self.register_buffer("scale", torch.tensor(arrays.scale))
        span = arrays.range or (torch.zeros(1), torch.zeros(1))
        self.register_buffer("action_middle", torch.as_tensor(span[0]).clone())
        self.register_buffer("action_half", torch.as_tensor(span[1]).clone())
        parts: list[nn.Module] = []
        for weight, bias in arrays.layers:
            layer = nn.Linear(*weight.shape)
            layer.weight.data = torch.tensor(weight.T)
            layer.bias.data = torch.tensor(bias)
            parts += [layer, _MODULES[arrays.activation]()]
        self.network = nn.Sequential(*parts[:-1])

    def forward(self, obs: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return the action."""
        x = obs if memory is None else torch.cat((obs, memory), dim=-1)
        x = torch.clamp((x - self.shift) * self.scale, -self.limit, self.limit)
        x = self.network(x)
        if self.discrete:
            return x.argmax(-1)
        return self.action_middle + self.action_half * torch.clamp(x, -1.0, 1.0)


def write_torchscript(arrays: PolicyArrays, path: Path, facts: Mapping[str, str]) -> None:
    """Write the module; the facts travel as extra files, one each."""
    extra = {f"facts/{name}": value for name, value in facts.items()}
    with _quiet():
        module = _jit.script(ScriptedPolicy(arrays).eval())
        _jit.save(_jit.freeze(module), path, _extra_files=extra)


def load_torchscript(path: Path) -> nn.Module:
    """Read a module back."""
    with _quiet():
        return _jit.load(path, map_location="cpu")


@contextmanager
def _quiet() -> Generator[None]:
    """Leave out torch's advice to move from TorchScript to torch.export: this file is asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        yield
