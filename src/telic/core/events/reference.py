"""The reference page of all events, made from their classes."""

from __future__ import annotations

import ast
import inspect
import itertools
from types import ModuleType

from telic.core.events import models, search, session, training
from telic.core.events.codec import EVENTS

_HEAD = """# Events

Generated from the library by `telic.core.events.reference.events_page`; do not edit.

While it works, the library reports what happens. A listener is any function of one event; it
matches on the type:

```python
import telic
from telic.core.events import EvalDone, Event, TrainEnd

def listen(event: Event) -> None:
    match event:
        case EvalDone():
            print(event.step, {name: record.mean_return for name, record in event.members.items()})
        case TrainEnd():
            print(event.status, event.best_return)
        case _:
            pass

telic.train("HalfCheetah-v5", on_event=listen)
```

On disk (`events.jsonl` of a run, a session or a search) an event is one line of JSON with its name
under `event`: `telic.core.events.encode` writes it, `decode` reads and checks it, and `read_events`
reads a log of this or an earlier version. A field that a line lacks has its default; what a field
has to say that this version does not know is left out. `time`, seconds since 1970, stands in the
events of a training only.
"""
_TITLES: dict[ModuleType, str] = {
    training: "Training",
    session: "Sessions",
    search: "Searches and benchmarks",
    models: "Language models",
}


def events_page() -> str:
    """Return the reference page, docs/reference/events.md."""
    names = {kind.__name__: kind.NAME for kind in EVENTS}
    parts = [_HEAD]
    for module, title in _TITLES.items():
        parts.append(f"## {title}\n\n{inspect.getdoc(module)}\n")
        tree = ast.parse(inspect.getsource(module))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        shared = {node.name: node for node in classes}
        for node in (node for node in classes if not node.name.startswith("_")):
            on_disk = names.get(node.name, "")
            label = f"`{node.name}`" + (f", on disk `{on_disk}`" if on_disk else "")
            rows = [row for base in node.bases for row in _rows(shared.get(ast.unparse(base)))]
            rows += _rows(node)
            parts.append(f"### {label}\n\n{ast.get_docstring(node)}\n")
            if rows:
                parts.append("\n".join(("| field | type | |", "|---|---|---|", *rows)) + "\n")
    return "\n".join(parts)


def _rows(node: ast.ClassDef | None) -> list[str]:
    """Return a row per field of a class: its name, type and docstring."""
    rows: list[str] = []
    body = node.body if node else []
    for field, after in itertools.pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            rows.append(f"| `{field.target.id}` | `{kind}` | {after.value.value} |")
    return rows
