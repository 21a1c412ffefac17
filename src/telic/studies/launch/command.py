"""Build the arguments and environment of a run and its evaluations.

Arguments never pass through a shell. The network is closed unless a person approved it, and unused
secrets are withheld.
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

from pydantic import Field

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import as_record
from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.documents.contract import ROLES, Contract, Protocol, StudyPhase
from telic.studies.errors import InvalidDocument
from telic.studies.launch.supervisor import COMPILED

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
_PIECE = re.compile(r"[A-Za-z0-9+]{20,}")
_MIN_BITS = 4.0
"""minimum entropy per character of a key (hexadecimal digests: at most 4.0, English: about 3.5)"""


def is_secret_name(name: str) -> bool:
    """Return whether a variable name suggests a secret."""
    return name.upper() not in _NOT_SECRET and _NAME.search(name) is not None


def redact_keys(text: str) -> str:
    """Redact secret keys in known formats. Digests and code remain unchanged."""
    return _SHAPES.sub(REDACTED, text)


def redact_text(text: str) -> str:
    """Redact secret keys in known formats and random-looking text. Digests remain unchanged."""
    return _PIECE.sub(
        lambda found: REDACTED if _is_random(found[0]) else found[0], redact_keys(text)
    )


def _is_random(piece: str) -> bool:
    """Return whether a word has several kinds of characters and a high entropy."""
    if not all(re.search(kind, piece) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return False
    shares = [count / len(piece) for count in Counter(piece).values()]
    return -sum(share * math.log2(share) for share in shares) >= _MIN_BITS


def redact_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables sorted, with secrets redacted."""
    return {
        name: REDACTED if is_secret_name(name) else redact_text(environment[name])
        for name in sorted(environment)
    }


# Nothing listens on the discard port, so programs that honor proxies fail immediately.
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
_LOCAL_CHOICES: dict[str, tuple[str, ...]] = {
    "WANDB_MODE": ("offline", "disabled", "dryrun"),
    "NEPTUNE_MODE": ("offline", "debug"),
    "COMET_MODE": ("offline", "disabled"),
}
"""settings with which trackers write local files without network access"""


class RunEnvironment(NamedTuple):
    """Environment of a run."""

    variables: dict[str, str]
    """all variables including secrets, which are never written to a file"""
    changed: dict[str, str]
    """differences from the caller's environment"""
    withheld: tuple[str, ...]
    """caller's variables withheld from the run"""
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
    """Return the environment of a run.

    Args:
        base: the caller's environment.
        declared: variables of the adapter's command.
        offline_choices: variables of the adapter's log sources when the network is closed.
        own: telic's variables, such as the run folder.
        network_approved: whether a person approved the use of the network.
    """
    if network_approved:
        changed = {**declared, **own}
        return RunEnvironment({**base, **changed}, changed, (), False)
    asked = {**declared, **offline_choices}
    allowed = {name: _LOCAL_CHOICES.get(name, (value,)) for name, value in OFFLINE.items()}
    problems = tuple(
        f"{name}={value} would enable the network"
        for name, value in asked.items()
        if value not in allowed.get(name, (value,))
    )
    local = {name: x for name, x in asked.items() if x in _LOCAL_CHOICES.get(name, ())}
    # Without network access keys are useless, and withheld keys cannot leak into logs.
    withheld = tuple(sorted(n for n in base if is_secret_name(n) and n not in declared))
    changed = {**offline_choices, **declared, **own, **OFFLINE, **local}
    inherited = {name: value for name, value in base.items() if name not in withheld}
    return RunEnvironment({**inherited, **changed}, changed, withheld, True, problems)


OVERRIDES_FILE = "overrides.json"

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "cmd", "pwsh"})
_SHELL_WORDS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1"})


class Command(NamedTuple):
    """Resolved command of one run."""

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    """variables set by the command"""
    timeout_s: float | None


class Values(NamedTuple):
    """Placeholder values for one run of a command. None means that the value is unknown."""

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


def import_path(tree: Path, home: Path) -> dict[str, str]:
    """Return the environment variable that makes Python import from a tree first.

    Inherited folders of the repository (`home`) are replaced by those of the tree.
    """
    places = [tree / "src", tree] if (tree / "src").is_dir() else [tree]
    inherited = [Path(x) for x in os.environ.get("PYTHONPATH", "").split(os.pathsep) if x]
    places += [tree / x.relative_to(home) if x.is_relative_to(home) else x for x in inherited]
    return {"PYTHONPATH": os.pathsep.join(map(str, places))}


