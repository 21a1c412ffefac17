"""The `telic` command. Requests define its options, and results define its output."""

from __future__ import annotations

import gc
import inspect
import shlex
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from telic import __version__
from telic.cli._defaults import file_defaults, variable
from telic.cli._output import fail, print_json, show
from telic.cli._stop_signals import StopSignal, stoppable
from telic.core.request import RequestField
from telic.core.text import is_row, printable
from telic.core.verb import Verb, as_data
from telic.errors import TelicError, readable_path_errors
from telic.verbs import catalogue
from telic.verbs.catalogue import PANELS, VERBS, VerbGroup

if TYPE_CHECKING:
    from telic.cli._views import ProgressView


def _progress_of(verb: Verb[Any, Any], values: dict[str, Any], is_quiet: bool) -> ProgressView:
    """Return the progress view for an operation's events."""
    from telic.cli._views import ProgressView  # imports rich, which few commands need

    return ProgressView(
        quiet=is_quiet,
        is_session=verb.__name__ in ("run", "resume", "watch", "intents"),
        asks=bool(values.get("approve")) and sys.stdin.isatty(),
        brief=verb.__name__ == "intents" and values["jobs"] > 1,
    )


_WHAT = "Train policies from descriptions of behaviors, and verify that they do what you asked."
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


@contextmanager
def _printable_errors() -> Generator[None]:
    """Escape control characters in usage errors."""
    try:
        yield
    except _USAGE_ERROR as error:
        error.message = printable(error.message)
        raise


class _LazyGroup(TyperGroup):
    """Command group that imports commands only when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)


class _RootGroup(_LazyGroup):
    """The root group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        panels, title = dict[str, str](), ""
        for word in VERBS:
            title = panels[word] = PANELS.get(word, title)
        self.commands = _commands(VERBS, panels)

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments that precede the command."""
        with _printable_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's arguments and run it."""
        with _printable_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="telic",
    cls=_RootGroup,
    help=_WHAT,
    epilog='Start with: telic run "run forward fast"      Help for a command: telic COMMAND --help',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show_version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    """Handle the global options that do not require a command."""
    if show_version:
        typer.echo(f"telic {__version__}")
        raise typer.Exit


_PLAIN = (bool, int, float, Path, str)
_JSON, _DEBUG = "as_json", "debug"
_AsJson = Annotated[bool, typer.Option("--json", help="Print a single JSON document.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show Python tracebacks.", hidden=True)]


class _VerbCommand(TyperCommand):
    """Command that runs an operation. Its help, options and function are loaded lazily."""

    def __init__(self, name: str, path: str, panel: str | None = None) -> None:
        super().__init__(
            name,
            callback=self._call,
            rich_markup_mode="rich",
            rich_help_panel=panel,
        )
        self._path = path

    @property
    def short_help(self) -> str:
        """Summary of this command for the command list."""
        return catalogue.summary(self._path)

    @short_help.setter
    def short_help(self, text: str | None) -> None:
        """Ignore the value that the base class sets."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        if not self.params:
            verb = catalogue.load_verb(self._path)
            own: Any = self  # the base class declares help as plain text
            own.help, own.epilog = verb.help, _examples(verb.examples)
            self.params = _options(verb)
        return super().get_params(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments, with defaults from telic.toml."""
        verb = catalogue.load_verb(self._path)
        try:
            values = file_defaults(verb.__name__, {field.name for field in verb.fields})
        except TelicError as error:
            fail(error, "--json" in args)
        context = super().make_context(info_name, args, parent, default_map=values, **extra)
        sources = {name: str(context.get_parameter_source(name)) for name in values}
        used = [f"{name}={values[name]}" for name in values if "DEFAULT_MAP" in sources[name]]
        if used:
            typer.echo(f"· telic.toml: {printable(', '.join(used))}", err=True)
        return context

    def _call(self, **values: Any) -> None:
        _call(catalogue.load_verb(self._path), **values)


