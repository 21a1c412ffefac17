"""Load environments, authors, judges, proposers, launchers and providers of other packages.

A package declares its plugins in `pyproject.toml`, in the entry point group of their kind:

    [project.entry-points."telic.environments"]
    "Bounce-v0" = "bounce.env:make"

Entry points are scanned only if plugins are listed or a name is not built in. A package is imported
only if one of its plugins is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telic.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PluginKind = Literal[
    "environments", "authors", "judges", "proposers", "launchers", "providers", "sinks"
]


def plugin_names(kind: _PluginKind, own: Collection[str] = ()) -> list[str]:
    """Return the names of installed plugins. Raises PluginError if a name is already in use."""
    found = _entry_points(kind)
    for name, entries in found.items():
        packages = sorted(_package(entry) for entry in entries)
        if name in own:
            packages.insert(0, "telic")
        if len(packages) > 1:
            raise PluginError(
                f'"{name}" is provided by {" and by ".join(packages)} (telic.{kind}).',
                hint="Names must be unique: rename one of them, or uninstall a package.",
            )
    return sorted(found)


def load_plugin(kind: _PluginKind, name: str, own: Collection[str] = ()) -> Any:
    """Return the plugin with this name, or None if no package provides it. Raises PluginError."""
    if name not in plugin_names(kind, own):
        return None
    (entry,) = _entry_points(kind)[name]
    try:
        part = entry.load()
    except Exception as error:  # third-party code may raise anything
        raise PluginError(
            f'{_package(entry)} provides "{name}" (telic.{kind}), which failed to load: '
            f"{type(error).__name__}: {error}",
            hint=f"Its entry point is {entry.value}. Update or uninstall the package.",
        ) from error
    if not callable(part):
        raise PluginError(
            f'{_package(entry)} provides "{name}" (telic.{kind}) as {entry.value}, a '
            f"{type(part).__name__} that is not callable.",
            hint="An entry point must name a function or class that creates the plugin.",
        )
    return part


def plugin_home(kind: _PluginKind, name: str) -> Path | None:
    """Return the folder from which a plugin is imported, or None if no package provides it."""
    entries = _entry_points(kind).get(name)
    if not entries or entries[0].dist is None:
        return None
    return Path(str(entries[0].dist.locate_file("")))


@cache
def _entry_points(kind: _PluginKind) -> dict[str, list[EntryPoint]]:
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for entry in entry_points(group=f"telic.{kind}"):
        # A package may be found twice on the path, e.g. if installed in editable mode.
        if all((entry.value, _package(entry)) != (e.value, _package(e)) for e in found[entry.name]):
            found[entry.name].append(entry)
    return dict(found)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"