def build_command(
    adapter: Adapter, spec: CommandSpec, values: Values, root: Path, home: Path | None = None
) -> Command:
    """Return the command with every placeholder filled in. `root` is the tree in which it runs.

    Environments and programs missing in a worktree are taken from the repository (`home`). Seed and
    overrides are appended if the command has no placeholders for them. Raises InvalidDocument
    E_COMMAND.
    """
    cwd, home = (root / spec.cwd).resolve(), home or root
    if not cwd.is_relative_to(root.resolve()):
        raise InvalidDocument("E_COMMAND", f"The folder {spec.cwd} is outside the repository.")
    overrides = _override_words(adapter, values)
    known = {name: value for name, value in values._asdict().items() if name != "overrides"}
    argv: list[str] = []
    for word in spec.argv:
        if word == "{overrides}":
            argv += overrides
            continue
        argv.append(_filled(word, known))
    if "/" in argv[0] and not (cwd / argv[0]).exists() and (home / spec.cwd / argv[0]).exists():
        argv[0] = str(home / spec.cwd / argv[0])
    if "{overrides}" not in spec.argv:
        argv += overrides
    flag = adapter.seeds.flag
    if flag is not None and not any("{seed}" in word for word in spec.argv):
        is_option = flag.startswith("-") and not flag.endswith("=")
        joined = f"{flag.removesuffix('=')}={values.seed}"
        argv += [flag, str(values.seed)] if is_option else [joined]
    environment = dict(spec.env)
    if spec.activate is not None:
        path = (home / spec.activate.path).expanduser()
        name = "VIRTUAL_ENV" if spec.activate.kind == "venv" else "CONDA_PREFIX"
        environment |= {name: str(path), "PATH": f"{path / 'bin'}:$PATH"}
    if "PATH" in environment:
        inherited = os.environ.get("PATH", os.defpath)
        environment["PATH"] = environment["PATH"].replace("$PATH", inherited)
    if adapter.seeds.env_flag:
        environment[adapter.seeds.env_flag] = str(values.seed)
    return Command(tuple(argv), cwd, environment, spec.timeout_s)


def _filled(word: str, known: Mapping[str, Any]) -> str:
    for name in _PLACEHOLDER.findall(word):
        if name not in known:
            why = f"{{{name}}} in {word!r} is unknown or not a separate word."
            raise InvalidDocument("E_COMMAND", why)
        if known[name] is None:
            raise InvalidDocument("E_COMMAND", f"The placeholder {{{name}}} has no value.")
        word = word.replace(f"{{{name}}}", str(known[name]))
    return word


def _override_words(adapter: Adapter, values: Values) -> list[str]:
    """Return the parameter overrides as arguments in the repository's syntax."""
    changed = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in sorted(values.overrides.items())
    }
    match adapter.config.override_style:
        case _ if not changed:
            return []
        case "k=v":
            return [f"{name}={value}" for name, value in changed.items()]
        case "k:v":
            return [f"{name}:{value}" for name, value in changed.items()]
        case "--k v":
            return [word for name, value in changed.items() for word in (f"--{name}", value)]
        case "--k=v":
            return [f"--{name}={value}" for name, value in changed.items()]
        case "file":
            return [str(values.run_dir / OVERRIDES_FILE)]
        case "source_edit" | None:
            raise InvalidDocument(
                "E_COMMAND",
                "This repository's parameters can only be changed in its source, not by overrides "
                f"({', '.join(changed)}).",
                hint="Use a patch instead.",
            )


def shell_problems(argv: tuple[str, ...]) -> list[str]:
    """Return the problems of arguments that require a shell or expose a secret."""
    problems: list[str] = []
    if Path(argv[0]).name in _SHELLS and any(w.startswith("-") and "c" in w for w in argv[1:2]):
        problems.append(f"{argv[0]} {argv[1]} would hide the command in a shell string")
    for word in argv:
        if word in _SHELL_WORDS:
            problems.append(f'"{word}" is a shell operator')
        if re.search(r"[\0\n\r]", word):
            problems.append(f"{word!r} contains a line break or a NUL")
        if redact_text(word) != word:
            problems.append("an argument looks like a secret; pass it in the environment")
    return problems


# ---------------------------------------------------------------------------- evaluations

EVALUATIONS = "evaluations"
"""folder of the evaluation results in a run's outputs"""
NOMINAL = "nominal"
_CHECKPOINT = "{checkpoint}"
"""placeholder that the supervisor fills in"""


