"""Command-line interface, without business logic."""
