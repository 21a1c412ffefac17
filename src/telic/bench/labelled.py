"""Recorded episodes that somebody labelled: a folder with trajectories and labels.toml.

[[episode]]
file = "good_run.npz"
intent = "run forward fast"
does = true
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import Field

from telic.core.config import Config
from telic.errors import ConfigError

LABELS = "labels.toml"


class Label(Config):
    """What somebody says of an episode."""

    file: str = Field(description="trajectory, seen from the folder")
    intent: str = Field(description="what was asked for")
    does: bool = Field(description="whether the episode does it")


class Labels(Config):
    """All labels of a folder."""

    episode: tuple[Label, ...] = Field(min_length=1, description="the labelled episodes")


def read_labels(folder: Path) -> tuple[Label, ...]:
    """Return the labels of a folder; raises ConfigError when one is wrong or a file is missing."""
    path = folder / LABELS
    try:
        labels = Labels.parse(tomllib.loads(path.read_text(encoding="utf-8"))).episode
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} has no {LABELS}.",
            hint='Write one: [[episode]] with file = "a.npz", intent = "run forward", does = true.',
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    missing = [each.file for each in labels if not (folder / each.file).exists()]
    if missing:
        raise ConfigError(f"{path} names files that do not exist: {', '.join(missing)}.")
    return labels
