"""The ONNX graph of a policy, built directly: a dozen nodes need no exporter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from telic.errors import MissingExtra
from telic.training.export.arrays import PolicyArrays

if TYPE_CHECKING:
    import onnx

OPSET = 18
_IR_VERSION = 8
"""the oldest format that opset 18 allows: readable by the most runtimes"""
_OPERATORS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}


class _Graph:
    """Nodes in order; each takes the previous one's output first."""

    def __init__(self, start: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = start

    def constant(self, name: str, value: np.ndarray | float) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    def add(
        self, operator: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> None:
        from onnx import helper

        result = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, [self.last, *inputs], [result], **attributes))
        self.last = result


def build_onnx(
    arrays: PolicyArrays, obs_dim: int, memory_size: int, facts: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the checked model: inputs "obs" (and "memory"), output "action", batch size free."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise MissingExtra("onnx", "export", "Writing a policy as ONNX") from None

    def batch(name: str, kind: int, *sizes: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, ["batch", *sizes])

    inputs = [batch("obs", TensorProto.FLOAT, obs_dim)]
    graph = _Graph("obs")
    if memory_size:
        inputs.append(batch("memory", TensorProto.FLOAT, memory_size))
        graph.add("Concat", "memory", axis=1)
    _network(graph, arrays)
    if arrays.range is None:
        graph.add("ArgMax", output="action", axis=1, keepdims=0)
        output = batch("action", TensorProto.INT64)
    else:
        graph.add("Clip", graph.constant("minus_one", -1.0), graph.constant("one", 1.0))
        graph.add("Mul", graph.constant("action_half", arrays.range.half))
        graph.add("Add", graph.constant("action_middle", arrays.range.middle), output="action")
        output = batch("action", TensorProto.FLOAT, len(arrays.range.half))
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", inputs, [output], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="telic",
        producer_version=facts.get("telic", ""),
    )
    helper.set_model_props(model, dict(facts))
    checker.check_model(model, full_check=True)
    return model


def _network(graph: _Graph, arrays: PolicyArrays) -> None:
    """Add the normaliser and the layers."""
    graph.add("Sub", graph.constant("shift", arrays.shift))
    graph.add("Mul", graph.constant("scale", arrays.scale))
    limit = graph.constant("limit", arrays.limit)
    graph.add("Clip", graph.constant("minus_limit", -arrays.limit), limit)
    last = len(arrays.layers) - 1
    for index, (weight, bias) in enumerate(arrays.layers):
        names = graph.constant(f"weight_{index}", weight), graph.constant(f"bias_{index}", bias)
        graph.add("Gemm", *names)
        if index < last:
            graph.add(_OPERATORS[arrays.activation])
