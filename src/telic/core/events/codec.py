"""The union of all events, how one becomes a line of JSON and back, and their reference page.

What crosses a process boundary, and what lies in an events.jsonl, is one JSON object a line with
the event's name under "event". Reading checks every field: the line may come from a confined
process, which is not trusted, or from an earlier version.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args

from telic.core.events import Facts
from telic.core.events.models import ModelEvent
from telic.core.events.search import BenchEvent, BenchmarkEvent, SearchEvent
from telic.core.events.session import SessionEvent
from telic.core.events.training import TrainingEvent, VideoProgress

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Event = Union[  # noqa: UP007
    TrainingEvent, VideoProgress, SessionEvent, SearchEvent, BenchmarkEvent, ModelEvent
]
Kind = TypeVar("Kind")

EVENTS: tuple[type[Event], ...] = get_args(Event)


def encode(event: Event) -> Facts:
    """Return an event as plain data: its name, when it was written down, its fields."""
    if isinstance(event, BenchEvent):
        return {**encode(event.told), "case": event.case}
    head: Facts = {"event": event.NAME}
    if event.time is not None:
        head["time"] = event.time
    return head | {
        field.name: _plain(getattr(event, field.name))
        for field in fields(event)
        if field.name != "time"
    }


def decode(row: Mapping[str, Any], expected: object = Event) -> Event:
    """Return the event in plain data, every field of it checked; fields unknown to us are left out.

    Args:
        row: a line as `json.loads` gives it.
        expected: the union of events that it may be.

    Raises:
        ValueError: it is none of them, or a field is missing or of the wrong kind.
    """
    name = row.get("event")
    for kind in get_args(expected):
        if name and name == kind.NAME:
            return _reader(kind).validate_python(row)  # pydantic's error is a ValueError
    raise ValueError(f"there is no event named {name!r}")


def from_facts(kind: type[Kind], facts: Mapping[str, Any], /, **more: Any) -> Kind:
    """Return an event of a kind made from the fields of a record, every one of them checked."""
    return _reader(kind).validate_python({**facts, **more})


def read_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the events in the rows of a log; what another version wrote otherwise is left out."""
    for row in rows:
        try:
            yield decode(row)
        except ValueError:
            continue


@cache
def _reader(kind: type[Kind]) -> TypeAdapter[Kind]:
    from pydantic import TypeAdapter  # here, so that whoever only emits need not load it

    return TypeAdapter(kind)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in cast("Facts", value).items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in cast("tuple[Any, ...]", value)]
    return value


_HEAD = """# Events

Generated from the library by `telic.core.events.codec.events_page`; do not edit.

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
events of trainings and sessions.
"""
_TITLES = {
    "training": "Training",
    "session": "Sessions",
    "search": "Searches and benchmarks",
    "models": "Language models",
}


def events_page() -> str:
    """Return the reference page, docs/reference/events.md."""
    names = {kind.__name__: kind.NAME for kind in EVENTS}
    parts = [_HEAD]
    for name, title in _TITLES.items():
        module = import_module(f"telic.core.events.{name}")
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
    for field, after in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            rows.append(f"| `{field.target.id}` | `{kind}` | {after.value.value} |")
    return rows
