"""Resources: the documents of a study, and the pictures of work orders."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from telic.errors import TelicError, UnknownName
from telic.mcp.orders import picture
from telic.mcp.workplace import Call, Server, Workplace, paragraph, study_of, workplace
from telic.studies.candidates import read_candidate
from telic.studies.evidence.measurement import read_run_log, run_state
from telic.studies.folder import read_registry
from telic.studies.offline import offline
from telic.verbs.study_state import get_report

Given = ParamSpec("Given")
Result = TypeVar("Result")

_STUDY = "telic://{task}/{study}"
_JSON, _MARKDOWN, _YAML = "application/json", "text/markdown", "application/yaml"
_MOST_POINTS, _MOST_EVENTS = 1000, 500


def register(server: Server, place: Workplace) -> None:
    """Add the resources; pictures come before studies, whose pattern would fit them too."""

    def registry() -> str:
        """List the tasks and studies of the repository, and which pair is active."""
        return _text(read_registry(place.root).as_data())

    server.resource("telic://registry", mime_type=_JSON)(_guarded(registry))
    server.resource("telic://orders/{run}/{name}", mime_type="image/png")(_guarded(order_picture))
    documents: list[tuple[str, str, Callable[..., str]]] = [
        ("/state", _JSON, state),
        ("/contract", _YAML, contract),
        ("/candidates/{candidate}", _JSON, candidate_document),
        ("/runs/{run}/metrics{?keys,tail}", _JSON, run_metrics),
        ("/evidence/{evidence}", _JSON, evidence_sheet),
        ("/report", _MARKDOWN, report),
        ("/ledger{?since,limit}", _JSON, ledger_events),
    ]
    for path, mime_type, read in documents:
        server.resource(f"{_STUDY}{path}", mime_type=mime_type)(_guarded(read))


def order_picture(call: Call, run: str, name: str) -> bytes:
    """Return a picture that belongs to a work order."""
    return picture(workplace(call).runs_dir, run, name).read_bytes()


def state(call: Call, task: str, study: str) -> str:
    """Everything that the ledger comes to: enough to go on without any chat."""
    return _text(study_of(call, task, study).state.as_data())


def contract(call: Call, task: str, study: str) -> str:
    """What may be tried, and how it is judged."""
    return study_of(call, task, study).folder.contract.read_text("utf-8")


def candidate_document(call: Call, task: str, study: str, candidate: str) -> str:
    """One candidate, as it is on disk."""
    opened = study_of(call, task, study)
    known = opened.state.candidates
    if candidate not in known:
        raise UnknownName("candidate", candidate, list(known))
    return _text(read_candidate(opened.folder, candidate).as_data())


def run_metrics(
    call: Call, task: str, study: str, run: str, keys: str = "", tail: int = _MOST_POINTS
) -> str:
    """The numbers that a run logged: keys=a,b chooses series, tail=100 the last points."""
    opened = study_of(call, task, study)
    run_state(opened.state.runs, run)  # refuses a run that there is not
    log = read_run_log(opened.folder, run)
    wanted = [each for each in keys.split(",") if each] or list(log.series)
    if unknown := [each for each in wanted if each not in log.series]:
        raise UnknownName("series", unknown[0], list(log.series))
    last = max(1, min(tail, _MOST_POINTS))
    chosen = {name: log.series[name] for name in wanted}
    series = {
        name: list(zip(each.steps[-last:], each.values[-last:], strict=True))
        for name, each in chosen.items()
    }
    return _text({"run": run, "series": series, "problems": list(log.problems)})


def evidence_sheet(call: Call, task: str, study: str, evidence: str) -> str:
    """One piece of evidence: what was found, about what, by what."""
    opened = study_of(call, task, study)
    known = opened.state.evidence
    if evidence not in known:
        raise UnknownName("evidence", evidence, list(known))
    return _text(opened.sheet(evidence).as_data())


def report(call: Call, task: str, study: str) -> str:
    """The report of the study, as it would be written now."""
    return get_report(root=workplace(call).root, task=task, study=study).markdown


def ledger_events(
    call: Call, task: str, study: str, since: int = 1, limit: int = _MOST_EVENTS
) -> str:
    """Events of the ledger from number `since` on."""
    events = study_of(call, task, study).events
    first = max(1, since)
    chosen = [each for each in events if each.seq >= first][: max(1, min(limit, _MOST_EVENTS))]
    return _text({"events": [each.as_data() for each in chosen], "last": len(events)})


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, default=str)


def _guarded(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Read without starting anything; what is not there is said so."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            with offline(f"reading {function.__name__}"):
                return function(*args, **kwargs)
        except UnknownName as error:
            raise ResourceNotFoundError(paragraph(error)) from None
        except TelicError as error:
            raise ResourceError(paragraph(error)) from None

    return call
