"""Hooks for coding agents. Each hook reads one JSON object and writes at most one.

`before-shell` denies shell commands that would bypass the launch gates or confirm on a person's
behalf, and edits of a study's records. It only parses text to protect agents from mistakes. The
rules are enforced by gates, hashes and signatures (`telic verify`). Until a match, only the
standard library is imported, since the hook delays every shell command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from telic.core.text import is_dict, is_row, is_text
from telic.errors import TelicError
from telic.storage.reading import parse_json, read_text

GATE = (
    "telic: this would start training of a study without its launch gates. Run `telic study next`, "
    "which prints the command of the next allowed run."
)
LONG = "telic: this command is too long to be checked. Write its parts to files."
UNKNOWN = "telic: this may start training, but the study's adapter cannot be read. {}"
PERSON = "telic: {} requires a person. Show them the command to run in their own terminal."
RECORDS = (
    "telic: {} is a record of a study, which only telic may write. An edit would invalidate the "
    "study. To make a correction, run `telic study next`."
)
_PERSONS = {"approve": "", "run": "--resume", "report": "--close"}
"""commands for people only, and the option that makes them so"""
_MAX_SCRIPT = 65_536
_MAX_ADAPTER = 16_384
"""maximum characters that are parsed, since a host allows a command if its hook takes too long"""
_MAX_DEPTH = 3


def answer(name: str, text: str) -> str:
    """Return a hook's response to an event, or "" if there is none.

    Raises TelicError but not UsageError, because coding agents read exit code 2 as a denial.
    """
    try:
        event = parse_json(text, "The event")
    except TelicError:
        event = None
    if not isinstance(event, dict):
        raise TelicError("A hook reads one JSON object from standard input.")
    found = HOOKS[name](cast("dict[str, Any]", event))
    return "" if found is None else json.dumps(found) + "\n"


def before_shell(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the response that denies a shell command or an edit, or None to allow it.

    The event contains cwd and either tool_input.command (text or words) or the edited file.
    """
    given = event.get("tool_input")
    tool: dict[str, Any] = given if is_dict(given) else {}
    files = [str(tool[key]) for key in ("file_path", "notebook_path", "path") if tool.get(key)]
    patch = str(tool.get("input", ""))
    files += re.findall(r"^\*\*\* (?:Update|Delete|Add) File: (.+)$", patch, re.M)
    record = next((found for found in map(record_in_path, files) if found), None)
    asked = tool.get("command")
    line = "\n".join(map(str, asked)) if is_row(asked) else str(asked or "")
    reason = RECORDS.format(record) if record else shell_refusal(line, _folder(event))
    if reason is None:
        return None
    denial = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    return {"hookSpecificOutput": {**denial, "permissionDecisionReason": reason}}


Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell}


def shell_refusal(line: str, here: Path) -> str | None:
    """Return the reason why a shell line is denied, or None if it is allowed."""
    root = study_root(here)
    if root is None:
        return None
    try:
        commands = list(_all_commands(line, here, [_MAX_SCRIPT]))
    except (OverflowError, RecursionError):
        return LONG
    if record := written_record(line):
        return RECORDS.format(record)
    for words in commands:
        for place, word in enumerate(words[:-2] if "--help" not in words else ()):
            if word.rsplit("/", 1)[-1] == "telic" and words[place + 1] == "study":
                command, option = words[place + 2], _PERSONS.get(words[place + 2])
                if option is not None and (not option or option in words):
                    return PERSON.format(f"telic study {command} {option}".strip())
    commands = [words for words in commands if not _only_reads(words)]
    # Searching the adapter for words of the commands is cheaper than parsing it.
    named = {stem for words in commands for word in words for stem in re.findall(r"\w+", word)}
    named = {stem for stem in named if stem not in ("py", "sh") and not stem.startswith("python")}
    adapters = list((root / ".telic" / "tasks").glob("*/adapter.yaml"))
    texts = (read_text(path, errors="replace") for path in adapters)
    if not any(named & set(re.findall(r"\w+", text)) for text in texts):
        return None
    try:
        starts = [start for path in adapters for start in _read_adapter(path)]
    except TelicError as error:
        return UNKNOWN.format(error)
    is_launch = any(_is_launch(words, start, starts) for words in commands for start in starts)
    return GATE if is_launch else None


def study_root(here: Path) -> Path | None:
    """Return the nearest ancestor folder that contains studies."""
    return next(
        (each for each in (here, *here.absolute().parents) if os.path.isdir(each / ".telic")),
        None,
    )


def _folder(event: dict[str, Any]) -> Path:
    """Return the working directory of the event."""
    given = event.get("cwd")
    return Path(given) if isinstance(given, str) and is_text(given) else Path()


# ---------------------------------------------------------------------------- the adapter

_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_SECTION = re.compile(r"^commands:\s*\n(?:[ \t#].*\n?|\n)*", re.MULTILINE)


