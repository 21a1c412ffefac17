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
`telic envs ENVIRONMENT` lists those of one environment.
"""


def quantities_page() -> str:
    """Return the reference page, docs/reference/quantities.md."""
    specs = {name.rpartition("-v")[0]: describe_environment(name) for name in TASKS}
    lines = [_HEAD]
    for kind, title in (("instant", "At one moment"), ("accumulated", "Of the episode so far")):
        lines.append(f"## {title}\n")
        lines.append("| quantity | unit | value | in words | formula | environments |")
        lines.append("|---|---|---|---|---|---|")
        lines += [_row(each, specs) for each in ordered_quantities() if each.kind == kind]
        lines.append("")
    return "\n".join(lines)


def _row(quantity: Quantity, specs: Mapping[str, EnvSpec]) -> str:
    about = describe_one(quantity)
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


if __name__ == "__main__":
    PAGE.write_text(quantities_page(), encoding="utf-8")
