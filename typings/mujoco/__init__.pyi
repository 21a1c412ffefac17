"""MuJoCo's names live in compiled modules without stubs; this lets the type checker take them as given."""

from typing import Any

def __getattr__(name: str) -> Any: ...
