"""What people write on a terminal and programs do not: words in any order, plans, questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.cli.output import errors
from telic.core.verb import RunsRequest, Verb, argument, option, place, verb
from telic.errors import MissingExtra, UsageError
from telic.training.request import TrainRequest
from telic.verbs.control import NoteTaken, SessionNoteRequest, note
from telic.verbs.search import SearchRequest, search
from telic.verbs.session import IntentRequest, run
from telic.verbs.things import ThingShowRequest, show
from telic.verbs.train import train

if TYPE_CHECKING:
    from telic.mcp.workplace import Server
    from telic.search.runner import Search
    from telic.session.api import Session
    from telic.training.job import TrainJob
    from telic.training.run import Run


class TerminalTrain(TrainRequest):
    """Words that name the environment and change settings, and a plan without a run."""

    words: Sequence[str] = argument(
        "Environment, then changes of settings.",
        default=(),
        many=True,
        metavar="ENV [key=value ...]",
    )
    env: str = option("Environment id, module:Class, or path of an MJCF file.", default="")
    dry_run: bool = option("Print the plan and stop.", default=False)


def _plain(request: TerminalTrain) -> TrainRequest:
    """Tell the environment from `key=value` words."""
    settings = [word for word in request.words if "=" in word]
    envs = [word for word in request.words if "=" not in word]
    if request.env:
        envs.append(request.env)
    if len(envs) != 1:
        raise UsageError(
            f"Expected one environment, not {' and '.join(envs)}."
            if envs
            else "Which environment?",
            hint="For example: telic train HalfCheetah-v5. See all with: telic envs",
        )
    assert not isinstance(request.settings, Mapping)
    return replace(request, env=envs[0], settings=[*request.settings, *settings], words=())


def _train(request: TerminalTrain) -> Run | TrainJob:
    asked = _plain(request)
    if request.dry_run:
        from telic.training.plan import plan

        return plan.do(asked)
    return train.do(asked)


class TerminalRun(IntentRequest):
    """A session whose criteria are shown and asked about here."""

    interactive: bool = option(
        "Show the criteria and ask here.", "--interactive", "-i", default=False
    )


def _run(request: TerminalRun) -> Session:
    return run.do(replace(request, approve=request.approve or request.interactive))


class TerminalSearch(SearchRequest):
    """A search; without a task it says which there are."""

    env: str = option("Task: see telic search envs.", "--env", default="")


def _search(request: TerminalSearch) -> Search:
    if not request.env:
        raise UsageError("Which task?", hint="Name one with --env; see: telic search envs")
    return search.do(request)


class TerminalNote(SessionNoteRequest):
    """The session first, if it is not the latest."""

    text: str = option("", default="", hidden=True)
    session: str = option("", default="latest", hidden=True)
    words: Sequence[str] = argument(
        'The latest session if left out: telic note "slower"',
        many=True,
        metavar="[SESSION] TEXT",
    )


def _note(request: TerminalNote) -> NoteTaken:
    if len(request.words) > 2:
        raise UsageError(
            "Put the note in quotes.", hint='For example: telic note "less bouncing please"'
        )
    *session, text = request.words
    return note.do(replace(request, text=text, session=session[0] if session else "latest"))


class TerminalShow(ThingShowRequest):
    """A run, or the command that made it."""

    command_line: bool = option(
        "Print only the command that made this run.", "--command", default=False
    )


class CommandLine(NamedTuple):
    """The command that made a run."""

    command: str


def _show(request: TerminalShow) -> Any:
    if not request.command_line:
        return show.do(request)
    from telic.storage.files import read_json

    manifest = read_json(request.find("run").path / "manifest.json")
    return CommandLine(manifest.get("command") or "")


class ServeRequest(RunsRequest):
    """Where and how to serve."""

    transport: Literal["stdio", "http"] = option("stdio or http.", default="stdio")
    host: str = option("With http: an address of this machine.", default="127.0.0.1")
    port: int = option("With http: 0 takes a free one.", default=8765, minimum=0, maximum=65535)
    root: Path = place("The repository.", "--root", default=Path())
    allow_launch: bool = option(
        "Add the tools that start runs and sessions.", "--allow-launch", default=False
    )


_SERVE = """
claude mcp add telic -- telic mcp serve

telic mcp serve --transport http --port 8765

The server only reads and writes files, unless it is started with [bold]--allow-launch[/].
"""


def serve(request: ServeRequest) -> None:
    """Serve studies, sessions and searches as tools, resources and prompts.

    With http every request needs the token: the one in TELIC_MCP_TOKEN, or the one printed here.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp", "Serving coding agents")
    from telic.mcp.server import make_server
    from telic.mcp.workplace import Workplace

    root, runs_dir = request.root.absolute(), Path(request.runs_dir)
    runs = runs_dir if runs_dir.is_absolute() else root / runs_dir
    server = make_server(Workplace(root, runs, allow_launch=request.allow_launch))
    if request.transport == "stdio":
        server.run("stdio")
    else:
        _serve_http(server, request.host, request.port)


def _serve_http(server: Server, host: str, port: int) -> None:
    from telic.mcp.http import PATH, find_token, listen
    from telic.mcp.http import serve as answer

    token, is_new = find_token()
    listening = listen(host, port)
    name, number = listening.getsockname()[:2]
    address = f"[{name}]" if ":" in name else name
    errors.print(f"telic mcp: http://{address}:{number}{PATH}", soft_wrap=True)
    if is_new:
        errors.print(f"token: {token}", soft_wrap=True)
    answer(server, listening, token)


def _like(plain: Verb[..., Any, Any], request: Any, function: Any) -> Verb[..., Any, Any]:
    """Return a verb that says of itself what another one says."""

    def exit_code(result: Any) -> int:
        return 0 if type(result).__name__ == "TrainJob" else plain.exit_code(result)  # only a plan

    function.__doc__, function.__name__ = plain.help, plain.__name__
    return verb(request, examples=plain.examples, exit_code=exit_code)(function)


ON_TERMINAL: dict[str, Verb[..., Any, Any]] = {
    "train:train": _like(train, TerminalTrain, _train),
    "session:run": _like(run, TerminalRun, _run),
    "search:search": _like(search, TerminalSearch, _search),
    "control:note": _like(note, TerminalNote, _note),
    "things:show": _like(show, TerminalShow, _show),
    "serve": verb(ServeRequest, examples=_SERVE)(serve),
}
"""verbs that the command line has in a form of its own"""
