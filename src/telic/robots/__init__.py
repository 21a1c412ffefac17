"""Robots by name: public models from packages, driven by position, standing on a floor."""

from __future__ import annotations

from pathlib import Path

from telic.robots.catalogue import robot_names

PLANAR_BIPED = "planar-biped"
OWN = {PLANAR_BIPED: Path(__file__).parent / "planar_biped.xml"}
"""small robots that come with telic, complete as they are"""


def robot_path(name: str) -> Path | None:
    """Return the model that is simulated for a robot's name or file; None: it is neither."""
    if name in OWN:
        return OWN[name]
    if name not in robot_names() and not name.endswith(".toml"):
        return None
    from telic.robots import build  # MuJoCo is slow to import, and most names are not robots

    return build.built_robot(name)
