"""Complete rewards as examples, loaded by name.

This module must not import torch or simulators, because it is used for planning.
"""

from pathlib import Path

EXAMPLES = Path(__file__).parent


def example_names() -> list[str]:
    """Return the names of the example rewards."""
    return sorted(path.stem for path in EXAMPLES.glob("[!_]*.py"))
