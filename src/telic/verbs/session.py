"""Run a session that turns an intent into a policy and answer its work orders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from telic import session as sessions
from telic.authors.request import SessionConfig
from telic.core.request import PlacedRequest, RunsRequest, argument, option
from telic.core.verb import VerbResult, verb
from telic.envs.simulators.names import permit_env, refuse_simulated
from telic.errors import UsageError
from telic.report.sinks import logs
from telic.sandbox.fork_server import loading, prewarmed
from telic.session.records import exit_code
from telic.storage.layout import changed_at
from telic.storage.reading import given_text

if TYPE_CHECKING:
    from telic.authors.author import MeasurableIntent
    from telic.llm.work_orders import WorkOrder, WorkOrderRow
    from telic.session.loop import Session

_EXAMPLES = """
telic run "run forward fast" --env HalfCheetah-v5
telic run "do a backflip and land on your feet" --env HalfCheetah-v5
telic run "walk slowly backward" --env Walker2d-v5 --iterations 6
telic run "trot 4 m" --env unitree-go1 --dry-run     only print criteria and ignored words
telic run "limp" --env Walker2d-v5 --model host     answer the requests yourself: telic orders
Run the same command again to resume an interrupted session.
"""


class IntentRequest(SessionConfig, PlacedRequest):
    """Configuration of a session, with the place to run it."""

    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    dry_run: bool = option("Print the criteria derived from the intent and exit.", default=False)

    def options(self) -> dict[str, Any]:
        """Return the session configuration."""
        return {name: getattr(self, name) for name in SessionConfig.model_fields}


def _exit_code(session: Session | MeasurableIntent) -> int:
    if not hasattr(session, "summary"):
        return 0  # a dry run
    session = cast("Session", session)
    return exit_code(session.summary.outcome, out_of_budget=session.summary.out_of_budget)


def _read(request: IntentRequest) -> MeasurableIntent:
    """Return the criteria that the composer derives from an intent, without training."""
    from telic.authors.author import MeasurableIntent  # imports torch

    made = sessions.motion.composed(request)
    doubts = [*made.doubts]
    if not made.motions and not made.shown:
        doubts.append("no demonstration exists: the judge cannot be validated on a good example")
    if request.model is not None:
        doubts.append(f"interpreted by the composer. {request.model} may interpret it differently.")
    return MeasurableIntent.of(made.model_copy(update={"doubts": tuple(doubts)}))


@verb(IntentRequest, examples=_EXAMPLES, exit_code=_exit_code)
@logs
def run(request: IntentRequest) -> Session | MeasurableIntent:
    """Train a policy from a description of a behavior and verify that it does what you asked.

    Exit codes: 0 passed, 1 did not pass or stopped, 3 out of budget, 6 partial pass, 7 unproven.
    """
    refuse_simulated(request.env, "A session")
    permit_env(request.env)
    if request.dry_run:
        return _read(request)
    if request.on is not None:
        from telic.verbs.elsewhere import do_elsewhere  # most sessions run here

        return do_elsewhere(request, ("run",), "session:run")
    with prewarmed(sessions.WORKERS):
        with loading():  # while the workers import, too
            run_session = sessions.loop.run_session
        return run_session(
            **request.options(),
            runs_dir=request.runs_dir,
            fresh=request.fresh,
            on_event=request.on_event,
            should_stop=request.should_stop,
        )


class _OrdersRequest(RunsRequest):
    """Request to list, show or answer the work orders of a session or search."""

    key: str | None = argument(
        "Key of the order, or a prefix of it; 'all' answers several orders.", default=None
    )
    file: str | None = argument(
        "JSON file with the answer, or - for stdin. With 'all', a folder of KEY.json files.",
        default=None,
    )
    session: Path | str | None = option(
        "Session folder. Default: the latest with open orders.", "--session", default=None
    )

    @property
    def folder(self) -> Path:
        """Return the folder of the orders."""
        if self.session is not None:
            session = Path(self.session)
            folder = session if session.name == _ORDERS else session / _ORDERS
            if not folder.is_dir():
                raise UsageError(f"{session} has no work orders.", hint="See: telic run --help")
            return folder
        places = (f"{above}{_ORDERS}" for above in ("*/", "cases/*/*/", "*/cases/*/*/"))
        found = [path for place in places for path in Path(self.runs_dir).glob(place)]
        known = sorted(found, key=changed_at)
        if not known:
            raise UsageError(
                f"No session in {self.runs_dir} has work orders.", hint="Set --session."
            )
        return known[-1]


_ORDERS_HINT = "Show one: telic orders KEY. Answer it: telic orders KEY FILE"
_NO_ORDERS = "No order is open. Progress and time left: telic watch"


class _AnswersTaken(NamedTuple):
    """Paths of accepted answers and reasons for rejections, by order key."""

    accepted: dict[str, str]
    refused: dict[str, str]


_ORDERS = "orders"
_ORDER_EXAMPLES = """
telic orders                          open orders of the latest session
telic orders 3f2a                     instructions, request and answer schema
telic orders 3f2a answer.json         validate and submit an answer, once
telic orders all answers/             submit answers/KEY.json for every order
"""


@verb(
    _OrdersRequest,
    examples=_ORDER_EXAMPLES,
    exit_code=lambda result: 2 if getattr(result, "refused", None) else 0,
)
def orders(request: _OrdersRequest) -> VerbResult[list[WorkOrderRow]] | WorkOrder | _AnswersTaken:
    """List, show or answer the work orders of a session that runs with --model host."""
    from telic.llm import work_orders  # imports all of llm

    if request.key == "all" and request.file is not None:
        return _AnswersTaken(*work_orders.answer_orders(request.folder, Path(request.file)))
    if request.key in (None, "all"):
        rows, folder = work_orders.list_orders(request.folder), request.folder.parent
        is_open = any(row.state in ("open", "rejected") for row in rows)
        return VerbResult(rows, hint=_ORDERS_HINT if is_open else f"{_NO_ORDERS} {folder}")
    if request.file is None:
        return work_orders.read_order(request.folder, request.key)
    text = sys.stdin.read() if request.file == "-" else given_text(request.file, "The answer")
    path = work_orders.answer_order(request.folder, request.key, text)
    return _AnswersTaken({path.name.partition(".")[0]: str(path)}, {})
