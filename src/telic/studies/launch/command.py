"""The exact arguments and environment of one run.

No shell ever sees the arguments; there is no network unless a person approved it, and no secret
without a use.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Activate, Adapter, CommandSpec
from telic.studies.errors import InvalidDocument

REDACTED = "[redacted]"

_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?|AUTH|COOKIE|DSN|WEBHOOK)(?:_|$)|(?:KEY|TOKEN|SECRET|PWD)$",
    re.IGNORECASE,
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GPG_AGENT_INFO"})
_SHAPES = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}"  # model providers
    r"|(?:ghp|gho|ghs|ghu|github_pat|glpat|hf|xox[abprs])[-_][A-Za-z0-9_-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"  # signed web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # name and password in an address
)
# Paths and dotted or dashed names are judged piece by piece, or every long path would be hidden.
_PIECE = re.compile(r"[A-Za-z0-9+]{20,}")
_LEAST_BITS = 4.0  # per character; a hexadecimal digest has at most 4.0, English words about 3.5
_LEAST_HEX = 32
_HEX = re.compile(r"[0-9a-fA-F]+")


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    return name.upper() not in _NOT_SECRET and _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Return the text with everything replaced that looks like a key, a token or a password."""

    def hidden(piece: re.Match[str]) -> str:
        return REDACTED if _is_mixed(piece[0]) or _is_digest(piece[0]) else piece[0]

    return _PIECE.sub(hidden, redact_keys(text))


def redact_keys(text: str) -> str:
    """Return the text without keys of a known shape; digests and code stay as they are."""
    return _SHAPES.sub(REDACTED, text)


def redact_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, sorted, with secrets replaced."""
    return {
        name: REDACTED if is_secret_name(name) else redact_text(environment[name])
        for name in sorted(environment)
    }


def has_secret(text: str) -> bool:
    """Return whether the text holds a key or a token; digests do not count."""
    return _SHAPES.search(text) is not None or any(map(_is_mixed, _PIECE.findall(text)))


def _is_digest(piece: str) -> bool:
    # Many keys look like the digest of a file; hiding one too many costs less than showing a key.
    return len(piece) >= _LEAST_HEX and _HEX.fullmatch(piece) is not None


def _is_mixed(piece: str) -> bool:
    """Return whether a piece looks drawn at random: many kinds of characters, evenly used."""
    if not all(re.search(kind, piece) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return False
    shares = [count / len(piece) for count in Counter(piece).values()]
    return -sum(share * math.log2(share) for share in shares) >= _LEAST_BITS


# Nothing listens on the discard port: whoever honours proxies fails at once instead of waiting.
_CLOSED = "http://127.0.0.1:9"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")

OFFLINE: dict[str, str] = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "MLFLOW_TRACKING_URI": "file:mlruns",
    "COMET_START_ONLINE": "0",
    "COMET_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
    "PIP_NO_INDEX": "1",
    "UV_OFFLINE": "1",
    "CONDA_OFFLINE": "true",
    **dict.fromkeys(_PROXIES, _CLOSED),
    **{name.upper(): _CLOSED for name in _PROXIES},
    "no_proxy": "localhost,127.0.0.1,::1",
    "NO_PROXY": "localhost,127.0.0.1,::1",
}
# A repository may keep its tracker's local files (`offline_env` of the adapter); these values of
# these variables, and no others, keep them local.
_LOCAL_CHOICES: dict[str, frozenset[str]] = {
    "WANDB_MODE": frozenset({"offline", "disabled", "dryrun"}),
    "NEPTUNE_MODE": frozenset({"offline", "debug"}),
    "COMET_MODE": frozenset({"offline", "disabled"}),
}


class RunEnvironment(NamedTuple):
    """What a run is started with."""

    variables: dict[str, str]
    """everything, secrets included: for the process, never for a file"""
    changed: dict[str, str]
    """what differs from the caller's environment"""
    withheld: tuple[str, ...]
    """variables the caller has and the run does not get"""
    is_offline: bool
    problems: tuple[str, ...] = ()