class _GroupCommand(_LazyGroup):
    """A group of operations."""

    def __init__(self, name: str, group: VerbGroup, panel: str | None = None) -> None:
        super().__init__(
            name=name,
            help=group.help,
            epilog=_examples(group.examples),
            no_args_is_help=True,
            rich_markup_mode="rich",
            rich_help_panel=panel,
        )
        self.commands = _commands(group.verbs)


def _commands(
    verbs: dict[str, str | VerbGroup], panels: dict[str, str] | None = None
) -> dict[str, Any]:
    panel = panels or {}
    return {
        word: _VerbCommand(word, entry, panel.get(word))
        if isinstance(entry, str)
        else _GroupCommand(word, entry, panel.get(word))
        for word, entry in verbs.items()
    }


def _options(verb: Verb[Any, Any]) -> list[Any]:
    """Return an operation's options and arguments, including the options of all commands."""
    fields = [field for field in verb.fields if field.how.scope != "inner"]
    parameters = [_parameter(field, variable(verb.__name__, field.name)) for field in fields]
    if verb.has_result:
        parameters.append(_named(_JSON, _AsJson, default=False))
    parameters.append(_named(_DEBUG, _Debug, default=False))

    def command() -> None:
        """Provide the signature from which typer derives the options."""

    # pyrefly: ignore[missing-attribute]
    command.__signature__ = inspect.Signature(parameters)
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return cast("list[Any]", get_command(app).params)


def _parameter(field: RequestField, environment: str | None) -> inspect.Parameter:
    """Convert a field to a parameter for typer."""
    how = field.how
    kind = _kind(field)
    default = _default(field)
    if field.is_required:
        default = inspect.Parameter.empty
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
            envvar=how.variable or environment,
            hidden=how.hidden,
        )
    return _named(field.name, Annotated[kind, info], default)


def _named(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=annotation, default=default)


def _kind(field: RequestField) -> Any:
    """Return the command-line type of a field, or str if the field has a custom parser."""
    plain: Any = str
    if field.how.read is None:
        plain = next((kind for kind in field.alternatives if kind in _PLAIN), str)
    return list[plain] if field.how.many else plain


def _default(field: RequestField) -> Any:
    """Return the default value as it is written on the command line."""
    if field.how.many:
        return None
    if field.how.read is not None:
        return ",".join(map(str, field.default)) or None if is_row(field.default) else None
    return field.default


def _call(verb: Verb[Any, Any], **values: Any) -> None:
    """Run an operation with parsed command-line values and exit with its code."""
    as_json, debug = values.pop(_JSON, False), values.pop(_DEBUG, False)
    saves = any(field.name == "should_stop" for field in verb.fields)
    gc.enable()
    try:
        with readable_path_errors(), stoppable(saves=saves) as stopping, ExitStack() as stack:
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
    """Ask the person at the terminal for the confirmation that the operation requires."""
    question = verb.ask(request)
    if question is None:
        return request
    from telic.studies.approvals import ask_on_terminal

    consent = ask_on_terminal(question.text)
    return request.replace(consent=consent, seen=question.seen)


def _read(verb: Verb[Any, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the specified fields as parsed values."""
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
    """Return the fields that the command line sets: event listener, stop signals and actor."""
    names = {field.name for field in verb.fields if field.how.scope == "inner"}
    out: dict[str, Any] = {}
    if "should_stop" in names:
        out["should_stop"] = stopping
    if "on_event" in names:
        out["on_event"] = stack.enter_context(_progress_of(verb, values, as_json))
    if "on_step" in names:
        from telic.cli._console import errors

        out["on_step"] = lambda text: errors.print(f"· {text}", style="dim", markup=False)
    if "command" in names:
        out["command"] = shlex.join(["telic", *sys.argv[1:]])
    return out


def _examples(text: str) -> str | None:
    lines = "\n\n".join(text.strip().splitlines())  # single line breaks are not displayed
    return f"[bold]Examples[/]\n\n{lines}" if text else None
