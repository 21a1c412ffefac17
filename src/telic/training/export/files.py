"""Export policies to ONNX or NumPy files and verify that the files match the policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telic.errors import MissingExtra, TelicError, UsageError
from telic.storage.files import plain, replacing
from telic.training.export import run_policy
from telic.training.population import CLIP

if TYPE_CHECKING:
    from telic.training.policy import Policy

Array = NDArray[Any]
Act = Callable[..., Any]
"""policy function, (obs, memory or None) -> action"""
TOLERANCE = 1e-5
"""largest allowed deviation from the torch policy, in units of half the action range"""
_SIGMAS = 6.0
_TINY = float(np.finfo(np.float32).tiny)
_OPSET = 18
_IR_VERSION = 8
"""oldest IR version for opset 18, which most runtimes support"""
_OPERATORS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}


def export_policy(policy: Policy, path: Path) -> Path:
    """Export a policy to .onnx or .npz, verify the file and return its path."""
    export_checked(policy, path)
    return path


def export_checked(policy: Policy, path: Path, about: Mapping[str, Any] | None = None) -> float:
    """Export a policy with additional metadata and return the largest deviation of an action.

    Raises TelicError and writes no file if an action deviates by more than 1e-5.
    """
    if path.suffix not in _FORMATS:
        raise UsageError(
            f'Unsupported policy format: "{path.name}".',
            hint=f"Use one of the extensions {', '.join(_FORMATS)}.",
        )
    kind, arrays = _FORMATS[path.suffix], PolicyArrays.of(policy)
    facts = plain(
        {
            **policy.facts,
            **(about or {}),
            "action_low": policy.low,
            "action_high": policy.high,
            "discrete": policy.shape.discrete,
            "memory_size": policy.memory_size,
        }
    )
    with replacing(path) as temporary:
        kind.write(arrays, policy, temporary, facts)
        return _verify(policy, arrays, kind.load(temporary), path.name)


def _verify(policy: Policy, arrays: PolicyArrays, act: Act, name: str) -> float:
    """Return the largest deviation of `act` from the policy, or raise TelicError for a large one.

    Deviations are in units of half the action range or, for discrete actions, differences of
    logits. Test observations include typical and extreme values. If the network amplifies float32
    rounding to more than 1e-5, the tolerance increases with the rounding error.
    """
    random, size = np.random.default_rng(0), len(arrays.shift)
    spread = 1.0 / np.where(arrays.scale > 0.0, arrays.scale, 1.0)
    trials = [arrays.shift + spread * random.normal(0.0, s, (64, size)) for s in (1.0, 4.0, 40.0)]
    trials += [random.normal(0.0, width, (64, size)) for width in (1.0, 100.0, 1e6)]
    corners = np.array([[0.0], [1e30], [-1e30]]) * np.ones(size)
    worst = 0.0
    for trial in (*trials, corners, random.normal(0.0, 1.0, (1, size))):
        inputs = trial.astype(np.float32)
        seen = (inputs[:, : policy.obs_dim], inputs[:, policy.obs_dim :])
        seen = seen if policy.memory_size else seen[:1]
        expected, got = policy(*seen), np.asarray(act(*seen))
        if got.shape != expected.shape:
            raise TelicError(f"{name} returns actions of shape {got.shape}, not {expected.shape}.")
        values = arrays.outputs(inputs.astype(np.float64))
        rounding = np.abs(arrays.outputs(inputs) - values).max()
        if arrays.range is None:
            chosen = np.take_along_axis(values, got[:, None], axis=1)
            deviation = values.max(1, keepdims=True) - chosen
        else:
            deviation = np.abs(got - expected) / np.maximum(arrays.range.half, _TINY)
        # This form of the comparison also rejects NaN.
        if not (deviation <= np.maximum(TOLERANCE, _SIGMAS * rounding)).all():
            unit = "logits" if arrays.range is None else "of half the action range"
            raise TelicError(
                f"{name} was not written: its actions differ from the policy's by "
                f"{deviation.max():.2g} {unit}, more than {TOLERANCE:g}.",
                hint="The policy itself is intact. Please report this and attach the policy file.",
            )
        worst = max(worst, float(deviation.max()))
    return worst


class Range(NamedTuple):
    """Action range: middle + half * x for x in [-1, 1]."""

    middle: Array  # (A,)
    half: Array  # (A,)


class PolicyArrays(NamedTuple):
    """Normalization, layers and action range of a policy in float32.

    x = clip((inputs - shift) * scale, -CLIP, CLIP), followed by the operations and the action range
    or, for discrete actions, the argmax.
    """

    shift: Array  # (d,)
    scale: Array  # (d,)
    kinds: tuple[str, ...]  # operations in order; see `Operation`
    layers: list[tuple[Array, Array]]  # weight (in, out) and bias (out,) of each "affine"
    range: Range | None  # None: discrete

    @classmethod
    def of(cls, policy: Policy) -> PolicyArrays:
        """Extract the parameters of a policy."""
        actor, seen = policy.actor, policy.obs_dim + policy.memory_size
        scale = actor.scaling.scale[0, 0, :seen]
        if actor.mask is not None:
            # Masked inputs are multiplied by zero, which equals a scale of zero.
            scale = scale * actor.mask[0, 0, :seen]
        program = policy.program(seen)
        layers = [each.layer for each in program if each.layer is not None]
        span = None
        if not policy.shape.discrete:
            middle, half = (policy.high + policy.low) / 2.0, (policy.high - policy.low) / 2.0
            span = Range(middle.numpy(), half.numpy())
        return cls(
            actor.scaling.shift[0, 0, :seen].numpy(),
            scale.numpy(),
            tuple(each.kind for each in program),
            [(layer.weight[0].numpy(), layer.bias[0, 0].numpy()) for layer in layers],
            span,
        )

    def outputs(self, inputs: Array) -> Array:
        """Compute unscaled network outputs for inputs (N, d), in the precision of the inputs."""
        x = np.clip((inputs - self.shift) * self.scale, -CLIP, CLIP)
        return run_policy.network(x, self.kinds, self.layers)


class OnnxGraph:
    """Builder for an ONNX model. Methods that add operations return the name of the result."""

    def __init__(self, what: str) -> None:
        """Create an empty graph. `what` names the purpose in the error if onnx is not installed."""
        try:
            import onnx
        except ImportError:
            raise MissingExtra("onnx", "export", what) from None
        self._onnx: Any = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Add a constant. Floating-point values are converted to float32."""
        array = np.asarray(values)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation."""
        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def normalized(self, x: str, shift: Array, scale: Array) -> str:
        """Add the input normalization (x - shift) * scale, clipped as in training."""
        x = self.op("Mul", self.op("Sub", x, self.constant(shift)), self.constant(scale))
        return self.clipped(x, CLIP)

    def clipped(self, x: str, most: float) -> str:
        """Add a clip to [-most, most]."""
        return self.op("Clip", x, self.constant(np.float32(-most)), self.constant(np.float32(most)))

    def standardized(self, x: str, *, centerd: bool) -> str:
        """Add RMS normalization of rows, or layer normalization if `centerd`."""
        axes = self.constant(np.array([-1], dtype=np.int64))
        if centerd:
            x = self.op("Sub", x, self.op("ReduceMean", x, axes))
        square = self.op("ReduceMean", self.op("Mul", x, x), axes)
        least = np.float32(run_policy.EPSILON[centerd])
        return self.op("Div", x, self.op("Sqrt", self.op("Add", square, self.constant(least))))

    def model(
        self,
        inputs: dict[str, int],
        output: tuple[str, str, int | None],
        facts: Mapping[str, str],
    ) -> bytes:
        """Return the serialized, checked model with a dynamic batch size.

        Args:
            inputs: number of columns per input name.
            output: result, output name and number of columns, or None for one index per row.
            facts: metadata of the model.
        """
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        given, name, width = output
        self._nodes.append(helper.make_node("Identity", [given], [name]))

        def batch(name: str, kind: int, *sizes: int) -> Any:
            return helper.make_tensor_value_info(name, kind, ["batch", *sizes])

        result = batch(name, kinds.INT64) if width is None else batch(name, kinds.FLOAT, width)
        named = [batch(name, kinds.FLOAT, size) for name, size in inputs.items()]
        model = helper.make_model(
            helper.make_graph(self._nodes, "policy", named, [result], self._constants),
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="telic",
            producer_version=facts.get("telic", ""),
        )
        helper.set_model_props(model, dict(facts))
        self._onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


def write_onnx(arrays: PolicyArrays, policy: Policy, path: Path, facts: dict[str, Any]) -> None:
    """Write an ONNX file with inputs "obs" (and "memory"), output "action" and text metadata."""
    graph, inputs, x = OnnxGraph("Exporting a policy to ONNX"), {"obs": policy.obs_dim}, "obs"
    if policy.memory_size:
        inputs["memory"] = policy.memory_size
        x = graph.op("Concat", "obs", "memory", axis=1)
    x = graph.normalized(x, arrays.shift, arrays.scale)
    kept, layers = x, iter(arrays.layers)
    for kind in arrays.kinds:
        match kind:
            case "affine":
                weight, bias = next(layers)
                x = graph.op("Gemm", x, graph.constant(weight), graph.constant(bias))
            case "keep":
                kept = x
            case "add":
                x = graph.op("Add", x, kept)
            case "silu":
                x = graph.op("Mul", x, graph.op("Sigmoid", x))
            case "layer_norm" | "rms_norm":
                x = graph.standardized(x, centerd=kind == "layer_norm")
            case _:
                x = graph.op(_OPERATORS[kind], x)
    width = None
    if arrays.range is None:
        x = graph.op("ArgMax", x, axis=1, keepdims=0)
    else:
        x = graph.op("Mul", graph.clipped(x, 1.0), graph.constant(arrays.range.half))
        x, width = graph.op("Add", x, graph.constant(arrays.range.middle)), len(arrays.range.half)
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in facts.items()}
    path.write_bytes(graph.model(inputs, (x, "action", width), texts))


def _load_onnx(path: Path) -> Act:
    try:
        return run_policy.load_onnx(path)
    except ImportError:
        raise MissingExtra("onnxruntime", "export", "Verifying an ONNX policy") from None


def _write_numpy(arrays: PolicyArrays, policy: Policy, path: Path, facts: dict[str, Any]) -> None:
    columns: dict[str, Any] = {
        "shift": arrays.shift,
        "scale": arrays.scale,
        "limit": np.float32(CLIP),
        "program": " ".join(arrays.kinds),
        "facts": json.dumps(facts),
    }
    for index, (weight, bias) in enumerate(arrays.layers):
        columns |= {f"weight_{index}": weight, f"bias_{index}": bias}
    if arrays.range is not None:
        columns |= arrays.range._asdict()
    np.savez(path, **columns)


class _Format(NamedTuple):
    """Writer and loader of a file format."""

    write: Callable[[PolicyArrays, Policy, Path, dict[str, Any]], None]
    load: Callable[[Path], Act]


_FORMATS = {
    ".onnx": _Format(write_onnx, _load_onnx),
    ".npz": _Format(_write_numpy, run_policy.load_numpy),
}
