"""External simulators that run in separate processes and Python environments."""
