"""A scripted host: calls tools as an agent would, and keeps every answer."""

import json

from mcp import Client


class Refusal(AssertionError):
    """Refusal of a tool."""


class Host:
    """Client whose answers are plain data. All messages are kept in `received`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.received: list[str] = []

    async def __call__(self, tool: str, **arguments) -> dict:
        found = await self.client.call_tool(tool, arguments)
        self.received.append(found.model_dump_json())
        if found.is_error:
            raise Refusal(found.content[0].text)
        return found.structured_content

    async def read(self, uri: str):
        found = await self.client.read_resource(uri)
        self.received.append(found.model_dump_json())
        return json.loads(found.contents[0].text)
