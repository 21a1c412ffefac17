"""Make every file of the plugin from the source, and say where a folder differs from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telic import __version__
from telic.plugin.source import Page, Source, read_source
from telic.storage.files import write_text

HOME = "plugins/telic"
CATALOGUES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
_OURS = "telic-"
_MADE = "<!-- Made by `telic plugin build` from src/telic/plugin/{}; edit it there. -->"


def package_files(source: Source | None = None) -> dict[str, str]:
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
    held = {
        path.relative_to(root).as_posix()
        for path in (root / HOME).rglob("*")
        if path.is_file() or path.is_symlink()
    }
    stale = [
        name
        for name, text in files.items()
        if not (root / name).is_file() or (root / name).read_text() != text
    ]
    return sorted({*stale, *(held - set(files))})


def alias_of(name: str, source: Source) -> str | None:
    """Return the other name that a skill is asked for by."""
    if not name.startswith(_OURS):
        return None
    return source.metadata.alias_prefix + name.removeprefix(_OURS)


def _skill(page: Page, source: Source) -> str:
    alias = alias_of(page.name, source)
    if alias is None:
        return _written(page.head, page.text, page, "skills")
    description = f"{page.head['description']} Also asked for as {alias}."
    text = f"{page.text.rstrip()}\n\n{source.rules}"
    return _written({**page.head, "description": description}, text, page, "skills")


def _written(head: Mapping[str, str], text: str, page: Page, folder: str) -> str:
    lines = [f"{key}: {json.dumps(value)}" for key, value in head.items()]
    note = _MADE.format(f"{folder}/{page.name}.md")
    return "\n".join(["---", f"name: {page.name}", *lines, "---", "", note, "", text])


def _claude_catalogue(source: Source) -> dict[str, Any]:
    data = source.metadata
    entry = {"name": data.name, "source": f"./{HOME}", "description": data.description}
    return {
        "name": data.catalogue,
        "description": data.short_description,
        "owner": {"name": data.author},
        "plugins": [{**entry, "version": __version__, "category": data.category}],
    }


def _codex_catalogue(source: Source) -> dict[str, Any]:
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


def _claude_manifest(source: Source) -> dict[str, Any]:
    data = source.metadata
    return {
        "name": data.name,
        "version": __version__,
        "description": data.description,
        "author": {"name": data.author},
        "license": data.license,
        "keywords": list(data.keywords),
    }


def _codex_manifest(source: Source) -> dict[str, Any]:
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


def _hooks(source: Source) -> dict[str, Any]:
    events: dict[str, list[dict[str, Any]]] = {}
    for each in source.metadata.hooks:
        entry: dict[str, Any] = {} if each.matcher is None else {"matcher": each.matcher}
        run = {"type": "command", "command": each.command, "timeout": each.timeout_s}
        events.setdefault(each.event, []).append({**entry, "hooks": [run]})
    return {"description": "Keep runs behind the launch gate.", "hooks": events}


def _mcp_servers(source: Source) -> dict[str, Any]:
    servers = {
        name: {"command": words[0], "args": list(words[1:])}
        for name, words in source.metadata.mcp_servers.items()
    }
    return {"mcpServers": servers}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
