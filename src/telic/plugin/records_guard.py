"""Is somebody about to write where only telic writes: ledger, evidence, what runs left behind?

A look at the words alone: it keeps an agent from doing harm by mistake or by habit. What it cannot
see, hashes and seals find later (`telic study ledger verify`).
"""

from __future__ import annotations

import re

RECORDS = (
    "telic: {} is a record of a study, which only telic writes; an edit would void what it proves. "
    "Corrections are new entries: telic study note, or what `telic study next` names."
)
_RECORD = re.compile(
    r"[^\s'\"`;|&<>()]*"
    r"(?:ledger\.(?:jsonl|torn-\d+)"
    r"|\.telic/\S*?/(?:state\.json|(?:runs|evidence|audits|decisions|revisions|contract\.history)/)"
    r"[^\s'\"`;|&<>()]*)"
)
_INTO = re.compile(r"(?:>>?\|?|\btee\b(?:\s+-\w+)*)\s*['\"]?$")
_WRITERS = re.compile(
    r"(?:^|[\s;|&(/])(?:rm|mv|cp|ln|dd|shred|truncate|touch|install|rsync|unlink|chmod|chattr|patch"
    r"|vi|vim|nano|ed|ex|emacs)\b[^;|&\n]*$"
)
_IN_PLACE = re.compile(r"\b(?:sed|perl|ruby|gawk|yq)\b[^;|&\n]*\s-\w*i")
_CODE = re.compile(
    r"\bwrite(?:_text|_bytes|lines|FileSync)?\s*\(|\bopen\([^)]*['\"][rb]*[wax+]|\bunlink\b|\bdump\("
    r"|\brename\b|\breplace\(|\btruncate\b|\bto_csv\(|\bto_json\(|\brmtree\b|\bcopy(?:file|2)?\("
)
_HARMLESS_GIT = re.compile(r"\bgit\s+(?:-\S+\s+)*(?:add|commit|log|diff|show|status|ls-files)\b")


def record_in_path(path: str) -> str | None:
    """Return the record that a file is; None for any other file."""
    found = _RECORD.search(path)
    return found[0] if found else None


def written_record(line: str) -> str | None:
    """Return the record that a shell line would write to; None when it writes to none."""
    for found in _RECORD.finditer(line):
        before, name = line[: found.start()], found[0]
        command = re.split(r"[;|&\n]", before)[-1]
        if _INTO.search(before):
            return name
        if _HARMLESS_GIT.search(command):
            continue
        if _WRITERS.search(f" {command}") and not _only_copies_from(command, line, found.end()):
            return name
        if _IN_PLACE.search(command) or _CODE.search(line):
            return name
    return None


def _only_copies_from(command: str, line: str, end: int) -> bool:
    """Say whether a record is what is copied, and not where it is copied to."""
    rest = re.split(r"[;|&\n]", line[end:])[0].strip("'\" ")
    target = rest.split()[-1] if rest.split() else ""
    return bool(re.search(r"\bcp\b", command)) and bool(target) and record_in_path(target) is None
