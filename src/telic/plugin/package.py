"""Generate all plugin files from one source, and list differences in a folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from telic import __version__
from telic.core.config import Record
from telic.errors import ConfigError
from telic.storage.files import write_text

_HERE = Path(__file__).parent
HOME = "plugins/telic"
_FENCE = "---\n"
_MADE = "<!-- Made by `telic plugin build` from src/telic/plugin/{}; edit it there. -->"


class Page(Record):
    """Skill or agent: name, front matter and text."""

    name: str
    head: dict[str, str]
    text: str


class PluginSource(Record):
    """Source of the plugin."""

    metadata: dict[str, Any]
    """content of metadata.toml"""
    skills: tuple[Page, ...]
    agents: tuple[Page, ...]
    rules: str
    """text appended to every skill"""


def read_source() -> PluginSource:
    """Read the plugin source."""
    pages: dict[str, list[Page]] = {"skills": [], "agents": []}
    for kind, found in pages.items():
        for path in sorted((_HERE / kind).glob("*.md")):
            head, text = split_front_matter(path.read_text(), str(path))
            found.append(Page(name=path.stem, head=head, text=text))
    return PluginSource(
        metadata=tomllib.loads((_HERE / "metadata.toml").read_text()),
        skills=tuple(pages["skills"]),
        agents=tuple(pages["agents"]),
        rules=(_HERE / "rules.md").read_text(),
    )


def split_front_matter(text: str, where: str) -> tuple[dict[str, str], str]:
    """Split a text into front matter (plain `key: text` lines) and body.

    Raises ConfigError. The format is a minimal YAML subset that all hosts parse alike.
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


def package_files() -> dict[str, str]:
    """Return the text of every plugin file by path relative to the catalogue root."""
    source = read_source()
    data = source.metadata
    name, place = data["name"], f"./{HOME}"
    shown = {"displayName": data["display_name"]}
    entry = {"name": name, "source": place, "description": data["description"]}
    codex_entry = {
        "name": name,
        "source": {"source": "local", "path": place},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": data["category"],
    }
    manifest = {
        "name": name,
        "version": __version__,
        "description": data["description"],
        "author": {"name": data["author"]},
        "license": data["license"],
        "keywords": data["keywords"],
    }
    interface = {
        **shown,
        "shortDescription": data["short_description"],
        "longDescription": data["long_description"],
        "developerName": data["author"],
        "category": data["category"],
        "capabilities": data["capabilities"],
        "defaultPrompt": data["prompts"],
    }
    events: dict[str, list[dict[str, Any]]] = {}
    for hook in data["hooks"]:
        run = {"type": "command", "command": hook["command"], "timeout": hook["timeout_s"]}
        matcher = {"matcher": hook["matcher"]} if "matcher" in hook else {}
        events.setdefault(hook["event"], []).append({**matcher, "hooks": [run]})
    servers = {
        name: {"command": program, "args": words}
        for name, (program, *words) in data["mcp_servers"].items()
    }
    # Hooks are discovered at their default path; the manifest must not list them.
    extras = {"skills": "./skills/", "mcpServers": "./.mcp.json", "interface": interface}
    values = {
        ".claude-plugin/marketplace.json": {
            "name": data["catalogue"],
            "description": data["short_description"],
            "owner": {"name": data["author"]},
            "plugins": [{**entry, "version": __version__, "category": data["category"]}],
        },
        ".agents/plugins/marketplace.json": {
            "name": data["catalogue"],
            "interface": shown,
            "plugins": [codex_entry],
        },
        f"{HOME}/.claude-plugin/plugin.json": manifest,
        f"{HOME}/.codex-plugin/plugin.json": {**manifest, **extras},
        f"{HOME}/hooks/hooks.json": {
            "description": "Keep runs behind the launch gate.",
            "hooks": events,
        },
        f"{HOME}/.mcp.json": {"mcpServers": servers},
    }
    files = {
        name: json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        for name, value in values.items()
    }
    for page in source.skills:
        text = f"{page.text.rstrip()}\n\n{source.rules}"
        files[f"{HOME}/skills/{page.name}/SKILL.md"] = _page(page, text, "skills")
    for page in source.agents:
        files[f"{HOME}/agents/{page.name}.md"] = _page(page, page.text, "agents")
    return files


def _page(page: Page, text: str, folder: str) -> str:
    lines = [f"{key}: {json.dumps(value)}" for key, value in page.head.items()]
    note = _MADE.format(f"{folder}/{page.name}.md")
    return "\n".join(["---", f"name: {page.name}", *lines, "---", "", note, "", text])


def write_package(root: Path) -> list[str]:
    """Write the plugin to a folder and return the written and removed files."""
    changed, files = differences(root), package_files()
    for name in changed:
        path = root / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, files[name])
        else:
            path.unlink()
    return changed


def differences(root: Path) -> list[str]:
    """Return files that differ from the source: changed, missing or extra."""
    files = package_files()
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
