"""One line of the table of everything: what a list says of a session, run, search or study."""

from __future__ import annotations

from collections.abc import Callable

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.facts import SearchRequestFacts
from telic.storage.files import read_facts
from telic.storage.layout import DAMAGED, RunFolder, SessionFolder
from telic.storage.workspace import Kind, Thing

STUDY_MARK = "~"
"""between the names of task and study in an id: no name holds it"""


def thing_id(thing: Thing) -> str:
    """Return the id that the API knows a thing by."""
    return thing.name.replace("/", STUDY_MARK)


class ThingLine(Record):
    """One line of the table of everything."""

    id: str
    kind: Kind
    title: str
    """the intent, the method, or the task: what people know it by"""
    env: str | None
    state: str
    is_running: bool
    score: float | None = None
    """of a judge, from 0 to 1"""
    best_return: float | None = None
    iterations: int | None = None
    members: int | None = None
    steps: int | None = None
    """environment steps that were trained"""
    seconds: float | None = None
    """of training"""
    seeds: tuple[int, ...] = ()
    group: str | None = None
    """the same for runs that differ in their seeds only"""
    origin: str | None = None
    """the session that it branched from"""
    labels: int = 0
    disputed: int = 0
    error: str | None = None
    updated: float
    """seconds since 1970"""


def read_line(thing: Thing) -> ThingLine:
    """Return what a list says of a thing; a damaged one must not hide the others."""
    try:
        return _LINES[thing.kind](thing)
    except TelicError as error:
        return ThingLine(
            id=thing_id(thing),
            kind=thing.kind,
            title=thing_id(thing),
            env=None,
            state=DAMAGED,
            is_running=False,
            error=error.message,
            updated=thing.last_active,
        )


def _session(thing: Thing) -> ThingLine:
    from telic.verbs.session import session_facts

    facts = session_facts(SessionFolder(thing.path))
    return ThingLine(
        id=thing.name,
        kind="session",
        title=facts.intent,
        env=facts.env,
        state=facts.state,
        is_running=thing.is_running,
        score=facts.score,
        iterations=facts.iterations,
        origin=facts.origin["session"] if facts.origin else None,
        labels=facts.labels,
        disputed=facts.disputed,
        updated=thing.last_active,
    )


def _run(thing: Thing) -> ThingLine:
    from telic.training.folder import describe

    facts = describe(RunFolder(thing.path))
    names = [member.name for member in RunFolder(thing.path).members()]
    seeds = [name.rpartition("_seed_") for name in names]
    configs = sorted({config for config, _, _ in seeds})
    return ThingLine(
        id=thing.name,
        kind="run",
        title=", ".join(configs) or thing.name,
        env=facts["env"],
        state=facts["status"],
        is_running=thing.is_running,
        best_return=facts["best_return"],
        members=facts["members"],
        steps=facts["total_timesteps"],
        seconds=facts["training_time_s"],
        seeds=tuple(sorted({int(seed) for _, _, seed in seeds})),
        group=f"{facts['env']} {' '.join(configs)}",
        error=facts["error"],
        updated=thing.last_active,
    )


def _search(thing: Thing) -> ThingLine:
    from telic.verbs.control import state_of

    request = read_facts(thing.path / "search.json", SearchRequestFacts)
    return ThingLine(
        id=thing.name,
        kind="search",
        title=request["method"],
        env=request["env"],
        state=state_of(thing),
        is_running=thing.is_running,
        group=f"{request['env']} {request['method']}",
        updated=thing.last_active,
    )


def _study(thing: Thing) -> ThingLine:
    return ThingLine(
        id=thing_id(thing),
        kind="study",
        title=thing.name,
        env=None,
        state="study",
        is_running=False,
        updated=thing.last_active,
    )


_LINES: dict[Kind, Callable[[Thing], ThingLine]] = {
    "session": _session,
    "run": _run,
    "search": _search,
    "study": _study,
}