def run_environment(
    base: Mapping[str, str],
    *,
    declared: Mapping[str, str],
    offline_choices: Mapping[str, str],
    own: Mapping[str, str],
    network_approved: bool,
) -> RunEnvironment:
    """Return the environment to start a run with.

    Args:
        base: the caller's environment.
        declared: what the adapter's command asks for.
        offline_choices: what the adapter's log sources ask for when there is no network.
        own: what this tool sets, such as the run folder.
        network_approved: whether a person approved the use of the network.
    """
    declared = {
        # Entering a venv or conda environment puts its folder before the others.
        name: value.replace("$PATH", base.get("PATH", os.defpath)) if name == "PATH" else value
        for name, value in declared.items()
    }
    if network_approved:
        changed = {**declared, **own}
        return RunEnvironment({**base, **changed}, changed, (), False)
    asked = {**declared, **offline_choices}
    local = {name: value for name, value in asked.items() if _stays_local(name, value)}
    problems = tuple(
        f"{name}={value} would open the network"
        for name, value in asked.items()
        if name not in local
    )
    kept_local = {name: value for name, value in local.items() if name in _LOCAL_CHOICES}
    # Without a network a key is of no use, and what a run does not have it cannot write to a log.
    withheld = tuple(sorted(n for n in base if is_secret_name(n) and n not in declared))
    changed = {**offline_choices, **declared, **own, **OFFLINE, **kept_local}
    inherited = {name: value for name, value in base.items() if name not in withheld}
    return RunEnvironment({**inherited, **changed}, changed, withheld, True, problems)


def _stays_local(name: str, value: str) -> bool:
    if name in _LOCAL_CHOICES:
        return value in _LOCAL_CHOICES[name]
    return name not in OFFLINE or value == OFFLINE[name]


OVERRIDES_FILE = "overrides.json"

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "cmd", "pwsh"})
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1"})


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
    episodes: int | None = None
    horizon: int | None = None
    nonce: str | None = None


def build_command(adapter: Adapter, spec: CommandSpec, values: Values, root: Path) -> Command:
    """Return the command with every placeholder filled; `root` is the tree that it runs in.

    Seed and overrides are added at the end where the command does not say where they go.
    Raises InvalidDocument E_COMMAND.
    """
    cwd = (root / spec.cwd).resolve()
    if not cwd.is_relative_to(root.resolve()):
        raise InvalidDocument("E_COMMAND", f"The folder {spec.cwd} lies outside of the repository.")
    overrides = _override_words(adapter, values)
    known = {name: value for name, value in values._asdict().items() if name != "overrides"}
    argv: list[str] = []
    for word in spec.argv:
        argv += overrides if word == "{overrides}" else [_filled(word, known)]
    if "{overrides}" not in spec.argv:
        argv += overrides
    if not any("{seed}" in word for word in spec.argv):
        argv += _seed_words(adapter, values.seed)
    environment = {**spec.env, **_activation(spec.activate, root)}
    if adapter.seeds.env_flag:
        environment[adapter.seeds.env_flag] = str(values.seed)
    return Command(tuple(argv), cwd, environment, spec.timeout_s)


def _override_words(adapter: Adapter, values: Values) -> list[str]:
    """Changed parameters the way this repository takes them."""
    changed = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in sorted(values.overrides.items())
    }
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
        case "source_edit" | None:
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


def _activation(activate: Activate | None, root: Path) -> dict[str, str]:
    """Return the variables that entering an environment sets; PATH is completed at launch."""
    if activate is None:
        return {}
    path = (root / activate.path).expanduser()
    name = "VIRTUAL_ENV" if activate.kind == "venv" else "CONDA_PREFIX"
    return {name: str(path), "PATH": f"{path / 'bin'}:$PATH"}
