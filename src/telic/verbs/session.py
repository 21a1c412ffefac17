"""From an intent to a policy: start a session, list sessions, answer what one asks a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.request import PlacedRequest, RunsRequest, argument, option
from telic.core.verb import Wrapped, verb
from telic.errors import TelicError, UsageError
from telic.session.records import SessionConfig

if TYPE_CHECKING:
    from telic.llm.work_orders import WorkOrder, WorkOrderLine
    from telic.session.branch import BranchOrigin
    from telic.session.labels import EpisodeLabel
    from telic.session.loop import Session
    from telic.storage.facts import JudgedFacts
    from telic.storage.layout import SessionFolder

_EXAMPLES = """
telic run "run forward fast" --env HalfCheetah-v5

telic run "do a backflip and land on your feet" --env HalfCheetah-v5

telic run "walk slowly backward" --env Walker2d-v5 --iterations 6

telic run "limp" --env Walker2d-v5 --model host     answer the requests yourself: telic orders list

Run the same command again to go on with an interrupted session.
"""


class IntentRequest(SessionConfig, PlacedRequest):
    """A session to run: its configuration, and where to run it."""

    fresh: bool = option("Start from scratch instead of resuming.", default=False)

    def options(self) -> dict[str, Any]:
        """Return the fields of the session's configuration."""
        return {name: getattr(self, name) for name in SessionConfig.model_fields}


def _exit_code(session: Session) -> int:
    from telic.session.outcome import exit_code

    return exit_code(session.summary.outcome, out_of_budget=session.summary.out_of_budget)


@verb(IntentRequest, examples=_EXAMPLES, exit_code=_exit_code)
def run(request: IntentRequest) -> Session:
    """Describe a behaviour; get a trained policy and the evidence that it does what you asked.

    Exit codes: 0 passed, 1 did not pass or stopped, 3 out of budget, 6 passed in part, 7 unproven.
    """
    if request.on is not None:
        from telic.envs.simulators.names import refuse_simulated
        from telic.verbs.elsewhere import do_elsewhere, session_in

        refuse_simulated(request.env, "A session")
        return do_elsewhere(request, ("run",), "session:run", session_in)
    from telic.sandbox.nursery import loading, prewarmed
    from telic.session import WORKERS

    with prewarmed(WORKERS):
        with loading():  # while the workers import, too
            from telic.envs.simulators.names import refuse_simulated
            from telic.session.loop import run as run_session

        refuse_simulated(request.env, "A session")
        return run_session(
            **request.options(),
            runs_dir=request.runs_dir,
            fresh=request.fresh,
            on_event=request.on_event,
            should_stop=request.should_stop,
        )


class SessionsRequest(RunsRequest):
    """Sessions of a folder."""

    limit: int = option("Show this many, newest first.", default=20, minimum=0)


class SessionLine(NamedTuple):
    """What a list of sessions says of one."""

    session: str
    path: str
    intent: str
    env: str
    state: str
    iterations: int
    score: float | None
    origin: dict[str, Any] | None
    labels: int = 0
    """episodes that people labelled"""
    disputed: int = 0
    """those on which judge and person differ"""


@dataclass(frozen=True)
class SessionList(Wrapped):
    """Sessions, the newest first."""

    sessions: list[SessionLine]
    runs_dir: Path


@verb(SessionsRequest)
def sessions(request: SessionsRequest) -> SessionList:
    """List sessions: what was asked, what they are doing, how well they did."""
    from telic.storage.layout import list_sessions
    from telic.storage.workspace import has_begun

    runs_dir = Path(request.runs_dir)
    begun = [folder for folder in list_sessions(runs_dir) if has_begun(folder.path)]
    folders = begun[: request.limit]
    return SessionList([session_line(folder) for folder in folders], runs_dir)


def session_line(folder: SessionFolder) -> SessionLine:
    """Return what a list says of a session; a damaged one must not hide the others."""
    from telic.storage.layout import DAMAGED

    try:
        return session_facts(folder)
    except TelicError as error:
        return SessionLine(folder.name, str(folder.path), error.message, "", DAMAGED, 0, None, None)


