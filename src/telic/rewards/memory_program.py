"""Export the part of a reward's memory that a policy observes, for use without telic.

Rewards are untrusted code, so they are traced in a sandboxed worker. A memory update becomes a list
of array operations, which `run_policy.py` in a bundle runs with NumPy. Operations that do not
affect the observed names are removed. The program must reproduce the memory on recorded steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.func import functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from telic.core.config import Record
from telic.core.tensors import use_one_thread
from telic.envs.factory import make
from telic.envs.vector import Info
from telic.errors import TelicError
from telic.rewards.confined import run_confined
from telic.rewards.contract import initial_memory
from telic.rewards.recording import Transition, collect
from telic.rewards.reward import load_reward

_INPUTS = ("obs", "action", "next_obs")
_CLOSE = 1e-4


class MemoryProgram(Record):
    """Update of a reward's memory, executed by `telic.training.export.run_policy`."""

    memory: dict[str, list[Any]]
    """initial row of each observed name and its dependencies"""
    seen: dict[str, int]
    """size of each name, in the order of the policy's input. Negative sizes are masked with 0."""
    inputs: dict[str, str]
    """source of each input node: a name of the memory, obs, action, next_obs or an info value"""
    constants: dict[str, list[Any] | float | bool]
    steps: tuple[tuple[str, str, list[Any], dict[str, Any]], ...] = Field(
        description="operations, each as node, function, arguments and options"
    )
    results: dict[str, str]
    """node that holds each name of the memory after the step"""


def memory_program(
    reward: str, env: str, env_args: dict[str, Any], player: Callable[[dict[str, Any]], Any]
) -> MemoryProgram:
    """Trace the memory update of a reward given as text, or raise TelicError if that is impossible.

    The update is run by `player` and must reproduce the reward's memory.
    """
    payload = {"reward": reward, "env": env, "env_args": env_args}
    with tempfile.TemporaryDirectory() as folder:
        entry = "telic.rewards.memory_program:trace_confined"
        result = run_confined(entry, payload, Path(folder), [(env, env_args)])
    try:  # a validation error is also a ValueError
        program = MemoryProgram.model_validate(result.get("program"))
        playing = player(program.model_dump(mode="json"))
    except ValueError as error:
        raise TelicError(f"The memory of the reward cannot be exported: {error}.") from None
    for row in result["steps"]:
        playing.follow({name: np.array(value) for name, value in row["given"].items()})
        off = np.abs(playing.seen() - np.array(row["seen"])).max()
        if not off <= _CLOSE * max(1.0, float(np.abs(row["seen"]).max())):
            raise TelicError(f"The exported memory update differs from the reward's by {off:.2g}.")
    return program


def trace_confined(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Trace a reward and record a few steps of its memory, in a sandboxed worker."""
    use_one_thread()
    channel.heartbeat(120.0, "tracing the memory of a reward")
    sample = make(payload["env"], num_envs=2, seed=0, **payload["env_args"])
    recording = collect(sample, 32)
    sample.close()
    reward = load_reward(payload["reward"], label="reward_fn.py")
    reward.decide(recording)
    code, moments = reward.code, [each.map(lambda x: x[:1]) for each in recording.transitions]
    if code is None or reward.mode != "batched":
        raise TelicError("Only the memory of a batched reward can be traced.")
    owner = code.create({}).owner
    rows = initial_memory(owner.memory)
    to = owner.memory_to
    shown = tuple(rows) if to == "actor" else to
    seen = {name: row.numel() * (1 if name in shown else -1) for name, row in rows.items()}
    names = [*rows, *_INPUTS, *moments[0].info]
    schema = moments[0].info.schema

    def update(*given: Tensor) -> tuple[Tensor, ...]:
        values = dict(zip(names, given, strict=True))
        owner.memory = {name: values[name] for name in rows}
        info = Info.of({name: values[name] for name in moments[0].info}, schema)
        owner.compute(*(values[name] for name in _INPUTS), info)
        return tuple(owner.memory[name] for name in rows)

    def values_of(moment: Transition, memory: list[Tensor]) -> list[Tensor]:
        inputs = [getattr(moment, name) for name in _INPUTS]
        return [*memory, *inputs, *(moment.info.exact(name) for name in moment.info)]

    memory, steps = list(rows.values()), list[dict[str, Any]]()
    update(*values_of(moments[0], memory))  # compute cached constants before tracing
    traced = make_fx(functionalize(update))(*values_of(moments[0], memory))
    program = _program(traced, names, rows, seen)
    fields = set(program.inputs.values()) - rows.keys()
    shown_to = [torch.full((row.numel(),), float(seen[name] > 0)) for name, row in rows.items()]
    for moment in moments:
        values = values_of(moment, memory)
        memory = list(update(*values))
        now = torch.cat([value.reshape(1, -1) for value in memory], 1) * torch.cat(shown_to)
        given = dict(zip(names, values, strict=True))
        given = {name: given[name].tolist() for name in fields}
        steps.append({"given": given, "seen": cast("Any", now).tolist()})
        if bool(moment.ended.any()):
            break
    return {"program": program.model_dump(mode="json"), "steps": steps}


def _program(
    traced: GraphModule, names: list[str], rows: dict[str, Tensor], seen: dict[str, int]
) -> MemoryProgram:
    """Return the part of a trace on which the observed names depend over several steps."""
    nodes = list(traced.graph.nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    inputs = dict(zip(places, names, strict=True))
    outputs = dict(zip(rows, cast("Any", nodes[-1].args[0]), strict=True))
    needed, known = list[Node](), {name for name, size in seen.items() if size > 0}
    while True:
        needed = [outputs[name] for name in known]
        for node in needed:
            needed += [each for each in node.all_input_nodes if each not in needed]
        more = {inputs[node] for node in needed if node in inputs} & rows.keys()
        if more <= known:
            break
        known |= more
    kept = [node for node in nodes if node in set(needed)]
    return MemoryProgram(
        memory={name: cast("Any", row).tolist() for name, row in rows.items() if name in known},
        seen=seen,
        inputs={node.name: inputs[node] for node in kept if node in inputs},
        constants={
            node.name: cast("Any", getattr(traced, str(node.target))).tolist()
            for node in kept
            if node.op == "get_attr"
        },
        steps=tuple(
            (
                node.name,
                str(node.target).split(".")[1 if "aten" in str(node.target) else 0],
                [_plain(each) for each in node.args],
                {name: _plain(each) for name, each in node.kwargs.items()},
            )
            for node in kept
            if node.op == "call_function"
        ),
        results={name: outputs[name].name for name in rows if name in known},
    )


def _plain(value: Any) -> Any:
    """Return an argument as plain data, with data types by name."""
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value if isinstance(value, int | float | bool | None) else str(value)
