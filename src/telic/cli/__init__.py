"""The command line: one file per command, without business logic."""
