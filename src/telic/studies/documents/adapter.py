"""How a repository trains, evaluates and logs: what was found, and how sure we are."""

import re
import shlex
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, field_validator

from telic.core.plugins import plugin_names
from telic.errors import UnknownName
from telic.studies.documents.base import Document, DocumentPart, Sha

PLACEHOLDERS = frozenset(
    {
        *("seed", "run_dir", "overrides", "checkpoint", "device", "steps", "nproc", "nonce"),
        *("episodes", "horizon"),
    }
)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

LAUNCHERS = ("local", "tmux", "torchrun", "accelerate", "slurm", "ray", "custom")
"""the kinds that telic has itself; installed packages may bring more"""


def _know_launcher(kind: str) -> str:
    if kind not in LAUNCHERS and kind not in plugin_names("launchers", LAUNCHERS):
        known = [*LAUNCHERS, *plugin_names("launchers", LAUNCHERS)]
        raise ValueError(f"there is no launcher {kind}; there are {', '.join(known)}")
    return kind


LauncherKind = Annotated[str, AfterValidator(_know_launcher)]
ConfigSystem = Literal["hydra", "tyro", "argparse", "yaml", "gin", "dataclasses", "custom"]
OverrideStyle = Literal["k=v", "--k v", "--k=v", "file", "source_edit"]


class Activate(DocumentPart):
    """What to enter before a command."""

    kind: Literal["venv", "conda", "source_file"]
    path: str


class CommandSpec(DocumentPart):
    """A command as a list of arguments; there is no shell form."""

    argv: tuple[str, ...] = Field(min_length=1)
    cwd: str = "."
    env: dict[str, str] = Field(default={})
    timeout_s: float | None = Field(default=None, gt=0)
    activate: Activate | None = None
    shell: Literal[False] = False

    @field_validator("argv")
    @classmethod
    def _know_placeholders(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        named = {name for each in argv for name in _PLACEHOLDER.findall(each)}
        if unknown := named - PLACEHOLDERS:
            raise ValueError(
                f"unknown placeholder {{{min(unknown)}}}; known: {', '.join(sorted(PLACEHOLDERS))}"
            )
        return argv


class Commands(DocumentPart):
    """The commands of a repository; null is an honest answer."""

    train: CommandSpec | None
    eval: CommandSpec | None
    smoke: CommandSpec | None
    resume: CommandSpec | None


class ConfigSpec(DocumentPart):
    """How a parameter is changed."""

    system: ConfigSystem
    detail: str = ""
    override_style: OverrideStyle
    roots: tuple[str, ...] = ()


class LogSource(DocumentPart):
    """A place where numbers appear."""

    kind: Literal["wandb", "tensorboard", "csv", "json", "stdout", "custom"]
    default: bool = True
    path_template: str | None = None
    switch: str | None = None
    offline_env: dict[str, str] = Field(default={})
    network: bool = False


class Logging(DocumentPart):
    """Every place where numbers appear."""

    sources: tuple[LogSource, ...] = ()


class MetricMap(DocumentPart):
    """Canonical metric names to the keys of the sources."""

    map: dict[str, str] = Field(default={})


class FileSet(DocumentPart):
    """Files that play one role; external when they live in a dependency."""

    globs: tuple[str, ...] = ()
    external: bool = False


class Files(DocumentPart):
    """Where the parts of the task are."""

    reward: FileSet = FileSet()
    termination: FileSet = FileSet()
    curriculum: FileSet = FileSet()
    randomization: FileSet = FileSet()
    policy: FileSet = FileSet()
    evaluator: FileSet = FileSet()


class LauncherSpec(DocumentPart):
    """What starts the command."""

    kind: LauncherKind = "local"
    options: dict[str, Any] = Field(default={})


class Seeds(DocumentPart):
    """How seeds are set; without control no claim about seeds can be made."""

    flag: str | None = None
    env_flag: str | None = None
    controllable: bool = False
    deterministic: Literal["claimed", "observed", "no"] = "no"


class Completion(DocumentPart):
    """What proves that a run came to its end; an exit code alone never does."""

    exit_code: int = 0
    marker_file: str | None = None
    min_step_fraction: float = Field(default=0.98, ge=0, le=1)


class RepositoryOutputs(DocumentPart):
    """What a run leaves behind."""

    run_dir_template: str | None = None
    checkpoint_glob: str | None = None
    completion: Completion = Completion()


class Hazard(DocumentPart):
    """Something that could do harm or mislead."""

    id: str
    detail: str = ""
    evidence: str = ""


class Quote(DocumentPart):
    """A line of the repository that a finding rests on."""

    path: str
    line: int | None = None
    quote_hash: Sha | None = None


class Provenance(DocumentPart):
    """How sure we are of a field."""

    status: Literal["inferred", "confirmed", "unknown"]
    confidence: float | None = Field(default=None, ge=0, le=1)
    evidence: tuple[Quote, ...] = ()


class Adapter(Document):
    """adapter.yaml: how this repository trains, evaluates and logs."""

    schema_id: str = Field(default="telic.adapter/1", alias="schema")
    commands: Commands
    config: ConfigSpec
    logging: Logging
    metrics: MetricMap
    files: Files
    launcher: LauncherSpec
    seeds: Seeds
    outputs: RepositoryOutputs
    hazards: tuple[Hazard, ...] = ()
    provenance: dict[str, Provenance] = Field(default={})


_COMMANDS = ("commands.train", "commands.eval", "commands.smoke", "commands.resume")
FIELDS = (
    *_COMMANDS,
    "config",
    "logging",
    "metrics",
    "seeds",
    "outputs",
    "launcher",
    "files.reward",
    "files.termination",
    "files.curriculum",
    "files.randomization",
    "files.policy",
    "files.evaluator",
)
"""parts of an adapter that a person confirms as one"""


def confirm_field(adapter: Adapter, name: str, value: Any = None) -> Adapter:
    """Return the adapter with a field confirmed, and changed when a value is given.

    `name` is one of FIELDS or something below one, such as seeds.flag; confirming a detail confirms
    its field. A command may be given as one line. Raises UnknownName, or InvalidDocument when the
    value does not fit.
    """
    field = next((each for each in FIELDS if name == each or name.startswith(f"{each}.")), None)
    if field is None:
        raise UnknownName("adapter field", name, list(FIELDS))
    data = adapter.as_data()
    if value is not None:
        _put(data, name, _as_command(value) if name in _COMMANDS else value)
    held = data["provenance"].get(field, {"evidence": []})
    data["provenance"][field] = {**held, "status": "confirmed", "confidence": 1.0}
    return Adapter.parse(data, "adapter")


def _as_command(value: Any) -> Any:
    if value == "null":  # there is none, and a person says so
        return None
    return {"argv": shlex.split(value)} if isinstance(value, str) else value


def _put(data: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for each in path:
        inner = data.get(each)
        if not isinstance(inner, dict):
            raise UnknownName("adapter field", name, [key for key in data if key != "schema"])
        data = cast("dict[str, Any]", inner)
    is_map = bool(path) and path[-1] in {"map", "options", "env", "offline_env"}
    if last not in data and not is_map:
        raise UnknownName("adapter field", name, list(data))
    data[last] = value
