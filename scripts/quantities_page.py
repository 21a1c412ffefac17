"""Write the reference page of measured quantities: docs/reference/quantities.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from telic.envs.catalogue import describe as describe_environment
from telic.envs.spec import EnvSpec
from telic.envs.tasks import TASKS
from telic.quantities import Quantity
from telic.quantities.reference import describe_one, ordered_quantities

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "quantities.md"
_HEAD = """# Measured quantities

Generated from the library by `scripts/quantities_page.py`; do not edit.

```python
from telic import quantities

quantities.forward_velocity(info)                               # an instant quantity: (N,)
self.m, turns = quantities.pitch_turns.update(self.m, info)     # of the episode so far, in a reward
quantities.pitch_turns.over(quantities.Recording(fields, env.spec))     # of a recording: (T,)
```

World axes: x forward, y left, z up. Angles follow the right-hand rule, so a front flip is positive
pitch and a **backflip is negative pitch** on every robot, HalfCheetah included.
`telic envs ENVIRONMENT` lists those of one environment. Values are tensors of shape (N,) unless the
unit states another shape.

Environments: *all*, or groups of the built-in tasks:

"""
_GROUPS = {
    "moving": frozenset(TASKS) - {"Reacher-v5"},
    "legged": frozenset(f"{name}-v5" for name in ("HalfCheetah", "Hopper", "Walker2d", "Ant"))
    | {"Humanoid-v5", "HumanoidStandup-v5"},
    "in space": frozenset({"Ant-v5", "Humanoid-v5", "HumanoidStandup-v5"}),
    "turning": frozenset({"Ant-v5", "Humanoid-v5", "HumanoidStandup-v5", "Swimmer-v5"}),
    "poles": frozenset({"InvertedPendulum-v5", "InvertedDoublePendulum-v5"}),
}


def quantities_page() -> str:
    """Return the reference page, docs/reference/quantities.md."""
    specs = {name: describe_environment(name) for name in TASKS}
    lines = [_HEAD + "\n".join(f"- *{name}*: {_names(ids)}" for name, ids in _GROUPS.items()), ""]
    for kind, title in (("instant", "At one moment"), ("accumulated", "Of the episode so far")):
        lines.append(f"## {title}\n")
        lines.append("| quantity | unit | meaning | formula | environments |")
        lines.append("|---|---|---|---|---|")
        lines += [_row(each, specs) for each in ordered_quantities() if each.kind == kind]
        lines.append("")
    return "\n".join(lines)


def _row(quantity: Quantity, specs: Mapping[str, EnvSpec]) -> str:
    about = describe_one(quantity)
    have = frozenset(name for name, spec in specs.items() if quantity.available(spec))
    missing = frozenset(specs) - have
    group = next((name for name, ids in _GROUPS.items() if ids == have), None)
    where = group or _names(have) or f"needs {quantity.need.words}"
    if group is None and len(missing) < len(have):
        where = f"all but {_names(missing)}" if missing else "all"
    call = about.name + (f"(info, {', '.join(quantity.arguments)})" if quantity.arguments else "")
    # A bar would end the table's cell.
    latex = about.latex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    unit = about.unit if about.shape == "(N,)" else f"{about.unit}, {about.shape}"
    cells = (f"`{call}`", unit, about.formula, f"${latex}$", where)
    return f"| {' | '.join(cells)} |"


def _names(ids: frozenset[str]) -> str:
    """Return environment names in the order of the catalogue, without their version."""
    return ", ".join(name.rpartition("-v")[0] for name in TASKS if name in ids)


if __name__ == "__main__":
    PAGE.write_text(quantities_page(), encoding="utf-8")
