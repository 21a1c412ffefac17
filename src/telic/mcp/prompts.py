"""Prompts: one per skill, from the same files that the plugins are made of."""

from __future__ import annotations

from mcp.server.mcpserver.prompts import Prompt

from telic.mcp.adding import Server
from telic.plugin.package import Page, read_source


def register(server: Server) -> None:
    """Add a prompt for every skill, in the order of their names."""
    source = read_source()
    for page in source.skills:
        server.add_prompt(_prompt(page, source.rules))


def _prompt(page: Page, rules: str) -> Prompt:
    def render() -> str:
        return f"{page.text.rstrip()}\n\n{rules}"

    return Prompt.from_function(render, name=page.name, description=page.head["description"])
