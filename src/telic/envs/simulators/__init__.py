"""External simulators, which run in separate processes and Python environments."""
