"""The `telic` command: verbs by their words, options from requests, output from results."""

from __future__ import annotations

import gc
import inspect
import shlex
import sys
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from telic.cli.output import fail, print_json, show
from telic.cli.stop_signals import StopSignal, stoppable
from telic.core.request import RequestField
from telic.core.text import is_row, printable
from telic.core.verb import Verb, as_data
from telic.errors import TelicError, telling_places
from telic.verbs import catalogue
from telic.verbs.catalogue import PANELS, VERBS, VerbGroup

if TYPE_CHECKING:
    from telic.cli.views import TrainingView


def progress_of(verb: Verb[Any, Any], values: dict[str, Any], is_quiet: bool) -> TrainingView:
    """Return what shows the events of a verb."""
    from telic.cli import views  # with all events, which few commands need

    if verb.__name__ in ("run", "resume", "watch"):
        asks = bool(values.get("approve")) and sys.stdin.isatty()
        return views.WorkView(quiet=is_quiet, asks=asks)
    if verb.__name__ == "search":
        return views.SearchView(quiet=is_quiet)
    if verb.__name__ == "intents":
        return views.BenchView(brief=values["jobs"] > 1, quiet=is_quiet)
    return views.TrainingView(quiet=is_quiet)


_WHAT = "Describe a behaviour, get a trained policy, and the evidence that it does what you asked."
_DOORS: dict[str, str | VerbGroup] = {
    "serve": "web:serve",
    "site": "web:site",
    "mcp": VerbGroup("Serve telic to coding agents.", {"serve": "mcp:serve"}),
}
"""verbs of the servers"""


class LazyGroup(TyperGroup):
    """Commands under one word, listed without loading what they stand for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words."""
        return list(self.commands)


_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


@contextmanager
def shown_plainly() -> Generator[None]:
    """Let the complaint about a word show the word, and never obey what it holds."""
    try:
        yield
    except _USAGE_ERROR as error:
        if isinstance(error, SpokenComplaint):
            error.message = printable(error.message)
        raise


@runtime_checkable
class SpokenComplaint(Protocol):
    """What is wrong with the words of a command."""

    message: str


class RootGroup(LazyGroup):
    """All commands; nothing of a command is loaded before it is asked for."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the words before the command."""
        with shown_plainly():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the words of the command, and do it."""
        with shown_plainly():
            return super().invoke(ctx)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        verbs = {**VERBS, **_DOORS}
        panels, title = dict[str, str](), ""
        for word in verbs:
            title = panels[word] = PANELS.get(word, title)
        self.commands = CommandMap(verbs, panels)


app = typer.Typer(
    name="telic",
    cls=RootGroup,
    help=_WHAT,
    epilog='Start with: telic run "run forward fast"      Ask any command: telic COMMAND --help',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show_version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    """Answer without a command."""
    if show_version:
        from telic import __version__

        typer.echo(f"telic {__version__}")
        raise typer.Exit


_MARKUP = "rich"
_PLAIN = (bool, int, float, Path, str)
_JSON, _DEBUG = "as_json", "debug"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.", hidden=True)]


class VerbCommand(TyperCommand):
    """A verb as a command; its options are made when somebody asks for them."""

    def __init__(self, name: str, verb: Verb[Any, Any], panel: str | None = None) -> None:
        super().__init__(
            name,
            callback=partial(call, verb),
            help=verb.help,
            epilog=_examples(verb.examples),
            rich_markup_mode=_MARKUP,
            rich_help_panel=panel,
        )
        self._verb = verb

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        if not self.params:
            self.params = options(self._verb)
        return super().get_params(ctx)


class GroupCommand(LazyGroup):
    """Verbs under one word; the modules of its verbs are loaded when they are asked for."""

    def __init__(self, name: str, group: VerbGroup, panel: str | None = None) -> None:
        self._verb = None if group.own is None else find(group.own)
        super().__init__(
            name=name,
            help=group.help,
            epilog=_examples(group.examples or (self._verb.examples if self._verb else "")),
            no_args_is_help=self._verb is None,
            invoke_without_command=self._verb is not None,
            callback=self._call_own,
            rich_markup_mode=_MARKUP,
            rich_help_panel=panel,
        )
        self.commands = CommandMap(group.verbs)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the verb that the word alone is."""
        if self._verb is not None and not self.params:
            self.params = options(self._verb, requires=False)
        return super().get_params(ctx)

    def _call_own(self, **values: Any) -> None:
        context = typer.main.get_current_context()  # pyright: ignore[reportPrivateImportUsage]
        if self._verb is not None and context.invoked_subcommand is None:
            call(self._verb, **values)


class CommandMap(MutableMapping[str, Any]):
    """Commands by word, made at first use."""

    def __init__(
        self, verbs: dict[str, str | VerbGroup], panels: dict[str, str] | None = None
    ) -> None:
        self._verbs = verbs
        self._panels = panels or {}
        self._commands: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._commands:
            entry, panel = self._verbs[word], self._panels.get(word)
            self._commands[word] = (
                VerbCommand(word, find(entry), panel)
                if isinstance(entry, str)
                else GroupCommand(word, entry, panel)
            )
        return self._commands[word]

    def __contains__(self, word: object) -> bool:
        return word in self._verbs

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)

    def __setitem__(self, word: str, command: Any) -> None:
        self._commands[word] = command

    def __delitem__(self, word: str) -> None:
        del self._commands[word]


