"""What a command line accepts: its flags, and the parsers that read them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from telic.studies.scan.facts import is_plain

ParserKind = Literal[
    "argparse",
    "absl",
    "click",
    "typer",
    "tyro",
    "fire",
    "hydra",
    "sacred",
    "gin",
    "dataclasses",
    "lightning",
    "omegaconf",
    "blocks",
    "config_file",
]
"""kinds of parser; `blocks` are flags over named blocks of a YAML file"""

FlagKind = Literal["option", "switch", "positional"]


class Flag(NamedTuple):
    """Something that a command line accepts."""

    words: tuple[str, ...]
    """how it may be typed, `*` for any name: `--seed`, `-s`, `seed`, `--train.*`"""
    key: str
    """the setting it becomes"""
    default: Any
    required: bool
    kind: FlagKind
    parser: ParserKind
    help: str
    path: str
    line: int
    subcommand: str | None = None
    """the sub-command it belongs to"""

    @property
    def label(self) -> str:
        """How it is typed at length."""
        return max(self.words, key=len)

    @property
    def known(self) -> bool:
        """Whether the text alone gives the default."""
        return is_plain(self.default)

    @property
    def name(self) -> str:
        """The setting's own name, without what it belongs to."""
        return self.key.rpartition(".")[2].replace("-", "_")


class Interface(NamedTuple):
    """What a command accepts."""

    flags: tuple[Flag, ...]
    parsers: tuple[ParserKind, ...]
    """in the order in which they are met"""

    def flag(self, key: str) -> Flag | None:
        """Return the flag of a setting, by its full key or its last part."""
        wanted = key.replace("-", "_")
        for each in self.flags:
            if each.key.replace("-", "_") == wanted:
                return each
        last = wanted.rpartition(".")[2]
        return next((each for each in self.flags if each.name == last), None)

    def accepts(self, word: str) -> Flag | None:
        """Return the flag that a typed word names."""
        typed = word.partition("=")[0]
        alike = typed.replace("_", "-")
        for each in self.flags:
            for name in each.words:
                if name == typed or name.replace("_", "-") == alike:
                    return each
                if "*" in name and alike.startswith(name.partition("*")[0].replace("_", "-")):
                    return each
                if each.kind == "switch" and alike == f"--no-{name[2:]}".replace("_", "-"):
                    return each
        return None
