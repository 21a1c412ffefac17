"""All operations of telic, as typed functions with a frozen request and a result record.

`catalogue` lists them. The command line, the MCP server and Python expose these functions and
contain no business logic. Modules here import their implementation lazily, so that listing all
verbs is fast.
"""