class _Start(NamedTuple):
    """Command of an adapter that starts training."""

    trains: bool
    target: str
    """script, dotted module name or installed command"""
    words: frozenset[str]
    """fixed words that follow it"""


def _read_adapter(adapter: Path) -> Iterator[_Start]:
    """Yield the commands of an adapter, parsing only that section for speed.

    Raises TelicError if the adapter is not valid YAML.
    """
    # Avoids documents.base, which takes longer to import than all of this.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = read_text(adapter, errors="replace")
    section = _SECTION.search(text)
    if len(text := section[0] if section else text) > _MAX_ADAPTER:
        raise TelicError(f"{adapter} cannot be read: its commands have {len(text)} characters.")
    try:
        yaml: Any = YAML(typ="safe", pure=True)
        data: Any = yaml.load(text) or {}
    except (YAMLError, ValueError, RecursionError) as error:
        raise TelicError(f"{adapter} cannot be read: {error}") from None
    commands: Any = data.get("commands") if is_dict(data) else None
    for name, spec in commands.items() if is_dict(commands) else [("", 0)]:
        argv = spec.get("argv") if is_dict(spec) else spec
        if argv is None:
            continue
        if not is_row(argv) or not all(isinstance(word, str) for word in argv):
            raise TelicError(f"{adapter} cannot be read: its commands must be lists of words.")
        words = [word for word in argv if not _PLACEHOLDER.search(word)]
        # The script, or else the module after -m, or else the program.
        script = next((i for i, word in enumerate(words) if word.endswith((".py", ".sh"))), None)
        module = next((i + 1 for i, word in enumerate(words[:-1]) if word == "-m"), None)
        if module is not None and words[module].startswith("torch."):
            module = None
        place = min((i for i in (script, module) if i is not None), default=0)
        if place or (words and not words[0].startswith("python")):
            trains = name in ("train", "smoke", "resume")
            yield _Start(trains, words[place], frozenset(words[place + 1 :]))


def _is_launch(words: list[str], start: _Start, starts: list[_Start]) -> bool:
    """Return whether a command starts training and does not use the training script otherwise."""
    if not start.trains or not _names(words, start.target):
        return False
    for other in starts:  # e.g. evaluation with a script that also trains
        own = other.words - start.words
        if not other.trains and other.target == start.target and own and own <= set(words):
            return False
    verbs = {word for word in start.words if word.isidentifier()}
    return "." in start.target or not verbs or bool(verbs & set(words))


def _names(words: list[str], target: str) -> bool:
    dotted = target.removesuffix(".py").removeprefix("./").replace("/", ".")
    stem = re.escape(dotted.rsplit(".", 1)[-1])
    for before, word in pairwise(["", *words]):
        one, two, joint = str(PurePosixPath(word)), str(PurePosixPath(target)), "/"
        if before == "-m":
            one, two, joint = word.removesuffix(".py").replace("/", "."), dotted, "."
        if one == two or one.endswith(joint + two) or two.endswith(joint + one):
            return True
        for statement in re.split(r"[;\n]", word) if before == "-c" else ():
            imports = re.search(r"\b(?:import|from)\b", statement)
            if imports and re.search(rf"\b{stem}\b", statement[imports.end() :]):
                return True
            if re.search(rf"\b{stem}\.py\b", statement):
                return True
    return False


# ---------------------------------------------------------------------------- the shell

_BREAKS = "();<>|&\n`"
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(.*)")
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_READERS = re.compile(
    "awk|bat|black|cat|cd|chmod|code|cp|diff|du|echo|export|file|find|flake8|git|grep|head|isort|"
    "jq|less|ls|man|md5sum|mkdir|more|mv|mypy|nano|nl|pip|pre-commit|printf|pyright|rg|rm|ruff|sed|"
    "sha256sum|sort|stat|tail|tar|telic|test|touch|tree|type|uniq|vi|vim|wc|which"
)
_READING_MODULES = re.compile(
    "ast|black|compileall|dis|flake8|isort|mypy|py_compile|pyright|pytest|ruff|tokenize"
)


def _program(words: list[str]) -> str:
    return words[0].rsplit("/", 1)[-1] if words else ""


def _only_reads(words: list[str]) -> bool:
    name = _program(words)
    if (name == "find" and "-exec" in words) or (name == "git" and "bisect" in words):
        return False
    if _READERS.fullmatch(name):
        return True
    module = next((after for word, after in pairwise(words) if word == "-m"), "")
    return name.startswith("python") and _READING_MODULES.fullmatch(module) is not None


def _all_commands(line: str, here: Path, left: list[int], depth: int = 0) -> Iterator[list[str]]:
    """Yield the commands of a line, including quoted lines and the shell scripts that it runs.

    Raises OverflowError if the commands exceed `left`, because hosts ignore slow hooks.
    """
    left[0] -= len(line)
    if left[0] < 0:
        raise OverflowError
    commands, inside = simple_commands(line)
    for text in inside:
        yield from _all_commands(text, here, left, depth)
    for words in commands:
        yield words
        for word in words if depth < _MAX_DEPTH and not _only_reads(words) else ():
            if re.search(r"\s", word):
                yield from _all_commands(word, here, left, depth + 1)
            elif word.endswith(".sh") or _program(words) in _SHELLS:
                try:
                    script = read_text(here / word, _MAX_SCRIPT, errors="replace")
                except TelicError:
                    continue
                yield from _all_commands(script, here, left, depth + 1)