def find(path: str) -> Verb[Any, Any]:
    """Return a verb, also one of the servers."""
    package, _, name = path.partition(":")
    if package in ("mcp", "web"):
        return getattr(import_module(f"telic.{package}"), name)
    return catalogue.load(path)


def options(verb: Verb[Any, Any], *, requires: bool = True) -> list[Any]:
    """Return a verb's fields as options and arguments, and what every command has.

    Args:
        verb: the verb.
        requires: refuse a command line without the required ones; the request checks them, too.
    """
    fields = [field for field in verb.fields if field.how.scope != "inner"]
    parameters = [_parameter(field, requires) for field in fields]
    if verb.has_result:
        parameters.append(_named(_JSON, AsJson, default=False))
    parameters.append(_named(_DEBUG, Debug, default=False))

    def command() -> None:
        """Carry a signature for typer to read."""

    command.__signature__ = inspect.Signature(parameters)
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return cast("list[Any]", get_command(app).params)


def _parameter(field: RequestField, requires: bool) -> inspect.Parameter:
    """Return a field as a parameter that typer understands."""
    how = field.how
    kind = _kind(field)
    default = _default(field)
    if field.is_required:
        default = inspect.Parameter.empty if requires else None
    if default is None:
        kind = kind | None
    if how.scope == "argument":
        info = typer.Argument(help=field.help, metavar=how.metavar or field.name.upper())
    else:
        info = typer.Option(
            *how.flags,
            help=field.help,
            min=field.minimum,
            max=field.maximum,
            metavar=how.metavar,
            envvar=how.variable,
            hidden=how.hidden,
        )
    return _named(field.name, Annotated[kind, info], default)


def _named(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=annotation, default=default)


def _kind(field: RequestField) -> Any:
    """Return the type that the command line reads: text for what has a reader of its own."""
    plain: Any = str
    if field.how.read is None:
        plain = next((kind for kind in field.alternatives if kind in _PLAIN), str)
    return list[plain] if field.how.many else plain


def _default(field: RequestField) -> Any:
    """Return the default as the command line would be given it."""
    if field.how.many:
        return None
    if field.how.read is not None:
        return ",".join(map(str, field.default)) or None if is_row(field.default) else None
    return field.default


def call(verb: Verb[Any, Any], **values: Any) -> None:
    """Do a verb with what was read from the command line, and leave with its exit code."""
    as_json, debug = values.pop(_JSON, False), values.pop(_DEBUG, False)
    saves = any(field.name == "should_stop" for field in verb.fields)
    gc.enable()
    try:
        with telling_places(), stoppable(saves=saves) as stopping, ExitStack() as stack:
            filled = _inner(verb, values, as_json, stack, stopping)
            request = verb.request(**_read(verb, values), **filled)
            result = verb.do(_agreed(verb, request))
    except TelicError as error:
        if debug:
            raise
        fail(error, as_json)
    if as_json:
        print_json(as_data(result))
    elif verb.has_result:
        show(result)
    if code := verb.exit_code(result):
        raise typer.Exit(stopping.exit_code if stopping() else code)


def _agreed(verb: Verb[Any, Any], request: Any) -> Any:
    """Have the person at the terminal agree to what the verb asks of them."""
    question = verb.ask(request)
    if question is None:
        return request
    from telic.studies.approvals import ask_on_terminal

    consent = ask_on_terminal(question.text)
    return request.replace(consent=consent, seen=question.seen)


def _read(verb: Verb[Any, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given, as values."""
    out: dict[str, Any] = {}
    for field in verb.fields:
        value = values.get(field.name)
        if value is None or (field.how.many and not value):
            continue
        if field.how.read is not None:
            value = field.how.read(value, field.flag)
        out[field.name] = tuple(value) if is_row(value) else value
    return out


def _inner(
    verb: Verb[Any, Any],
    values: dict[str, Any],
    as_json: bool,
    stack: ExitStack,
    stopping: StopSignal,
) -> dict[str, Any]:
    """Return what the command line itself fills in: who listens, who may stop it, who asked."""
    names = {field.name for field in verb.fields if field.how.scope == "inner"}
    out: dict[str, Any] = {}
    if "should_stop" in names:
        out["should_stop"] = stopping
    if "on_event" in names:
        out["on_event"] = stack.enter_context(progress_of(verb, values, as_json))
    if "on_step" in names:
        from telic.cli.console import console

        out["on_step"] = stack.enter_context(console.status("working")).update
    if "command" in names:
        out["command"] = shlex.join(["telic", *sys.argv[1:]])
    if "commands" in names:
        out["commands"] = get_command(app)
    return out


def _examples(text: str) -> str | None:
    return f"[bold]Examples[/]\n{text}" if text else None