def judged_facts(folder: SessionFolder) -> list[JudgedFacts]:
    """Return what is known of every iteration that was judged."""
    from telic.storage.facts import JudgedFacts
    from telic.storage.files import read_facts

    files = [folder.iteration(number).judgment for number in folder.iterations()]
    return [read_facts(file, JudgedFacts) for file in files if file.exists()]


def session_facts(folder: SessionFolder, judged: list[JudgedFacts] | None = None) -> SessionLine:
    """Return what a list says of a session; its judgements may have been read already."""
    from telic.session.records import state_of
    from telic.storage.facts import SessionRequestFacts
    from telic.storage.files import read_facts

    request = read_facts(folder.config, SessionRequestFacts)
    judged = judged_facts(folder) if judged is None else judged
    scores = [each["score"] for each in judged if each["score"] is not None]
    origin, labels = _origin(folder), _labels(folder)
    return SessionLine(
        session=folder.name,
        path=str(folder.path),
        intent=request["intent"],
        env=request["env"],
        state=state_of(folder),
        iterations=len(judged),
        score=max(scores, default=None),
        origin=origin.model_dump() if origin else None,
        labels=len(labels),
        disputed=sum(label.disagrees for label in labels),
    )


def _origin(folder: SessionFolder) -> BranchOrigin | None:
    """Return where a session was branched from; few are, and only then is what reads it loaded."""
    if not folder.origin.exists():
        return None
    from telic.session.branch import origin_of

    return origin_of(folder)


def _labels(folder: SessionFolder) -> list[EpisodeLabel]:
    """Return the labels that count; without any, what reads them is not loaded."""
    if not folder.labels.exists():
        return []
    from telic.session.labels import read_labels, standing

    return standing(read_labels(folder))


class OrdersRequest(RunsRequest):
    """The orders of one session or search."""

    session: Path | str | None = option(
        "Session folder; the latest with open orders if left out.", "--session", default=None
    )

    @property
    def folder(self) -> Path:
        """The folder of orders that is meant."""
        from telic.llm.work_orders import ORDERS
        from telic.storage.layout import changed_at

        if self.session is not None:
            session = Path(self.session)
            folder = session if session.name == ORDERS else session / ORDERS
            if not folder.is_dir():
                raise UsageError(f"{session} has no work orders.", hint="See: telic run --help")
            return folder
        folders = Path(self.runs_dir).glob(f"*/{ORDERS}")
        known = sorted(folders, key=changed_at)
        if not known:
            raise UsageError(
                f"No session in {self.runs_dir} has work orders.", hint="Name one with --session."
            )
        return known[-1]


@dataclass(frozen=True)
class OrderList(Wrapped):
    """Work orders, those that wait first."""

    orders: list[WorkOrderLine]


@verb(OrdersRequest)
def list_orders(request: OrdersRequest) -> OrderList:
    """List work orders, those that wait first."""
    from telic.llm import list_orders as lines

    return OrderList(lines(request.folder))


class OrderRequest(OrdersRequest):
    """One order."""

    key: str = argument("Order: its key, or the start of it.")


@verb(OrderRequest)
def show_order(request: OrderRequest) -> WorkOrder:
    """Print a work order: instructions, request and the schema of the answer."""
    from telic.llm import read_order

    return read_order(request.folder, request.key)


class AnswerRequest(OrderRequest):
    """One order and its answer."""

    file: str = argument("JSON file with the answer; - reads it from input.")


class AnswerTaken(NamedTuple):
    """Where an answer was put."""

    answer: str


@verb(AnswerRequest)
def answer(request: AnswerRequest) -> AnswerTaken:
    """Check an answer against its schema and hand it in."""
    import sys

    from telic.llm import answer_order
    from telic.storage.reading import given_text

    file = request.file
    try:
        text = sys.stdin.read() if file == "-" else given_text(file, "The answer")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} cannot be read: {error}.") from None
    return AnswerTaken(str(answer_order(request.folder, request.key, text)))