def simple_commands(line: str) -> tuple[list[list[str]], list[str]]:
    """Return the words of every command in a shell line, and the lines inside $(...)."""
    text, fed = _without_documents(line.replace("\\\n", " "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_BREAKS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = list(lexer)
    except ValueError:  # unclosed quote: fall back to whitespace-separated words
        words = re.findall(rf"[{re.escape(_BREAKS)}]|[^\s\"'{re.escape(_BREAKS)}]+", text)
    commands: list[list[str]] = [[]]
    is_comment = is_file = False
    for word in words:
        fed += [inner for pair in _SUBSTITUTION.findall(word) for inner in pair if inner]
        if word and all(letter in _BREAKS for letter in word):
            is_comment = is_comment and "\n" not in word
            is_file = set(word) <= {"<", ">", "&"} and word not in ("&", "&&")
            if not is_file:
                commands.append([])
        elif is_file:
            is_file = False  # a redirection, not part of the command
        elif is_comment or word.startswith("#"):
            is_comment = True
        elif commands[-1] or not _ASSIGNMENT.fullmatch(word):
            commands[-1].append(word)
    return [command for command in commands if command], fed


def _without_documents(text: str) -> tuple[str, list[str]]:
    """Remove the here-documents from a text, and also return those that a shell executes."""
    lines, kept, fed = text.split("\n"), list[str](), list[str]()
    last = {line.strip(): place for place, line in enumerate(lines)}
    start = 0
    while start < len(lines):
        line, found = lines[start], _HEREDOC.search(lines[start])
        start += 1
        if found and last.get(found[2], 0) >= start:
            end = next(i for i in range(start, len(lines)) if lines[i].strip() == found[2])
            line = line[: found.start()] + found[3]
            if set(re.findall(r"\w+", line)) & _SHELLS:
                fed.append("\n".join(lines[start:end]))
            start = end + 1
        kept.append(line)
    return "\n".join(kept), fed


# ---------------------------------------------------------------------------- records

# Each expression takes linear time, since a host ignores a hook that takes too long.
_WORD = re.compile(r"[^\s`;|&<>()]+")
_LEDGER = re.compile(r"ledger\.(?:jsonl|torn-\d+)")
_FOLDERS = re.compile(r"/(?:runs|evidence|audits|decisions|revisions|contract\.history)/")
_ENDS = re.compile(r"(?<!>)\||[;&\n]")
_WRITERS = re.compile(
    r"(?:^|[\s(/])(?:rm|mv|cp|ln|dd|shred|tee|truncate|touch|install|rsync|unlink|chmod|chattr|patch"
    r"|vi|vim|nano|ed|ex|emacs)\b"
)
_EDITORS = re.compile(r"\b(?:sed|perl|ruby|gawk|yq)\b")
_CODE = re.compile(
    r"\bwrite(?:_text|_bytes|lines|FileSync)?\s*\(|\bunlink\b|\bdump\("
    r"|\brename\b|\breplace\(|\btruncate\b|\bto_csv\(|\bto_json\(|\brmtree\b|\bcopy(?:file|2)?\("
)
_HARMLESS_GIT = re.compile(r"\bgit\s+(?:-\S+\s+)*(?:add|commit|log|diff|show|status|ls-files)\b")


def record_in_path(path: str) -> str | None:
    """Return the path of a study record, or None for other files."""
    _, _, inside = path.partition(".telic/")
    return path if _LEDGER.search(path) or _FOLDERS.search(inside) else None


def written_record(line: str) -> str | None:
    """Return the study record that a shell line would write to, or None."""
    calls = [call.partition(")")[0] for call in re.split(r"\bopen\(", line)[1:]]
    is_code = _CODE.search(line) or any(re.search(r"['\"][rb]*[wax+]", call) for call in calls)
    for command in _ENDS.split(line):
        words = list(_WORD.finditer(command))
        places = [word for word in words if record_in_path(word[0])]
        if not places:
            continue
        starts = [command[: place.start()].rstrip("| \t") for place in places]
        before, name = command[: places[-1].start()], places[-1][0].strip("'\"")
        is_copied = re.search(r"\bcp\b", before) and words[-1] is not places[-1]
        editor = _EDITORS.search(before)
        is_edited = editor and re.search(r"\s-\w*i", before[editor.end() :])
        is_written = is_code or is_edited or (_WRITERS.search(before) and not is_copied)
        if any(start.endswith(">") for start in starts):
            return name
        if is_written and not _HARMLESS_GIT.search(before):
            return name
    return None
