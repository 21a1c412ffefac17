"""Hand-written rewards, loaded by their bare name.

Nothing heavy is imported here: whoever plans a training names them before torch is loaded.
"""

from pathlib import Path

LIBRARY = Path(__file__).parent


def library_names() -> list[str]:
    """Return the names of the library's rewards."""
    return sorted(path.stem for path in LIBRARY.glob("[!_]*.py"))
