"""What the scan knows by name, kept as data: packages by group, and the usual words for things."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from importlib import resources
from typing import Any


class Vocabulary:
    """Look-ups in the data file of known names."""

    def __init__(self) -> None:
        self._groups: dict[str, frozenset[str]] = {}

    @cached_property
    def _data(self) -> dict[str, Any]:
        text = resources.files("telic.studies.scan").joinpath("vocabulary.toml").read_text("utf-8")
        return tomllib.loads(text)

    def package(self, origin: str, group: str) -> str | None:
        """Return the known package that a dotted import belongs to, in one group."""
        packages = self._groups.setdefault(group, frozenset(self._data[group]["packages"]))
        while origin:
            if origin in packages:
                return origin
            origin = origin.rpartition(".")[0]
        return None

    def words(self, name: str) -> frozenset[str]:
        """Return one list of words."""
        return frozenset(self._data["words"][name].split())

    def word_lists(self, group: str) -> dict[str, tuple[str, ...]]:
        """Return a group's lists of words, both in the order they are written."""
        return {name: tuple(text.split()) for name, text in self._data[group].items()}

    def pattern(self, name: str) -> re.Pattern[str]:
        """Return a pattern of names that speak for something."""
        return _compiled(self._data["patterns"][name])

    def patterns(self, group: str) -> dict[str, re.Pattern[str]]:
        """Return a group of patterns, in the order they are written."""
        return {name: _compiled(text) for name, text in self._data["patterns"][group].items()}

    def learner_sinks(self, origin: str) -> tuple[str, list[str]] | None:
        """Return a learning library and the sinks its trainers write by themselves."""
        for name, about in self._data["learners"].items():
            if origin == name or origin.startswith(f"{name}."):
                return name, about["sinks"]
        return None

    def table(self, group: str) -> dict[str, Any]:
        """Return one group of the data."""
        return self._data[group]

    def is_download(self, name: str) -> bool:
        """Whether a call of this name fetches something over the network."""
        downloads = self._data["downloads"]
        return name.rpartition(".")[2] in downloads["calls"] or name in downloads["roots"]


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile("".join(line.strip() for line in text.splitlines()))


VOCABULARY = Vocabulary()
