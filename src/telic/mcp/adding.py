"""How a tool is added: its hints, its errors as readable text, and no way to start anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from telic.errors import TelicError
from telic.mcp.workplace import Workplace
from telic.studies.offline import offline

Given = ParamSpec("Given")
Result = TypeVar("Result")
Server = MCPServer[Workplace]

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""looks, and changes nothing"""
RECORDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""adds to the files of the study; the same call again adds nothing more"""
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
"""adds to the files of the study each time"""
STARTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
"""starts or ends a process"""


def add_tool(server: Server, function: Callable[..., object], hints: ToolAnnotations) -> None:
    """Add a function as a tool; only one that STARTS may start a process or open a connection."""
    made = readable(function) if hints is STARTS else guarded(function)
    server.add_tool(made, annotations=hints, structured_output=True)


def guarded(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Run a tool or a resolver so that it starts nothing, and turn its errors into text."""

    @wraps(function)
    def offline_call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        with offline(function.__name__.strip("_").replace("_", " ")):
            return function(*args, **kwargs)

    return readable(offline_call)


def readable(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Turn errors that a caller can act on into text; bugs of ours stay on the server's side."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TelicError as error:
            raise ToolError(paragraph(error)) from None

    return call


def paragraph(error: TelicError) -> str:
    """Return what went wrong and what to do."""
    return f"{error.message} {error.hint}" if error.hint else error.message
