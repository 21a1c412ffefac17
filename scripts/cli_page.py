"""Write docs/reference/cli.md, the page of all commands, from the verbs.

    python scripts/cli_page.py            write the page
    python scripts/cli_page.py --print    print it instead

Every command, argument, option, default and help is read from the command line itself, so the page
says what `--help` says. tests/cli/test_reference.py fails when it is stale.
"""

from __future__ import annotations

import re
import sys
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

Every command has `--help` with examples, and all that have something to say have `--json` for one
JSON document on stdout and nothing else.

`THING` is an id, the start of one, a path, or `latest` (the default). Options that many commands
share are not repeated below:

- `--runs-dir PATH` (default `runs`, or `TELIC_RUNS_DIR`): the folder of runs.
- `--root PATH` (default: the working folder): the repository, for studies.
- `--on PLACE`: where to run (local, ray, ray://HOST:PORT or slurm); results are copied back.

How to: [search for a policy](../how-to/search-for-a-policy.md),
[measure with the benchmark](../how-to/measure-with-the-benchmark.md). Reference:
[settings of training](settings.md), [policy search](search.md),
[launching in studies](study-launch.md), [the MCP server](mcp.md).

Exit codes: 0 done, 1 failed or stopped, 2 bad request, 3 refused; where a command has others, its
text says so. `telic` alone takes:
"""


def cli_page() -> str:
    """Return the page."""
    root: Any = get_command(app)
    parts, title, printed = [HEAD, _table(_rows(root))], "", set[str]()
    for word, command in root.commands.items():
        command.get_params(typer.Context(command))  # which loads its help
        if PANELS.get(word, title) != title:
            title = PANELS[word]
            parts.append(f"## {title}\n")
        parts.extend(_command(command, f"telic {word}", set(), 3, printed))
    return "\n".join(parts)


def _command(
    command: Any, line: str, known: set[str], depth: int, printed: set[str]
) -> Iterator[str]:
    """Yield the parts about a command and those under it.

    Rows that are `known` and examples that were `printed` above are not repeated.
    """
    rows = [row for row in _rows(command) if row not in known]
    subcommands: dict[str, Any] = dict(getattr(command, "commands", {}))
    yield f"{'#' * depth} {line}\n"
    yield _plain(command.help) + "\n"
    if not subcommands or rows:
        words = " ".join(_argument(x) for x in command.params if x.param_type_name == "argument")
        yield f"`{' '.join(filter(None, (line, words, '[OPTIONS]' if rows else '')))}`\n"
    if rows:
        yield _table(rows)
    if (examples := command.epilog or "") not in printed:
        printed.add(examples)
        yield from _examples(examples)
    leaves = [x for x in subcommands.values() if not hasattr(x, "commands")]
    sets = [set(_rows(leaf)) for leaf in leaves]
    shared = set[str].intersection(*sets) - known if len(sets) > 2 else set[str]()
    if shared:
        order = [row for row in _rows(leaves[0]) if row in shared]
        yield "Each of these commands also takes:\n"
        yield _table(order)
    for word, subcommand in subcommands.items():
        yield from _command(
            subcommand, f"{line} {word}", known | shared, min(depth + 1, 5), printed
        )


def _table(rows: list[str]) -> str:
    return "\n".join(("| | default | meaning |", "|---|---|---|", *rows)) + "\n"


def _rows(command: Any) -> list[str]:
    """Return a row per argument and option of a command."""
    command.get_params(typer.Context(command))  # which makes them
    shown = [x for x in command.params if not getattr(x, "hidden", False)]
    shown.sort(key=lambda x: x.param_type_name != "argument")
    return [_row(x) for x in shown if not set(EVERYWHERE) & set(x.opts)]


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    name = _argument(parameter) if is_argument else _option(parameter)
    default = "required" if parameter.required else _default(parameter)
    text = _plain(parameter.help or "")
    if getattr(parameter, "multiple", False) and "repeat" not in text:
        text += " Repeatable."
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None or high is not None:
        ends = (("at least", low), ("at most", high))
        text += f" ({', '.join(f'{word} {end:g}' for word, end in ends if end is not None)})"
    if parameter.envvar:
        text += f" Also: `{parameter.envvar}`."
    return f"| `{_cell(name)}` | {_cell(default)} | {_cell(text)} |"


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
    """Yield commands as a block and sentences as text; a remark beside a command is a comment."""
    commands, sentences = list[str](), list[str]()
    for paragraph in _plain(epilog or "").removeprefix("Examples").strip().split("\n\n"):
        if re.match(r"(telic|claude) ", paragraph):
            line, *comment = re.split(r" {2,}", paragraph, maxsplit=1)
            line = " \\\n    ".join(line.splitlines())
            commands.append(f"{line}  # {comment[0]}" if comment else line)
        elif paragraph:
            sentences.append(paragraph)
    if commands:
        yield "\n".join(("```sh", *commands, "```")) + "\n"
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
