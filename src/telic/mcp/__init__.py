"""The MCP server: telic as tools, resources and prompts of a coding agent."""
