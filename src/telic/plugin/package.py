"""Make every file of the plugin from one source, and say where a folder differs from it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telic import __version__
from telic.core.config import Record
from telic.errors import ConfigError
from telic.storage.files import write_text

HERE = Path(__file__).parent
_FENCE = "---\n"
HOME = "plugins/telic"
CATALOGUES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
_MADE = "<!-- Made by `telic plugin build` from src/telic/plugin/{}; edit it there. -->"


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
    mcp_servers: dict[str, tuple[str, ...]]
    hooks: tuple[HookEntry, ...]


class Page(Record):
    """A skill or an agent: a name, what its front matter says, and its text."""

    name: str
    head: dict[str, str]
    text: str


class PluginSource(Record):
    """Everything that the plugin is made from."""

    metadata: Metadata
    skills: tuple[Page, ...]
    agents: tuple[Page, ...]
    rules: str
    """what closes every skill of ours"""


def read_source(folder: Path = HERE) -> PluginSource:
    """Return the source of the plugin."""
    return PluginSource(
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
    values: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key in values or key != key.strip() or not value.strip():
            raise ConfigError(f'{where}: "{line}" is not a `key: text` line of its own.')
        values[key] = value.strip()
    return values, body.lstrip("\n")


def package_files(source: PluginSource | None = None) -> dict[str, str]:
    """Return every file of the plugin: path below the root of the catalogue to its text."""
    source = source or read_source()
    files = {
        CATALOGUES[0]: _json(_claude_catalogue(source)),
        CATALOGUES[1]: _json(_codex_catalogue(source)),
        f"{HOME}/.claude-plugin/plugin.json": _json(_claude_manifest(source)),
        f"{HOME}/.codex-plugin/plugin.json": _json(_codex_manifest(source)),
        f"{HOME}/hooks/hooks.json": _json(_hooks(source)),
        f"{HOME}/.mcp.json": _json(_mcp_servers(source)),
    }
    for page in source.skills:
        files[f"{HOME}/skills/{page.name}/SKILL.md"] = _skill(page, source)
    for page in source.agents:
        files[f"{HOME}/agents/{page.name}.md"] = _written(page.head, page.text, page, "agents")
    return files


def write_package(root: Path) -> list[str]:
    """Write the plugin below a folder; returns what was written or removed."""
    changed = differences(root)
    files = package_files()
    for name in changed:
        path = root / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, files[name])
        else:
            path.unlink()
    return changed


def differences(root: Path) -> list[str]:
    """Return the files that are not what the source makes: changed, missing or too many."""
    files = package_files()
    present = {
        path.relative_to(root).as_posix()
        for path in (root / HOME).rglob("*")
        if path.is_file() or path.is_symlink()
    }
    stale = [
        name
        for name, text in files.items()
        if not (root / name).is_file() or (root / name).read_text() != text
    ]
    return sorted({*stale, *(present - set(files))})


def _skill(page: Page, source: PluginSource) -> str:
    return _written(page.head, f"{page.text.rstrip()}\n\n{source.rules}", page, "skills")


def _written(head: Mapping[str, str], text: str, page: Page, folder: str) -> str:
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    note = _MADE.format(f"{folder}/{page.name}.md")
    return "\n".join(["---", f"name: {page.name}", *lines, "---", "", note, "", text])


def _claude_catalogue(source: PluginSource) -> dict[str, Any]:
    data = source.metadata
    entry = {"name": data.name, "source": f"./{HOME}", "description": data.description}
    return {
        "name": data.catalogue,
        "description": data.short_description,
        "owner": {"name": data.author},
        "plugins": [{**entry, "version": __version__, "category": data.category}],
    }


def _codex_catalogue(source: PluginSource) -> dict[str, Any]:
    data = source.metadata
    return {
        "name": data.catalogue,
        "interface": {"displayName": data.display_name},
        "plugins": [
            {
                "name": data.name,
                "source": {"source": "local", "path": f"./{HOME}"},
                "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                "category": data.category,
            }
        ],
    }


def _claude_manifest(source: PluginSource) -> dict[str, Any]:
    data = source.metadata
    return {
        "name": data.name,
        "version": __version__,
        "description": data.description,
        "author": {"name": data.author},
        "license": data.license,
        "keywords": list(data.keywords),
    }


def _codex_manifest(source: PluginSource) -> dict[str, Any]:
    # Hooks are found by their usual place; the manifest may not name them.
    data = source.metadata
    return {
        **_claude_manifest(source),
        "skills": "./skills/",
        "mcpServers": "./.mcp.json",
        "interface": {
            "displayName": data.display_name,
            "shortDescription": data.short_description,
            "longDescription": data.long_description,
            "developerName": data.author,
            "category": data.category,
            "capabilities": list(data.capabilities),
            "defaultPrompt": list(data.prompts),
        },
    }


def _hooks(source: PluginSource) -> dict[str, Any]:
    events: dict[str, list[dict[str, Any]]] = {}
    for hook in source.metadata.hooks:
        entry: dict[str, Any] = {} if hook.matcher is None else {"matcher": hook.matcher}
        run = {"type": "command", "command": hook.command, "timeout": hook.timeout_s}
        events.setdefault(hook.event, []).append({**entry, "hooks": [run]})
    return {"description": "Keep runs behind the launch gate.", "hooks": events}


def _mcp_servers(source: PluginSource) -> dict[str, Any]:
    servers = {
        name: {"command": words[0], "args": list(words[1:])}
        for name, words in source.metadata.mcp_servers.items()
    }
    return {"mcpServers": servers}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
