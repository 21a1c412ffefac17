"""Write docs/reference/cli.md, the page of all commands, from the verbs.

    python scripts/cli_page.py            write the page
    python scripts/cli_page.py --print    print it instead

Every command, argument, option, default and help is read from the command line itself, so the page
says what `--help` says. tests/cli/test_reference.py fails when it is stale.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer
from rich.text import Text
from typer.main import get_command

from telic.cli.main import app
from telic.verbs.catalogue import PANELS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
EVERYWHERE = ("--json", "--help", "--runs-dir", "--root", "--on")
KINDS = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}

HEAD = """# Commands

Generated from the verbs by `python scripts/cli_page.py`; do not edit.

Every command has `--help` with examples. Commands that print results have
`--json`: one JSON document on stdout. `THING` is an id, a prefix of an id, a path, or `latest`.

Exit codes: 0 done, 1 failed or stopped, 2 invalid request, 3 refused. Commands with further codes
list them. Details: [settings of training](settings.md), [policy search](search.md),
[studies](study-files.md), [MCP server](mcp.md).

## Common options

| option | meaning |
|---|---|
| `--runs-dir PATH` | Folder of runs. Default: `TELIC_RUNS_DIR`, or `runs`. |
| `--root PATH` | Repository, for studies. Default: the working folder. |
| `--on PLACE` | Where to run: local, ray, ray://HOST:PORT or slurm. Results are copied back. |
| `--version` | Print the version (`telic` alone). |
| `--install-completion`, `--show-completion` | Shell completion (`telic` alone). |
"""
EXAMPLES = 3
"""most examples per command; --help has all"""
COMMON_FROM = 3
"""number of commands with an equal row from which on it is a common option"""


def cli_page() -> str:
    """Return the page."""
    root: Any = get_command(app)
    counts = Counter(row for command in _leaves(root) for row in _rows(command))
    common = [row for row, count in counts.items() if count >= COMMON_FROM]
    options = _table(sorted(row for row in common if "`--" in row))
    parts, title, printed = [HEAD + options.split("\n", 2)[2]], "", set[str]()
    for word, command in root.commands.items():
        command.get_params(typer.Context(command))  # which loads its help
        if PANELS.get(word, title) != title:
            title = PANELS[word]
            parts.append(f"## {title}\n")
        parts.extend(_command(command, f"telic {word}", set(common), 3, printed))
    return "\n".join(parts)


def _leaves(command: Any) -> Iterator[Any]:
    """Yield the commands below a group."""
    for each in getattr(command, "commands", {}).values():
        yield from _leaves(each) if hasattr(each, "commands") else (each,)


def _command(
    command: Any, line: str, common: set[str], depth: int, printed: set[str]
) -> Iterator[str]:
    """Yield the parts about a command and those under it.

    Rows of common options are named only; examples that were `printed` above are not repeated.
    """
    subcommands: dict[str, Any] = dict(getattr(command, "commands", {}))
    yield f"{'#' * depth} {line}\n"
    yield _plain(command.help) + "\n"
    rows = _rows(command)
    if own := [row for row in rows if row not in common]:
        yield _table(own)
    if names := [row.split("`")[1].split()[0] for row in rows if row in common and "`--" in row]:
        yield f"Common options: {', '.join(f'`{name}`' for name in names)}.\n".replace(",`", "`")
    if (examples := command.epilog or "") not in printed:
        printed.add(examples)
        yield from _examples(examples)
    for word, subcommand in subcommands.items():
        yield from _command(subcommand, f"{line} {word}", common, min(depth + 1, 5), printed)


def _table(rows: list[str]) -> str:
    return "\n".join(("| option | meaning |", "|---|---|", *rows)) + "\n"


def _rows(command: Any) -> list[str]:
    """Return a row per argument and option of a command."""
    command.get_params(typer.Context(command))  # which makes them
    shown = [x for x in command.params if not getattr(x, "hidden", False)]
    shown.sort(key=lambda x: x.param_type_name != "argument")
    return [_row(x) for x in shown if not set(EVERYWHERE) & set(x.opts)]


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    name = _argument(parameter) if is_argument else _option(parameter)
    text = _plain(parameter.help or "")
    if getattr(parameter, "multiple", False) and "repeat" not in text.lower():
        text += " Repeatable."
    facts = ["Required"] if parameter.required else []
    facts += [f"Default: {default}"] if (default := _default(parameter)) else []
    ends = (("≥", getattr(parameter, "min", None)), ("≤", getattr(parameter, "max", None)))
    facts += [f"{sign} {end:g}" for sign, end in ends if end is not None]
    if facts:
        text += f" {', '.join(facts)}."
    if parameter.envvar:
        text += f" Also: `{parameter.envvar}`."
    return f"| `{_cell(name)}` | {_cell(text)} |"


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    many = "..." if parameter.nargs == -1 and "..." not in name else ""
    is_open = parameter.required or name.startswith("[")
    return f"{name}{many}" if is_open else f"[{name}{many}]"


def _option(parameter: Any) -> str:
    flags = [*parameter.opts, *(parameter.secondary_opts if parameter.default else ())]
    if parameter.is_flag:
        return ", ".join(flags)
    kind = parameter.type_descriptor.annotation
    kind = kind if isinstance(kind, type) else next(x for x in KINDS if x in get_args(kind))
    return f"{', '.join(flags)} {parameter.metavar or KINDS[kind]}"


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value == () or value == []:
        return ""
    if isinstance(value, bool):
        return "on" if value else ""
    return f"`{value}`" if str(value) else ""


def _examples(epilog: str | None) -> Iterator[str]:
    """Yield commands as a block and sentences as text; a remark next to a command is a comment."""
    commands, sentences = list[str](), list[str]()
    for paragraph in _plain(epilog or "").removeprefix("Examples").strip().split("\n\n"):
        if re.match(r"(telic|claude|ssh) ", paragraph):
            line, *comment = re.split(r" {2,}", paragraph, maxsplit=1)
            line = " \\\n    ".join(line.splitlines())
            commands.append(f"{line}  # {comment[0]}" if comment else line)
        elif paragraph:
            sentences.append(paragraph)
    if commands:
        yield "\n".join(("```sh", *commands[:EXAMPLES], "```")) + "\n"
    yield from (f"{sentence}\n" for sentence in sentences)


def _plain(text: str) -> str:
    return Text.from_markup(text).plain.strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(cli_page())
    else:
        PAGE.write_text(cli_page(), encoding="utf-8")
