"""Hooks for coding agents. Each hook reads one JSON object and writes at most one.

`before-shell` denies shell commands that would bypass the launch gates or confirm on a person's
behalf, and edits of a study's records. It compares words of the command and protects agents from
mistakes only. The rules are enforced by gates, hashes and signatures (`telic verify`). Until a word
matches, only the standard library is imported, since the hook delays every shell command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from telic.core.text import is_dict, is_row, is_text
from telic.errors import TelicError
from telic.storage.reading import parse_json, read_text

GATE = (
    "telic: this would start training of a study without its launch gates. Run `telic study next` "
    "to print the command for the next allowed run."
)
LONG = "telic: this command is too long to check. Move parts of it to files."
UNKNOWN = "telic: this may start training, but the study's adapter cannot be read. {}"
PERSON = "telic: {} requires a person. Show them the command to run in their own terminal."
RECORDS = (
    "telic: {} is a study record that only telic may write. Editing it would invalidate the "
    "study. To make a correction, run `telic study next`."
)
_PERSONS = {"approve": "", "run": "--resume", "report": "--close"}
"""commands for people only, and the option that makes them so"""
_LONGEST = 65_536
"""maximum characters that are parsed, since a host allows a command if its hook takes too long"""
_MAX_DEPTH = 3
_READERS = re.compile(
    "awk|bat|black|cat|cd|chmod|code|cp|diff|du|echo|export|file|find|flake8|git|grep|head|isort|"
    "jq|less|ls|man|md5sum|mkdir|more|mv|mypy|nano|nl|pip|pre-commit|printf|pyright|pytest|rg|rm|"
    "ruff|sed|sha256sum|sort|stat|tail|tar|telic|test|touch|tree|type|uniq|vi|vim|wc|which|"
    "\\w+_compile"
)
"""programs, and modules after `python -m`, that do not execute the files that they are given"""
_WORD = re.compile(r"[^\s`;|&<>()'\"]+")
_LEDGER = re.compile(r"ledger\.(?:jsonl|torn-\d+)")
_FOLDERS = re.compile(r"/(?:runs|evidence|audits|decisions|revisions|contract\.history)/")
_WRITERS = re.compile(
    r"(?:^|[\s(/])(?:rm|mv|ln|dd|shred|tee|truncate|touch|rsync|unlink|patch|vi|vim|nano"
    r"|(?:sed|perl)\s(?:-\w+\s)*-\w*i\S*)\s"
    r"|\b(?:write\w*|to_\w+)\(|\bopen\([^)]{,400}['\"][rb]*[wax+]"
)
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)")


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
    record = next(filter(_is_record, files), None)
    asked, cwd = tool.get("command"), event.get("cwd")
    line = "\n".join(map(str, asked)) if is_row(asked) else str(asked or "")
    here = Path(cwd) if isinstance(cwd, str) and is_text(cwd) else Path()
    reason = RECORDS.format(record) if record else shell_refusal(line, here)
    if reason is None:
        return None
    denial = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    return {"hookSpecificOutput": {**denial, "permissionDecisionReason": reason}}


Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell}


def shell_refusal(line: str, here: Path) -> str | None:
    """Return the reason why a shell line is denied, or None if it is allowed."""
    folders = (here, *here.absolute().parents)
    root = next((each for each in folders if os.path.isdir(each / ".telic")), None)
    if root is None:
        return None
    if len(line) > _LONGEST:
        return LONG
    if record := written_record(line):
        return RECORDS.format(record)
    found = list(commands(line))
    for words in found:
        for place, word in enumerate(words[:-2] if "--help" not in words else ()):
            if word.rsplit("/", 1)[-1] == "telic" and words[place + 1] == "study":
                command, option = words[place + 2], _PERSONS.get(words[place + 2])
                if option is not None and (not option or option in words):
                    return PERSON.format(f"telic study {command} {option}".strip())
    found = [words for words in found if not _only_reads(words)]
    # Searching the adapter for words of the commands is cheaper than parsing it.
    named = {stem for words in found for word in words for stem in re.findall(r"\w+", word)}
    named -= {"py", "sh", "python", "python3"}
    for path in (root / ".telic" / "tasks").glob("*/adapter.yaml"):
        if not named & set(re.findall(r"\w+", read_text(path, errors="replace"))):
            continue
        try:
            training = _training_commands(path)
        except TelicError as error:
            return UNKNOWN.format(error)
        if any(_is_launch(words, argv) for words in found for argv in training):
            return GATE
    return None


def written_record(line: str) -> str | None:
    """Return the study record that a shell line would write to, or None."""
    for command in re.split(r"(?<!>)\||[;&]|\n(?!.*['\"(])", line):
        for record in _WORD.finditer(command):
            if not _is_record(record[0]):
                continue
            before = command[: record.start()].rstrip(" '\"")
            is_copied = re.search(r"\bcp\s", before) and not command[record.end() :].strip(" '\"")
            if before.endswith(">") or is_copied or _WRITERS.search(command):
                return record[0]
    return None


def _is_record(path: str) -> bool:
    inside = path.partition(".telic/")[2]
    return bool(_LEDGER.search(path) or _FOLDERS.search(inside))


def commands(line: str, depth: int = 0) -> Iterator[list[str]]:
    """Yield the words of every command in a shell line, including quoted and substituted lines."""
    lines, shell = iter(line.replace("\\\n", " ").split("\n")), ""
    for each in lines:
        shell += re.sub(r"(?:^|\s)#.*", "", each) + "\n"
        if document := _HEREDOC.search(each):
            next((end for end in lines if end.strip() == document[1]), None)
    lexer = shlex.shlex(shell, posix=True, punctuation_chars="();<>|&\n`")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        words = list(lexer)
    except ValueError:  # unclosed quote: fall back to whitespace-separated words
        words = re.findall(r"[();<>|&\n`]|[^\s\"'();<>|&`]+", shell)
    command: list[str] = []
    for word in [*words, ";"]:
        if not set(word) <= set("();|&\n`"):
            if command or not re.match(r"\w+=", word):
                command.append(word)
            continue
        if not command:
            continue
        yield command
        for quoted in command if depth < _MAX_DEPTH and not _only_reads(command) else ():
            if re.search(r"\s", quoted):
                yield from commands(quoted, depth + 1)
        command = []


def _only_reads(words: list[str]) -> bool:
    name = words[0].rsplit("/", 1)[-1]
    if name.startswith("python"):
        name = next((after for word, after in pairwise(words) if word == "-m"), name)
    return _READERS.fullmatch(name) is not None


def _training_commands(adapter: Path) -> list[list[str]]:
    # Avoids documents.base, which takes longer to import than all of this.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        data: Any = yaml.load(read_text(adapter, errors="replace"))
        specs = [data["commands"][name] for name in ("train", "smoke", "resume")]
        return [list(map(str, spec["argv"])) for spec in specs if spec]
    except (YAMLError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise TelicError(f"{adapter} cannot be read: {error}") from None


def _is_launch(words: list[str], argv: list[str]) -> bool:
    """Return whether a command names the script, module or program of a training command.

    A command that has subcommands, such as `walker train`, must also name the same one.
    """
    fixed = [word for word in argv if "{" not in word]
    scripts = (i for i, word in enumerate(fixed) if word.endswith((".py", ".sh")))
    modules = (i + 1 for i, word in enumerate(fixed[:-1]) if word == "-m")
    place = min((*scripts, *modules), default=0)
    if not fixed or (place == 0 and fixed[0].startswith("python")):
        return False
    target, verbs = (
        _dotted(fixed[place]),
        {word for word in fixed[place + 1 :] if word.isidentifier()},
    )
    for before, word in pairwise(["", *words]):
        is_named = word.endswith((".py", ".sh")) or before in ("-m", "import", "from")
        name = _dotted(word)
        is_same = name == target or name.endswith("." + target) or target.endswith("." + name)
        if (is_named or place == 0) and is_same:
            return place > 0 or not verbs or bool(verbs & set(words))
    return False


def _dotted(name: str) -> str:
    return name.removesuffix(".py").removeprefix("./").replace("/", ".")
