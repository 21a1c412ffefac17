"""Hook for coding agents, which reads one JSON object and writes at most one.

`before-shell` denies edits of a study's records, by an editor or by a shell command. It compares
words of the command and protects agents from mistakes only: an edited record invalidates its study.
The rules are enforced by gates, hashes and signatures (`telic verify`). Only light modules are
imported, since the hook delays every shell command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from telic.core.text import is_dict, is_row
from telic.errors import TelicError
from telic.storage.reading import parse_json

LONG = "telic: this command is too long to check. Move parts of it to files."
RECORDS = (
    "telic: {} is a study record that only telic may write. Editing it would invalidate the "
    "study. To make a correction, run `telic study next`."
)
_LONGEST = 65_536
"""maximum characters that are parsed, since a host allows a command if its hook takes too long"""
_WORD = re.compile(r"[^\s`;|&<>()'\"]+")
_LEDGER = re.compile(r"ledger\.(?:jsonl|torn-\d+)")
_FOLDERS = re.compile(r"/(?:runs|evidence|audits|decisions|revisions|contract\.history)/")
_WRITERS = re.compile(
    r"(?:^|[\s(/])(?:rm|mv|ln|dd|shred|tee|truncate|touch|rsync|unlink|patch|vi|vim|nano"
    r"|(?:sed|perl)\s(?:-\w+\s)*-\w*i\S*)\s"
    r"|\b(?:write\w*|to_\w+)\(|\bopen\([^)]{,400}['\"][rb]*[wax+]"
)


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

    The event contains either tool_input.command (text or words) or the edited file.
    """
    given = event.get("tool_input")
    tool: dict[str, Any] = given if is_dict(given) else {}
    files = [str(tool[key]) for key in ("file_path", "notebook_path", "path") if tool.get(key)]
    patch = str(tool.get("input", ""))
    files += re.findall(r"^\*\*\* (?:Update|Delete|Add) File: (.+)$", patch, re.M)
    record = next(filter(_is_record, files), None)
    asked = tool.get("command")
    line = "\n".join(map(str, asked)) if is_row(asked) else str(asked or "")
    is_long = len(line) > _LONGEST and ".telic" in line
    record = record or (None if is_long else written_record(line))
    reason = LONG if is_long else RECORDS.format(record) if record else None
    if reason is None:
        return None
    denial = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    return {"hookSpecificOutput": {**denial, "permissionDecisionReason": reason}}


Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell}


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