class Perturbation(Record):
    """Perturbation of the environment in an evaluation."""

    name: str
    args: tuple[str, ...] = ()
    """words appended to the evaluator's command"""
    parameter: str | None = None
    """perturbed parameter of a robustness probe"""
    value: float | None = None
    nominal: float | None = None
    env: dict[str, str] = Field(default={})


class RunStep(Record):
    """Command of a run that the supervisor starts."""

    name: str
    """`train`, or perturbation/seed of an evaluation"""
    folder: str
    """output folder relative to the run folder"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    measures: bool = True
    """whether its output is the score, so that its code is verified before it starts"""


def perturbations_of(protocol: Protocol) -> list[Perturbation]:
    """Return the perturbations of a protocol. A plain string has no arguments."""
    return [
        Perturbation(name=each) if isinstance(each, str) else as_record(each, Perturbation, "it")
        for each in protocol.perturbations
    ]


def _worlds(protocol: Protocol) -> dict[str, Perturbation]:
    """Return the nominal environment and the perturbed environments by name."""
    found = perturbations_of(protocol)
    worlds = {each.name: each for each in (Perturbation(name=NOMINAL), *found)}
    if len(worlds) <= len(found):
        raise TelicError("each perturbation needs a unique name other than 'nominal'.")
    return worlds


def expected_names(protocol: Protocol, phase: StudyPhase) -> tuple[str, ...]:
    """Return the names of a phase's evaluations. The smoke phase runs one evaluation per kind."""
    if protocol.command is None:
        return ()
    seeds = protocol.eval_seeds[:1] if phase == "smoke" else protocol.eval_seeds
    return tuple(f"{name}/{seed}" for name in _worlds(protocol) for seed in seeds)


def compiled_in(folder: Path) -> dict[str, str]:
    """Return the environment variables that make Python ignore compiled files in the tree.

    Another candidate could have written compiled files that differ from their sources.
    """
    return {"PYTHONPYCACHEPREFIX": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}


def plan_evaluations(
    adapter: Adapter,
    protocol: Protocol,
    phase: StudyPhase,
    run_dir: Path,
    *,
    tree: Path,
    home: Path,
    device: str,
) -> tuple[RunStep, ...]:
    """Return the evaluations after training, or an empty list without an evaluator."""
    spec, worlds = protocol.command, _worlds(protocol)
    if spec is None:
        return ()
    # The evaluator is defined by the protocol, so candidate overrides do not apply.
    plain = adapter.model_copy(update={"seeds": adapter.seeds.model_copy(update={"flag": None})})
    steps: list[RunStep] = []
    for name in expected_names(protocol, phase):
        world, _, seed = name.rpartition("/")
        values = Values(
            seed=int(seed),
            run_dir=run_dir / EVALUATIONS / name,
            overrides={},
            checkpoint=_CHECKPOINT,
            device=device,
            episodes=protocol.episodes,
            horizon=protocol.horizon,
        )
        command = build_command(plain, spec, values, tree, home)
        steps.append(
            RunStep(
                name=name,
                folder=f"{run_dir.name}/{EVALUATIONS}/{name}",
                argv=(*command.argv, *worlds[world].args),
                cwd=str(command.cwd),
                env={
                    **import_path(tree, home),
                    **command.env,
                    **worlds[world].env,
                    **compiled_in(run_dir.parent / COMPILED),
                },
            )
        )
    return tuple(steps)


def evaluation_problems(
    protocol: Protocol, contract: Contract, adapter: Adapter | None
) -> list[str]:
    """Return the problems of the evaluation setup."""
    problems = [
        f"eval_seeds: {min(seen)} is also in the {role} pool for training."
        for role in dict.fromkeys(ROLES.values())
        if (seen := contract.seeds.pool(role) & set(protocol.eval_seeds))
    ]
    try:
        _worlds(protocol)
    except TelicError as error:
        problems.append(f"perturbations: {error.message}")
    if protocol.command is None:
        return problems
    if not protocol.eval_seeds:
        problems.append("eval_seeds: the evaluator requires seeds not used in training.")
    words = " ".join(protocol.command.argv)
    glob = None if adapter is None else adapter.outputs.checkpoint_glob
    if _CHECKPOINT in words and adapter is not None and not glob:
        problems.append("command: {checkpoint} requires outputs.checkpoint_glob in adapter.yaml.")
    if "{seed}" not in words:
        problems.append("command: without {seed}, all evaluations would be identical.")
    return problems
