"""The plugin for coding agents: one source, the files of every host, and two small hooks."""
