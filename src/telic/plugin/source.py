"""Read the one source that every host's files are made from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from telic.core.config import Record
from telic.errors import ConfigError

HERE = Path(__file__).parent
_FENCE = "---\n"


class HookEntry(Record):
    """A command that a host runs at an event."""

    event: str
    matcher: str | None = None
    command: str
    timeout_s: int


class Metadata(Record):
    """metadata.toml."""

    name: str
    display_name: str
    catalogue: str
    author: str
    license: str
    category: str
    description: str
    short_description: str
    long_description: str
    keywords: tuple[str, ...]
    capabilities: tuple[str, ...]
    prompts: tuple[str, ...]
    alias_prefix: str
    mcp_servers: dict[str, tuple[str, ...]]
    hooks: tuple[HookEntry, ...]


class Page(Record):
    """A skill or an agent: a name, what its front matter says, and its text."""

    name: str
    head: dict[str, str]
    text: str


class Source(Record):
    """Everything that the plugin is made from."""

    metadata: Metadata
    skills: tuple[Page, ...]
    agents: tuple[Page, ...]
    rules: str
    """what closes every skill of ours"""


def read_source(folder: Path = HERE) -> Source:
    """Return the source of the plugin."""
    return Source(
        metadata=Metadata.model_validate(tomllib.loads((folder / "metadata.toml").read_text())),
        skills=_pages(folder / "skills"),
        agents=_pages(folder / "agents"),
        rules=(folder / "rules.md").read_text(),
    )


def _pages(folder: Path) -> tuple[Page, ...]:
    return tuple(
        _page(path.stem, path.read_text(), str(path)) for path in sorted(folder.glob("*.md"))
    )


def _page(name: str, text: str, where: str) -> Page:
    head, body = split_front_matter(text, where)
    return Page(name=name, head=head, text=body)


def split_front_matter(text: str, where: str) -> tuple[dict[str, str], str]:
    """Return the front matter, plain `key: text` lines, and what follows it.

    Raises ConfigError. Only this much of YAML is used, so that all hosts read it alike.
    """
    start, fence, rest = text.partition(_FENCE)
    head, closing, body = rest.partition(f"\n{_FENCE}")
    if start or not fence or not closing:
        raise ConfigError(f"{where} does not begin with front matter between --- lines.")
    found: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key in found or key != key.strip() or not value.strip():
            raise ConfigError(f'{where}: "{line}" is not a `key: text` line of its own.')
        found[key] = value.strip()
    return found, body.lstrip("\n")


def read_front_matter(text: str, where: str) -> dict[str, str]:
    """Return the front matter of a page of the package, where values are quoted as in JSON."""
    head, _ = split_front_matter(text, where)
    try:
        return {key: value if key == "name" else json.loads(value) for key, value in head.items()}
    except ValueError as error:
        raise ConfigError(f"{where}: a value of the front matter is not quoted: {error}") from None
