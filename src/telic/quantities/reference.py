"""Describe the quantities in words: for people, language models and the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.envs.catalogue import describe as describe_environment
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec
from telic.envs.tasks import TASKS
from telic.quantities.quantity import QUANTITIES, Quantity

_HEAD = """# Measured quantities

Generated from the library by `telic.quantities.reference.quantities_page`; do not edit.

```python
from telic import quantities

quantities.forward_velocity(info)                               # an instant quantity: (N,)
self.m, turns = quantities.pitch_turns.update(self.m, info)     # of the episode so far, in a reward
quantities.pitch_turns.over(quantities.Recording(fields, env.spec))     # of a recording: (T,)
```

World axes: x forward, y left, z up. Angles follow the right-hand rule, so a front flip is positive
pitch and a **backflip is negative pitch** on every robot, HalfCheetah included.
`telic envs ENVIRONMENT` lists those of one environment.
"""


class QuantityDescription(Record):
    """One quantity, described for a person or a language model."""

    name: str
    usage: str = Field(description="how to call it")
    unit: str
    kind: Literal["instant", "accumulated"]
    shape: str = Field(description="shape of the value for N environments")
    formula: str = Field(description="in words")
    latex: str
    memory: int | None = Field(
        default=None, description="numbers that an accumulated one remembers; None: it depends"
    )


_PER = {"actuator": "actions", "axis": "3", "foot": "feet", "pole": "poles"}
_ORDER = ("_motion", "_bodies", "_episode", "_gait")


def _describe(quantity: Quantity, spec: EnvSpec | None = None) -> QuantityDescription:
    """Return the description of one quantity, as it is on an environment if one is given."""
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


def _ordered() -> list[Quantity]:
    """Return every quantity: the torso first, then bodies, the episode and gaits."""
    return sorted(
        QUANTITIES.values(),
        key=lambda each: _ORDER.index(each.function.__module__.rpartition(".")[2]),
    )


def describe_quantities(spec: EnvSpec | None = None) -> list[QuantityDescription]:
    """Return the quantities an environment has, or all, in the order of the reference page."""
    return [_describe(each, spec) for each in _ordered() if spec is None or each.available(spec)]


def environment_page(env: str | EnvSpec) -> str:
    """Return an environment as Markdown with the quantities it has: all a reward author may use."""
    spec = describe_environment(env) if isinstance(env, str) else env
    lines = ["## Quantities", "", "| use | unit | value | in words |", "|---|---|---|---|"]
    lines += [
        f"| `{each.usage}` | {each.unit} | {each.shape} | {each.formula} |"
        for each in describe_quantities(spec)
    ]
    return describe_text(spec) + "\n" + "\n".join(lines) + "\n"


def quantities_page() -> str:
    """Return the reference page, docs/reference/quantities.md."""
    specs = {name.rpartition("-v")[0]: describe_environment(name) for name in TASKS}
    lines = [_HEAD]
    for kind, title in (("instant", "At one moment"), ("accumulated", "Of the episode so far")):
        lines.append(f"## {title}\n")
        lines.append("| quantity | unit | value | in words | formula | environments |")
        lines.append("|---|---|---|---|---|---|")
        lines += [_row(each, specs) for each in _ordered() if each.kind == kind]
        lines.append("")
    return "\n".join(lines)


def _row(quantity: Quantity, specs: Mapping[str, EnvSpec]) -> str:
    about = _describe(quantity)
    have = [name for name, spec in specs.items() if quantity.available(spec)]
    missing = [name for name in specs if name not in have]
    where = ", ".join(have) or f"those with {quantity.need.words}"
    if len(missing) < len(have):
        where = f"all but {', '.join(missing)}" if missing else "all"
    call = about.name + (f"(info, {', '.join(quantity.arguments)})" if quantity.arguments else "")
    # A bar would end the table's cell.
    latex = about.latex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    cells = (f"`{call}`", about.unit, about.shape, about.formula, f"${latex}$", where)
    return f"| {' | '.join(cells)} |"
