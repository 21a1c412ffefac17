"""Descriptions of the quantities for people, language models and the reference page."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.envs.catalogue import describe as describe_environment
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec
from telic.quantities.quantity import QUANTITIES, Quantity


class QuantityDescription(Record):
    """Description of one quantity for a person or a language model."""

    name: str
    usage: str = Field(description="Python expression that computes the quantity")
    unit: str
    kind: Literal["instant", "accumulated"]
    shape: str = Field(description="shape of the value for N environments")
    formula: str = Field(description="description")
    latex: str
    memory: int | None = Field(
        default=None,
        description="memory size of an accumulated quantity, or None if it depends on the robot",
    )


_PER = {"actuator": "actions", "axis": "3", "foot": "feet", "pole": "poles"}
_ORDER = ("_motion", "_bodies", "_episode", "_gait")


def describe_one(quantity: Quantity, spec: EnvSpec | None = None) -> QuantityDescription:
    """Describe one quantity, optionally as provided by a specific environment."""
    arguments = "".join(f", {each}" for each in quantity.arguments)
    call = f"quantities.{quantity.name}(info{arguments})"
    if quantity.width is not None:
        call = f"memory, value = quantities.{quantity.name}.update(memory, info)"
    memory = quantity.width if isinstance(quantity.width, int) else None
    if callable(quantity.width) and spec is not None:
        memory = quantity.width(spec)
    return QuantityDescription(
        name=quantity.name,
        usage=call,
        unit=quantity.unit,
        kind=quantity.kind,
        shape=f"(N, {_PER[quantity.per]})" if quantity.per else "(N,)",
        formula=quantity.formula,
        latex=quantity.latex,
        memory=memory,
    )


def ordered_quantities() -> list[Quantity]:
    """Return all quantities by topic: torso, bodies, episode and gait."""
    return sorted(
        QUANTITIES.values(), key=lambda each: _ORDER.index(each.function.__module__.split(".")[-1])
    )


def describe_quantities(spec: EnvSpec | None = None) -> list[QuantityDescription]:
    """Describe all quantities, or only the quantities that one environment provides."""
    return [
        describe_one(each, spec)
        for each in ordered_quantities()
        if spec is None or each.available(spec)
    ]


def environment_page(env: str | EnvSpec) -> str:
    """Return a Markdown page that describes an environment and its quantities to reward authors."""
    spec = describe_environment(env) if isinstance(env, str) else env
    lines = ["## Quantities", "", "| use | unit | value | in words |", "|---|---|---|---|"]
    lines += [
        f"| `{each.usage}` | {each.unit} | {each.shape} | {each.formula} |"
        for each in describe_quantities(spec)
    ]
    return describe_text(spec) + "\n" + "\n".join(lines) + "\n"
