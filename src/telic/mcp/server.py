"""MCP server with tools, resources and prompts. Secrets are removed from all responses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import BaseModel, ValidationError

from telic import __version__
from telic.core.text import is_mapping, is_row, is_text
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.keys import redact
from telic.mcp import _orders, _verb_tools
from telic.mcp._workplace import Call, Server, ServerContext, readable, workplace
from telic.plugin.package import read_skills
from telic.storage.reading import read_bytes, read_text
from telic.studies.evidence.measurement import read_run_log
from telic.studies.folder import read_registry
from telic.studies.launch.command import REDACTED, is_secret_name, redact_keys
from telic.studies.next import next_step
from telic.studies.report import report_text

_STUDY = "telic://{task}/{study}"
_JSON, _MARKDOWN, _YAML = "application/json", "text/markdown", "application/yaml"
_MAX_POINTS, _MAX_EVENTS = 1000, 500
_MIN_LENGTH = 8  # shorter values are placeholders; removing them would damage ordinary words
_INSTRUCTIONS = """\
telic runs controlled RL experiments. A study has a contract, candidates, runs, audits and a ledger.
Call study_run to execute all steps that do not require a person; it returns the next step.
You draft and check. A person approves, amends and accepts through forms shown by these tools.
next_work_order returns the next model request from a session or search."""


async def serve_stdio(place: ServerContext) -> None:
    """Serve over stdio and answer each message that is not valid JSON with an error."""
    lowlevel = make_server(place)._lowlevel_server
    sender, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def read_messages() -> None:
        async with sender:
            async for item in received:
                if isinstance(item, Exception):
                    await answers.send(SessionMessage(_parse_error(item)))
                else:
                    await sender.send(item)

    async with stdio_server() as (received, answers), anyio.create_task_group() as group:
        group.start_soon(read_messages)
        await lowlevel.run(messages, answers, lowlevel.create_initialization_options())


def _parse_error(error: Exception) -> JSONRPCError:
    """Return the answer to an invalid message, with the id of its request if it can be found."""
    first, request = error.errors()[0] if isinstance(error, ValidationError) else {}, None
    with suppress(ValueError, RecursionError, AttributeError, TypeError):
        request = json.loads(first.get("input", "")).get("id")  # also reads unpaired surrogates
    why = f"{first.get('msg', error)}. Unpaired surrogates are not allowed."
    return JSONRPCError(
        jsonrpc="2.0",
        id=request if isinstance(request, int | str) and is_text(str(request)) else None,
        error=ErrorData(code=PARSE_ERROR, message=why),
    )


def make_server(place: ServerContext) -> Server:
    """Return the server. Nothing is read or started before the first request of a client."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[ServerContext]:
        yield place

    server: Server = MCPServer(
        "telic",
        title="telic",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=lifespan,
        log_level="WARNING",
        middleware=[_keep_secrets],
    )
    _verb_tools.register(server, _verb_tools.TOOLS)
    _orders.register(server)
    _verb_tools.register(server, _verb_tools.OPINIONS)
    may_start = _verb_tools.LAUNCHES if place.allow_launch else _verb_tools.WITHOUT_LAUNCH
    _verb_tools.register(server, may_start)

    def registry() -> str:
        """Return the tasks and studies of the repository, including the active ones."""
        return _text(read_registry(place.root).as_data())

    server.resource("telic://registry", mime_type=_JSON)(readable(registry, _resource_error))
    # Pictures are registered before studies, whose pattern would also match them.
    for path, mime_type, read in _RESOURCES:
        server.resource(path, mime_type=mime_type)(readable(read, _resource_error))
    for name, about, text in read_skills():
        server.add_prompt(
            Prompt.from_function(lambda text=text: text, name=name, description=about)
        )
    return server


# ---------------------------------------------------------------------------- resources


def _order_picture(call: Call, run: str, name: str) -> bytes:
    """Return a picture of a work order."""
    return read_bytes(_orders.picture(call, run, name))


def _state(call: Call, task: str, study: str) -> str:
    """Return the state of a study, sufficient to resume it without the conversation."""
    return _text(workplace(call).open_study(task, study).state.as_data())


def _contract(call: Call, task: str, study: str) -> str:
    """Return the contract, which defines allowed changes and how candidates are judged."""
    return read_text(workplace(call).open_study(task, study).folder.contract)


