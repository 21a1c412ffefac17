"""Packages the scan knows by name, kept as data: simulators, trackers, hardware, learners."""

from __future__ import annotations

import tomllib
from functools import cached_property
from importlib import resources
from typing import Any


class Vocabulary:
    """Look-ups in the data file of known packages."""

    def __init__(self) -> None:
        self._groups: dict[str, frozenset[str]] = {}

    @cached_property
    def _data(self) -> dict[str, Any]:
        text = resources.files("telic.studies.hints").joinpath("packages.toml").read_text("utf-8")
        return tomllib.loads(text)

    def package(self, origin: str, group: str) -> str | None:
        """Return the known package that a dotted import belongs to, in one group."""
        known = self._groups.setdefault(group, frozenset(self._data[group]["packages"]))
        while origin:
            if origin in known:
                return origin
            origin = origin.rpartition(".")[0]
        return None

    def learner_sinks(self, origin: str) -> tuple[str, list[str]] | None:
        """Return a learning library and the sinks its trainers write by themselves."""
        for name, about in self._data["learners"].items():
            if origin == name or origin.startswith(f"{name}."):
                return name, about["sinks"]
        return None

    def table(self, group: str) -> dict[str, Any]:
        """Return one group of the data."""
        return self._data[group]


VOCABULARY = Vocabulary()
