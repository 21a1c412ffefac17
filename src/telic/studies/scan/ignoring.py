"""Which places that runs write to git does not ignore: after a run the tree would not be clean."""

from __future__ import annotations

from pathlib import Path

from telic.studies import git_read
from telic.studies.scan.records import OutputFinding, Sink

_VARIABLE = "{}*<>$%~"


def find_unignored(root: Path, outputs: OutputFinding, sinks: tuple[Sink, ...]) -> tuple[str, ...]:
    """Return folders and files that runs write to, as far as the text says, and git would show.

    Empty outside of git. What starts with a variable is not known and left out.
    """
    if not git_read.is_repository(root):
        return ()
    templates = (
        outputs.run_dir_template,
        outputs.checkpoint_glob,
        *(sink.path_template for sink in sinks),
    )
    places = dict.fromkeys(place for each in templates if each and (place := _fixed(each)))
    # asked for something inside, since a pattern such as logs/ speaks of folders only
    return tuple(place for place in places if not git_read.ignores(root, f"{place}/x"))


def _fixed(template: str) -> str | None:
    """Return the part of a path before its first variable; None when that is not in the tree."""
    if template.startswith(("/", "..")):
        return None
    parts: list[str] = []
    for part in template.removeprefix("./").rstrip("/").split("/"):
        if set(part) & set(_VARIABLE):
            break
        parts.append(part)
    return "/".join(parts) or None
