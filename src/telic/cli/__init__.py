"""Command-line interface. It contains no business logic."""
