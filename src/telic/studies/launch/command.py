"""From the adapter's command to the exact arguments of one run; no shell ever sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Activate, Adapter, CommandSpec
from telic.studies.errors import InvalidDocument
from telic.studies.launch.environment import has_secret

OVERRIDES_FILE = "overrides.json"

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "cmd", "pwsh"})
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1"})
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(\"[^\"$`\\]*\"|'[^']*'|[^\s\"'$`\\;&|]*)")


class Command(NamedTuple):
    """The resolved command of one run."""

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    """what the command asks for in its environment"""
    timeout_s: float | None

    @property
    def hash(self) -> str:
        """What a permit is bound to."""
        return content_hash({"argv": self.argv, "cwd": str(self.cwd)})


class Values(NamedTuple):
    """What the placeholders of a command stand for in one run; None is not known."""

    seed: int
    run_dir: Path
    overrides: Mapping[str, Any]
    checkpoint: str | None = None
    device: str | None = None
    steps: int | None = None
    nproc: int | None = None
    nonce: str | None = None


def build_command(adapter: Adapter, spec: CommandSpec, values: Values, root: Path) -> Command:
    """Return the command with every placeholder filled; `root` is the tree that it runs in.

    Seed and overrides are added at the end where the command does not say where they go.
    Raises InvalidDocument E_COMMAND.
    """
    cwd = (root / spec.cwd).resolve()
    if not cwd.is_relative_to(root.resolve()):
        raise InvalidDocument("E_COMMAND", f"The folder {spec.cwd} lies outside of the repository.")
    overrides = override_words(adapter, values)
    known = {
        "seed": values.seed,
        "run_dir": values.run_dir,
        "checkpoint": values.checkpoint,
        "device": values.device,
        "steps": values.steps,
        "nproc": values.nproc,
        "nonce": values.nonce,
    }
    argv: list[str] = []
    for word in spec.argv:
        if word == "{overrides}":
            argv += overrides
        else:
            argv.append(_filled(word, known))
    if "{overrides}" not in spec.argv:
        argv += overrides
    if not any("{seed}" in word for word in spec.argv):
        argv += _seed_words(adapter, values.seed)
    environment = {**spec.env, **_activation(spec.activate, root)}
    if adapter.seeds.env_flag:
        environment[adapter.seeds.env_flag] = str(values.seed)
    return Command(tuple(argv), cwd, environment, spec.timeout_s)


def override_words(adapter: Adapter, values: Values) -> list[str]:
    """Return changed parameters the way this repository takes them."""
    changed = {name: _text(value) for name, value in sorted(values.overrides.items())}
    match adapter.config.override_style:
        case _ if not changed:
            return []
        case "k=v":
            return [f"{name}={value}" for name, value in changed.items()]
        case "--k v":
            return [word for name, value in changed.items() for word in (f"--{name}", value)]
        case "--k=v":
            return [f"--{name}={value}" for name, value in changed.items()]
        case "file":
            return [str(values.run_dir / OVERRIDES_FILE)]
        case "source_edit":
            raise InvalidDocument(
                "E_COMMAND",
                f"Parameters of this repository are changed in its source, not by overrides "
                f"({', '.join(changed)}).",
                hint="Give the candidate a patch instead.",
            )


def shell_problems(argv: tuple[str, ...]) -> list[str]:
    """Return what in a command hopes for a shell, which it will not get, or shows a secret."""
    problems: list[str] = []
    if Path(argv[0]).name in _SHELLS and any(w.startswith("-") and "c" in w for w in argv[1:2]):
        problems.append(f"{argv[0]} {argv[1]} would hide the command in a shell string")
    problems += [f'"{word}" is a shell operator' for word in argv if word in _SHELL_WORDS]
    problems += [
        f"{word!r} holds a line break or a NUL" for word in argv if re.search(r"[\0\n\r]", word)
    ]
    problems += [
        "an argument looks like a secret; pass it in the environment"
        for word in argv
        if has_secret(word)
    ]
    return problems


def _filled(word: str, known: Mapping[str, Any]) -> str:
    for name in _PLACEHOLDER.findall(word):
        if name not in known:
            raise InvalidDocument(
                "E_COMMAND", f"{{{name}}} in {word!r} must stand alone or is unknown."
            )
        if known[name] is None:
            raise InvalidDocument("E_COMMAND", f"Nobody said what {{{name}}} of the command is.")
        word = word.replace(f"{{{name}}}", str(known[name]))
    return word


def _seed_words(adapter: Adapter, seed: int) -> list[str]:
    flag = adapter.seeds.flag
    if flag is None:
        return []
    if flag.endswith("="):
        return [f"{flag}{seed}"]
    return [flag, str(seed)] if flag.startswith("-") else [f"{flag}={seed}"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _activation(activate: Activate | None, root: Path) -> dict[str, str]:
    """Return the variables that entering an environment sets; PATH is completed at launch."""
    if activate is None:
        return {}
    path = (root / activate.path).expanduser()
    match activate.kind:
        case "venv":
            return {"VIRTUAL_ENV": str(path), "PATH": f"{path / 'bin'}:$PATH"}
        case "conda":
            return {"CONDA_PREFIX": str(path), "PATH": f"{path / 'bin'}:$PATH"}
        case "source_file":
            return _assignments(path)


def _assignments(path: Path) -> dict[str, str]:
    """Read a file of plain `export NAME=value` lines; anything that needs a shell is refused."""
    variables: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(line)
        if match is None:
            raise InvalidDocument(
                "E_COMMAND",
                f"{path}, line {number}, does more than set a variable, and no shell will run it.",
                hint="Put what it does into the adapter's env, or use a venv or conda environment.",
            )
        variables[match[1]] = match[2].strip("\"'")
    return variables
