"""Defaults of options: environment variables, then telic.toml of the current folder and the user.

The current folder may be a repository of others, so files can only set the options below. None of
them names code, a key, a launcher, a server or a trust flag, or changes what counts as a pass. A
file in the current folder also cannot send data to a service or raise what may be spent there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.text import is_row
from telic.errors import ConfigError, UnknownName
from telic.storage.keys import config_folder
from telic.storage.reading import parse_toml, read_text

CONFIGURABLE = (
    *("device", "devices", "threads", "jobs", "model", "log", "learner", "seeds", "iterations"),
    *("steps", "max_calls", "max_usd", "max_hours", "max_steps", "videos", "view", "size", "port"),
)
_OF_USER = ("model", "log", "max_calls", "max_usd")
"""options that only the user's own file and the environment set"""
_FILE = "telic.toml"
_UNCHANGED = "resume"
"""operation whose options change the limits of existing work"""


def variable(verb: str, option: str) -> str | None:
    """Return the environment variable that sets an option of an operation, if it has one."""
    is_configurable = option in CONFIGURABLE and verb != _UNCHANGED
    return f"TELIC_{option.upper()}" if is_configurable else None


def file_defaults(verb: str, options: set[str]) -> dict[str, Any]:
    """Return the values of an operation's options in telic.toml, as on the command line.

    Raises ConfigError or UnknownName if a file contains a value or an option that is not allowed.
    """
    found: dict[str, Any] = {}
    for path in (config_folder() / _FILE, Path(_FILE)):
        rows = parse_toml(read_text(path), str(path)) if path.is_file() else {}
        for name, value in rows.items():
            option = name.replace("-", "_")
            if option not in CONFIGURABLE:
                raise UnknownName(f"option of {path}", name, list(CONFIGURABLE))
            is_foreign = option in _OF_USER and path == Path(_FILE)
            is_server = option == "model" and "://" in str(value)
            if isinstance(value, dict) or is_foreign or is_server:
                raise ConfigError(
                    f"{path} must not set {name} to {str(value)[:100]}.",
                    hint="Use plain values. Models, model limits and trackers can only be set in "
                    "your user file, and the address of a model server only with --model.",
                )
            found[option] = ",".join(map(str, value)) if is_row(value) else value
    return {} if verb == _UNCHANGED else {k: v for k, v in found.items() if k in options}
