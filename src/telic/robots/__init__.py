"""Named robots: publicly available models with position actuators and a floor."""

from __future__ import annotations

from pathlib import Path

from telic.robots.catalogue import robot_names

PLANAR_BIPED = "planar-biped"
OWN = {PLANAR_BIPED: Path(__file__).parent / "planar_biped.xml"}
"""Small robots that are included in telic and need no build step."""


def robot_path(name: str) -> Path | None:
    """Return the simulated model for a robot's name or description file, or None."""
    if name in OWN:
        return OWN[name]
    if name not in robot_names() and not name.endswith(".toml"):
        return None
    from telic.robots import build  # imported lazily because MuJoCo is slow to import

    return build.built_robot(name)
