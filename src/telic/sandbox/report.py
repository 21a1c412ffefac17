"""What of the confinement is in force, for `doctor`, the run record and error messages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the confinement."""

    name: str
    active: bool
    message: str
    """what it does, or why it is not active"""


@dataclass(frozen=True, slots=True)
class ConfinementReport:
    """Every part of the confinement of one process."""

    parts: tuple[Part, ...]
    landlock_abi: int
    """version of the kernel's file rules, 0 for none"""

    @property
    def is_complete(self) -> bool:
        """Say whether every part is in force."""
        return all(part.active for part in self.parts)

    @property
    def missing(self) -> tuple[Part, ...]:
        """Return the parts that are not in force."""
        return tuple(part for part in self.parts if not part.active)

    def is_active(self, name: str) -> bool:
        """Say whether the part of this name is in force."""
        return any(part.active for part in self.parts if part.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ConfinementReport:
        """Build a report from what `as_dict` gave."""
        parts = tuple(Part(**each) for each in data["parts"])
        return cls(parts=parts, landlock_abi=int(data["landlock_abi"]))
