"""Plugin files for all coding agents: the folder `files`, with the version of telic inserted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from telic import __version__
from telic.errors import ConfigError, Refused
from telic.storage.files import read_fields, write_text

HOME = "plugins/telic"
_FILES = Path(__file__).parent / "files"
_FENCE = "---\n"


class Skill(NamedTuple):
    """Skill in the plugin."""

    name: str
    description: str
    text: str


def package_files() -> dict[str, str]:
    """Return the text of every plugin file by its path relative to the catalogue root."""
    return {
        path.relative_to(_FILES).as_posix(): path.read_text().replace("@VERSION@", __version__)
        for path in sorted(_FILES.rglob("*"))
        if path.is_file()
    }


def read_skills() -> Iterator[Skill]:
    """Yield every skill without the note that names its source file."""
    for name, text in package_files().items():
        if name.endswith("/SKILL.md"):
            head, body = split_front_matter(text, name)
            yield Skill(head["name"], head["description"], body.partition("-->\n\n")[2])


def split_front_matter(text: str, where: str) -> tuple[dict[str, str], str]:
    """Split a page into front matter (`key: "text"` lines after `name: NAME`) and body.

    Raises ConfigError. The format is a minimal subset of YAML that all coding agents parse alike.
    """
    start, fence, rest = text.partition(_FENCE)
    head, closing, body = rest.partition(f"\n{_FENCE}")
    if start or not fence or not closing:
        raise ConfigError(f"{where} does not begin with front matter between --- lines.")
    values: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        try:
            values[key] = value if colon and key == "name" else json.loads(value)
        except ValueError:
            raise ConfigError(f'{where}: "{line}" is not a `key: "text"` line.') from None
    return values, body.lstrip("\n")


def write_package(root: Path) -> list[str]:
    """Write the plugin to a folder and return the written and removed files.

    Raises Refused if this would replace a catalogue of other plugins.
    """
    changed, files = differences(root), package_files()
    for path in (root / name for name in changed if not name.startswith(HOME)):
        if path.is_file() and read_fields(path, name=str | None)["name"] != "telic":
            raise Refused(f"{path} lists other plugins.", hint=f"Add {HOME} to it, or use --root.")
    for name in changed:
        if name in files:
            write_text(root / name, files[name])
        else:
            (root / name).unlink()
    return changed


def differences(root: Path) -> list[str]:
    """Return the changed, missing or extra files of a plugin folder.

    Raises Refused for links, because files below them would be replaced and deleted.
    """
    files = package_files()
    for path in (root / name for name in (HOME, *files)):
        if path.resolve() != root.resolve() / path.relative_to(root):
            raise Refused(f"{path} is behind a link.", hint="Replace the link with a folder.")
    present = {
        path.relative_to(root).as_posix()
        for path in (root / HOME).rglob("*")
        if path.is_file() or path.is_symlink()
    }
    stale = {
        name
        for name, text in files.items()
        if not (root / name).is_file() or (root / name).read_text() != text
    }
    return sorted(stale | (present - set(files)))