def _candidate(call: Call, task: str, study: str, candidate: str) -> str:
    """Return one candidate as stored on disk."""
    return _text(workplace(call).open_study(task, study).candidate(candidate).as_data())


def _metrics(
    call: Call, task: str, study: str, run: str, keys: str = "", tail: str = f"{_MAX_POINTS}"
) -> str:
    """Return the metrics of a run. `keys=a,b` selects series, and `tail=100` limits the points."""
    opened = workplace(call).open_study(task, study)
    opened.run_state(run)  # raises for an unknown run
    log = read_run_log(opened, run)
    names = [name for name in keys.split(",") if name] or list(log.series)
    if unknown := [name for name in names if name not in log.series]:
        raise UnknownName("series", unknown[0], list(log.series))
    last = max(1, min(_whole(tail), _MAX_POINTS))
    series = {
        name: list(
            zip(log.series[name].steps[-last:], log.series[name].values[-last:], strict=True)
        )
        for name in names
    }
    return _text({"run": run, "series": series, "problems": list(log.problems)})


def _evidence(call: Call, task: str, study: str, evidence: str) -> str:
    """Return one evidence record."""
    opened = workplace(call).open_study(task, study)
    if evidence not in opened.state.evidence:
        raise UnknownName("evidence", evidence, list(opened.state.evidence))
    return _text(opened.sheet(evidence).as_data())


def _report(call: Call, task: str, study: str) -> str:
    """Return the current report of the study."""
    opened = workplace(call).open_study(task, study)
    return report_text(opened, next_step(opened))


def _ledger(
    call: Call, task: str, study: str, since: str = "1", limit: str = f"{_MAX_EVENTS}"
) -> str:
    """Return the events of the ledger, starting with number `since`."""
    events = workplace(call).open_study(task, study).events
    first, most = _whole(since), max(1, min(_whole(limit), _MAX_EVENTS))
    chosen = [event for event in events if event.seq >= first][:most]
    return _text(
        {"events": [event.model_dump(mode="json") for event in chosen], "last": len(events)}
    )


_RESOURCES: tuple[tuple[str, str, Callable[..., str | bytes]], ...] = (
    ("telic://orders/{run}/{name}", "image/png", _order_picture),
    (f"{_STUDY}/state", _JSON, _state),
    (f"{_STUDY}/contract", _YAML, _contract),
    (f"{_STUDY}/candidates/{{candidate}}", _JSON, _candidate),
    (f"{_STUDY}/runs/{{run}}/metrics{{?keys,tail}}", _JSON, _metrics),
    (f"{_STUDY}/evidence/{{evidence}}", _JSON, _evidence),
    (f"{_STUDY}/report", _MARKDOWN, _report),
    (f"{_STUDY}/ledger{{?since,limit}}", _JSON, _ledger),
)


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, default=str)


def _whole(text: str) -> int:
    """Return the number in a resource's address. The server would report an internal error."""
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        raise UsageError(f'"{text[:40]}" is not a whole number.')
    return int(text)


def _resource_error(error: TelicError) -> Exception:
    is_theirs = isinstance(error, UnknownName | UsageError)  # invalid parameters
    return (ResourceNotFoundError if is_theirs else ResourceError)(str(error))


# ---------------------------------------------------------------------------- secrets


async def _keep_secrets(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Remove all secrets from a result or an error message."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        clean = hide_in(error.error.model_dump())
        raise MCPError(clean["code"], clean["message"], clean["data"]) from None
    if isinstance(result, BaseModel):
        data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        data = result
    clean = hide_in(data)
    return result if clean == data else clean


def hide_in(value: Any) -> Any:
    """Return plain data with environment secrets and provider API keys removed."""
    values = {value for name, value in os.environ.items() if is_secret_name(name)}
    secrets = sorted((each for each in values if len(each) >= _MIN_LENGTH), key=len, reverse=True)
    return _hide_in(value, secrets)


def _hide_in(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return redact_keys(redact(value))
    if is_mapping(value):
        return {_hide_in(str(key), secrets): _hide_in(x, secrets) for key, x in value.items()}
    return [_hide_in(item, secrets) for item in value] if is_row(value) else value
