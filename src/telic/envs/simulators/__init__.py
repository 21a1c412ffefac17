"""External simulators, each with a separate process and Python environment."""
