"""Problems of the committed package."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from typer.exceptions import TyperException

from telic.errors import ConfigError
from telic.plugin.hooks import HOOKS
from telic.plugin.package import HOME, split_front_matter

_CATALOGUES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")

_BLOCK = re.compile(r"^([ ]*)```(\w*)\n(.*?)^\1```\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SKILL = re.compile(r"telic-[a-z]+(?:-[a-z]+)*")
LAUNCHING_SKILL = "telic-run"
_PROGRAMS = ("telic", "sha256sum")
_LANGUAGES = ("sh", "yaml", "json", "text")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_HEADS = {"skills": {"name", "description"}, "agents": {"name", "description", "tools"}}
"""what every host accepts; more would be refused by one of them"""
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_PROMPT = 64, 1024, 128
_MOST_LINES, _MOST_PROMPTS = 80, 3


def problems(root: Path, tree: Any) -> list[str]:
    """Return what is wrong with the package below a folder; empty when nothing is.

    Args:
        root: folder that holds the catalogues.
        tree: the whole command line, against which the commands in the pages are held.
    """
    home = root / HOME
    return [
        *_manifest_problems(root),
        *_file_problems(home),
        *_wiring_problems(home, tree),
        *(
            problem
            for path in sorted(home.rglob("*.md"))
            for problem in _page_problems(path, home, tree)
        ),
    ]


def _manifest_problems(root: Path) -> list[str]:
    hosts = [_json(root / HOME / f".{host}-plugin" / "plugin.json") for host in ("claude", "codex")]
    entries = [entry for name in _CATALOGUES for entry in _json(root / name)["plugins"]]
    problems: list[str] = []
    if len({entry["name"] for entry in [*hosts, *entries]}) > 1:
        problems.append("manifests and catalogues disagree on the name")
    versions = {entry["version"] for entry in [*hosts, *entries] if "version" in entry}
    if len(versions) > 1 or not all(_VERSION.fullmatch(version) for version in versions):
        problems.append(f"manifests disagree on the version, or it is not x.y.z: {versions}")
    for entry in entries:
        source = entry["source"] if isinstance(entry["source"], str) else entry["source"]["path"]
        if not source.startswith("./") or ".." in source or not (root / source).is_dir():
            problems.append(f"the catalogue's {source} is no folder beside it")
    prompts = hosts[1]["interface"]["defaultPrompt"]
    if len(prompts) > _MOST_PROMPTS or max(map(len, prompts)) > _LONGEST_PROMPT:
        problems.append(f"at most {_MOST_PROMPTS} prompts of {_LONGEST_PROMPT} characters")
    return problems


def _file_problems(home: Path) -> list[str]:
    """Text only: nothing in the package can be executed by itself."""
    return [
        f"{path.relative_to(home)}: only plain Markdown and JSON files belong into the package"
        for path in sorted(home.rglob("*"))
        if path.is_symlink()
        or (path.is_file() and (path.suffix not in (".md", ".json") or path.stat().st_mode & 0o111))
    ]


def _wiring_problems(home: Path, tree: Any) -> list[str]:
    problems: list[str] = []
    for entries in _json(home / "hooks" / "hooks.json")["hooks"].values():
        for line in (hook["command"] for entry in entries for hook in entry["hooks"]):
            words = program_words(line)
            if words[:3] != ["telic", "plugin", "hook"] or words[3:] not in [[x] for x in HOOKS]:
                problems.append(f"hooks.json: {line} is not one of our hooks")
    for name, server in _json(home / ".mcp.json")["mcpServers"].items():
        why = complaint(server["args"], tree) if server["command"] == "telic" else "not telic"
        if why is None and "--allow-launch" in server["args"]:
            why = "whether a server may launch is for the person to say"
        if why:
            problems.append(f".mcp.json: {name}: {why}")
    return problems


def _page_problems(path: Path, home: Path, tree: Any) -> list[str]:
    where, text = path.relative_to(home).as_posix(), path.read_text()
    name = path.parent.name if path.name == "SKILL.md" else path.stem
    problems = [*_head_problems(text, name, where)]
    if path.name == "SKILL.md" and text.count("\n") >= _MOST_LINES:
        problems.append(f"a skill has fewer than {_MOST_LINES} lines")
    problems += [f"there is no {link}" for link in links(text) if not (path.parent / link).exists()]
    problems += [
        f"there is no skill {skill}"
        for skill in sorted(skills_named(text))
        if not (home / "skills" / skill / "SKILL.md").is_file()
    ]
    for block in blocks(text):
        if block.language not in _LANGUAGES:
            problems.append(f"a block of {block.language or 'no language'} could be run")
    for line in commands(text):
        problems += [f"{line}: {why}" for why in _command_problems(line, name, tree)]
    return [f"{where}: {problem}" for problem in problems]


def _head_problems(text: str, name: str, where: str) -> list[str]:
    try:
        head, _ = split_front_matter(text, where)
    except ConfigError as error:
        return [str(error)]
    problems: list[str] = []
    if head.get("name") != name or not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        problems.append(f"name: {head.get('name')} is not its folder's, {name}")
    if not 0 < len(head.get("description", "")) <= _LONGEST_DESCRIPTION:
        problems.append(f"it needs a description of at most {_LONGEST_DESCRIPTION} characters")
    if unknown := set(head) - _HEADS[where.partition("/")[0]]:
        problems.append(f"not every host knows {', '.join(sorted(unknown))}")
    return problems


def _command_problems(line: str, page: str, tree: Any) -> list[str]:
    words = program_words(line)
    if {"&&", "||", "|", ";", "&"} & set(words) or words[0] not in _PROGRAMS:
        return [f"pages show one command at a time, of {' or '.join(_PROGRAMS)}"]
    if words[0] != "telic":
        return []
    if words[1:2] not in (["study"], ["plugin"], ["verify"]):  # verify only reads
        return ["only commands of telic study lead to runs, through its gate"]
    why = complaint(words[1:], tree)
    problems = [] if why is None else [why]
    if {"--confirm", "--smoke", "--stop"} & set(words) and page != LAUNCHING_SKILL:
        problems.append(f"only {LAUNCHING_SKILL} leads to a launch")
    if "--confirm" in words and "--confirm RUN_CANDIDATE" not in " ".join(words):
        problems.append("a launch is written --confirm RUN_CANDIDATE")
    return problems


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


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
