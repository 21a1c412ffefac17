"""What a page of Markdown asks its reader to do: commands, blocks, and names of other pages."""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

from typer.exceptions import TyperException

_BLOCK = re.compile(r"^([ ]*)```(\w*)\n(.*?)^\1```\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SKILL = re.compile(r"(?:telic|rl)-[a-z]+(?:-[a-z]+)*")


class Block(NamedTuple):
    """A fenced block."""

    language: str
    lines: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [
        Block(language, tuple(line.strip() for line in body.splitlines() if line.strip()))
        for _, language, body in _BLOCK.findall(text)
    ]


def commands(text: str) -> list[str]:
    """Return the shell lines of a page: those in sh blocks, and telic commands in the prose."""
    shown = [line for block in blocks(text) if block.language == "sh" for line in block.lines]
    spans = _CODE.findall(_BLOCK.sub("", text))
    return shown + [span for span in spans if program_words(span)[:1] == ["telic"]]


def program_words(line: str) -> list[str]:
    """Return the words of a command without the variables set before it."""
    words = shlex.split(line)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    return words


def skills_named(text: str) -> set[str]:
    """Return the skills that a page sends its reader to."""
    return {span for span in _CODE.findall(_BLOCK.sub("", text)) if _SKILL.fullmatch(span)}


def links(text: str) -> list[str]:
    """Return the targets of the links of a page."""
    return _LINK.findall(text)


def complaint(words: list[str], tree: Any) -> str | None:
    """Return why `telic WORDS` would not be understood; None when it would.

    Args:
        words: what follows `telic`.
        tree: the app as a command tree, `typer.main.get_command(app)`.
    """
    names = ["telic"]
    while hasattr(tree, "commands"):
        if not words or words[0] not in tree.commands:
            return f"there is no command {' '.join([*names, *words[:1]])}"
        names.append(words[0])
        tree, words = tree.commands[words[0]], words[1:]
    try:
        tree.make_context(names[-1], list(words))
    except TyperException as error:
        return f"{' '.join(names)}: {error}"
    return None
