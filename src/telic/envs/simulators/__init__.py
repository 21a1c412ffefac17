"""Foreign simulators: each in a process and a Python environment of its own."""
