"""Robots by name: public models from packages, driven by position, standing on a floor."""

from __future__ import annotations

from pathlib import Path

from telic.robots.catalogue import robot_names


def robot_path(name: str) -> Path | None:
    """Return the model that is simulated for a robot's name or file; None: it is neither."""
    if name not in robot_names() and not name.endswith(".toml"):
        return None
    from telic.robots import build  # MuJoCo takes its time, and most names are no robots

    return build.robot_path(name)
