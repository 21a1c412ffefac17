"""How far an author may move the trainer's settings away from the environment's preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telic.training.settings import PpoSettings

# Factors for what only makes sense beside the preset, plain ranges for the rest; a preset that lies
# outside of one widens it, so that nothing is moved away from where it usually is.
_FACTORS = {"learning_rate": (0.25, 4.0), "target_kl": (0.25, 3.0), "epochs": (0.3, 2.0)}
_RANGES = {
    "gamma": (0.95, 0.999),
    "gae_lambda": (0.8, 1.0),
    "clip": (0.1, 0.4),
    "entropy_coef": (0.0, 0.05),
    "value_coef": (0.1, 2.0),
    "log_std": (-2.0, 0.5),
}


def bounds(preset: PpoSettings) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value of every setting that may be changed."""
    found = {
        name: (min(low, getattr(preset, name)), max(high, getattr(preset, name)))
        for name, (low, high) in _RANGES.items()
    }
    for name, (low, high) in _FACTORS.items():
        usual = getattr(preset, name)
        found[name] = (low * usual, high * usual)
    return found


def bounds_text(preset: PpoSettings) -> str:
    """Return the bounds as a list for a prompt."""
    return "\n".join(
        f"- `{name}`: {low:g} to {high:g}, usually {getattr(preset, name):g} "
        f"({PpoSettings.model_fields[name].description})"
        for name, (low, high) in bounds(preset).items()
    )


def within(asked: Mapping[str, Any], preset: PpoSettings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings that may be used, each within bounds, and what was not taken as is."""
    allowed = bounds(preset)
    taken: dict[str, Any] = {}
    told: list[str] = []
    for name, value in asked.items():
        if name not in allowed or isinstance(value, bool | str):
            told.append(f"{name}={value} is not a setting that may be changed")
            continue
        low, high = allowed[name]
        kept = min(max(float(value), low), high)
        taken[name] = round(kept) if isinstance(getattr(preset, name), int) else kept
        if kept != value:
            told.append(f"{name}={value:g} was moved to {taken[name]:g}")
    return taken, tuple(told)
