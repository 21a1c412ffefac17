"""Every verb of telic: one typed function each, with a frozen request and a result record.

`catalogue` is the list of them. The command line, the MCP server and Python render these functions
and hold no logic of their own. Modules here import what does the work when it is asked for, so that
listing all verbs loads next to nothing.
"""
