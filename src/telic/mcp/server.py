"""The server: every tool, resource and prompt in one fixed order, and no secret in any answer."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from telic import __version__
from telic.core.text import is_mapping, is_row
from telic.errors import TelicError, UnknownName
from telic.llm.keys import redact
from telic.mcp import orders, verb_tools
from telic.mcp.orders import picture
from telic.mcp.workplace import (
    Call,
    Server,
    Workplace,
    paragraph,
    study_of,
    workplace,
)
from telic.plugin.package import Page, read_source
from telic.storage.reading import read_bytes, read_text
from telic.studies.evidence.measurement import read_run_log, run_state
from telic.studies.folder import read_registry
from telic.studies.launch.command import REDACTED, is_secret_name, redact_keys
from telic.studies.offline import offline
from telic.verbs.study_server import get_report

_STUDY = "telic://{task}/{study}"
_JSON, _MARKDOWN, _YAML = "application/json", "text/markdown", "application/yaml"
_MOST_POINTS, _MOST_EVENTS = 1000, 500
_SHORTEST = 8  # a shorter value is a placeholder; removing it would tear ordinary words apart
_INSTRUCTIONS = """\
telic runs experiments with evidence. A study has a contract, candidates, runs, audits and a ledger.
Call next_step: it says the next safe action and why. Do that, then call it again.
You draft and check; a person approves, amends and accepts: use the request_ tools, which ask them.
next_work_order gives you what a session, a search or a study wants written."""


Given = ParamSpec("Given")
Result = TypeVar("Result")


def make_server(place: Workplace) -> Server:
    """Return the server of a workplace; nothing is read or started until a client asks."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[Workplace]:
        yield place

    server: Server = MCPServer(
        "telic",
        title="telic",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=lifespan,
        log_level="WARNING",
        middleware=[keep_secrets],
    )
    verb_tools.register(server, verb_tools.TOOLS)
    orders.register_orders(server)
    verb_tools.register(server, verb_tools.REQUESTS)
    orders.register(server)
    verb_tools.register(server, verb_tools.OPINIONS)
    if place.allow_launch:
        verb_tools.register(server, verb_tools.LAUNCHES)
    add_resources(server, place)
    add_prompts(server)
    return server


def add_prompts(server: Server) -> None:
    """Add a prompt for every skill, in the order of their names."""
    source = read_source()
    for page in source.skills:
        server.add_prompt(_prompt(page, source.rules))


def _prompt(page: Page, rules: str) -> Prompt:
    def render() -> str:
        return f"{page.text.rstrip()}\n\n{rules}"

    return Prompt.from_function(render, name=page.name, description=page.head["description"])


# ---------------------------------------------------------------------------- resources


def add_resources(server: Server, place: Workplace) -> None:
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
    return read_bytes(picture(workplace(call).runs_dir, run, name))


def state(call: Call, task: str, study: str) -> str:
    """Everything that the ledger comes to: enough to go on without any chat."""
    return _text(study_of(call, task, study).state.as_data())


def contract(call: Call, task: str, study: str) -> str:
    """What may be tried, and how it is judged."""
    return read_text(study_of(call, task, study).folder.contract)


def candidate_document(call: Call, task: str, study: str, candidate: str) -> str:
    """One candidate, as it is on disk."""
    opened = study_of(call, task, study)
    return _text(opened.candidate(candidate).as_data())


def run_metrics(
    call: Call, task: str, study: str, run: str, keys: str = "", tail: int = _MOST_POINTS
) -> str:
    """The numbers that a run logged: keys=a,b chooses series, tail=100 the last points."""
    opened = study_of(call, task, study)
    run_state(opened.state.runs, run)  # refuses a run that there is not
    log = read_run_log(opened.folder, run)
    names = [name for name in keys.split(",") if name] or list(log.series)
    if unknown := [name for name in names if name not in log.series]:
        raise UnknownName("series", unknown[0], list(log.series))
    last = max(1, min(tail, _MOST_POINTS))
    series = {
        name: list(
            zip(log.series[name].steps[-last:], log.series[name].values[-last:], strict=True)
        )
        for name in names
    }
    return _text({"run": run, "series": series, "problems": list(log.problems)})


def evidence_sheet(call: Call, task: str, study: str, evidence: str) -> str:
    """One piece of evidence: what was found, about what, by what."""
    opened = study_of(call, task, study)
    if evidence not in opened.state.evidence:
        raise UnknownName("evidence", evidence, list(opened.state.evidence))
    return _text(opened.sheet(evidence).as_data())


def report(call: Call, task: str, study: str) -> str:
    """The report of the study, as it would be written now."""
    return get_report(root=workplace(call).root, task=task, study=study).markdown


def ledger_events(
    call: Call, task: str, study: str, since: int = 1, limit: int = _MOST_EVENTS
) -> str:
    """Events of the ledger from number `since` on."""
    events = study_of(call, task, study).events
    chosen = [event for event in events if event.seq >= since][: max(1, min(limit, _MOST_EVENTS))]
    return _text(
        {"events": [event.model_dump(mode="json") for event in chosen], "last": len(events)}
    )


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


# ---------------------------------------------------------------------------- secrets


async def keep_secrets(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Remove from a result, or from an error's message, everything that is a secret."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        clean = hide_in(error.error.model_dump())
        raise MCPError(clean["code"], clean["message"], clean["data"]) from None
    if isinstance(result, BaseModel):
        data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        data = result
    # Nearly every answer is clean, and one look at all of it is quicker than many at its parts.
    return result if _is_clean(data) else hide_in(data)


def hide_in(value: Any) -> Any:
    """Return plain data without secrets."""
    return _hide_in(value, _secrets())


def _is_clean(data: Any) -> bool:
    text = json.dumps(data, ensure_ascii=False)
    # As JSON writes them, a quote or a backslash in a secret looks different.
    secrets = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in _secrets()]
    return _hide(text, secrets) == text


def _secrets() -> list[str]:
    """Return what the environment keeps under names of secrets, the longest first."""
    values = {value for name, value in os.environ.items() if is_secret_name(name)}
    return sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)


def _hide(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return redact_keys(redact(text))


def _hide_in(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _hide(value, secrets)
    if is_mapping(value):
        return {_hide(str(key), secrets): _hide_in(item, secrets) for key, item in value.items()}
    if is_row(value):
        return [_hide_in(item, secrets) for item in value]
    return value
