"""Schema of adapter.yaml, which describes how a repository trains, evaluates and logs."""

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from telic.studies.canonical import content_hash
from telic.studies.documents.base import Document, DocumentPart

PLACEHOLDERS = frozenset(
    {
        *("seed", "run_dir", "overrides", "checkpoint", "device", "steps", "nproc", "nonce"),
        *("episodes", "horizon"),
    }
)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


ConfigSystem = Literal["hydra", "tyro", "argparse", "yaml", "gin", "dataclasses", "custom"]
OverrideStyle = Literal["k=v", "k:v", "--k v", "--k=v", "file", "source_edit"]


class Activate(DocumentPart):
    """Environment to activate before a command."""

    kind: Literal["venv", "conda"] = Field(description="Kind of environment.")
    path: str = Field(description="Folder, relative to the repository.")


class CommandSpec(DocumentPart):
    """Command as a list of arguments, run without a shell."""

    argv: tuple[str, ...] = Field(
        min_length=1,
        description="Program and arguments. Placeholders: {seed} {steps} {run_dir} {overrides} "
        "{checkpoint} {device} {nproc} {episodes} {horizon} {nonce}.",
    )
    cwd: str = Field(default=".", description="Working directory, relative to the repository.")
    env: dict[str, str] = Field(default={}, description="Environment variables to set.")
    timeout_s: float | None = Field(default=None, gt=0, description="Time limit in seconds.")
    activate: Activate | None = Field(default=None, description="Environment to activate first.")
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
    """Commands of a repository. Null means that a command is unknown or does not exist."""

    train: CommandSpec | None = Field(description="Command that trains one policy with one seed.")
    eval: CommandSpec | None = Field(description="Command that only evaluates a checkpoint.")
    smoke: CommandSpec | None = Field(description="Short training, or null to use `train`.")
    resume: CommandSpec | None = Field(description="Command that resumes from a checkpoint.")


class ConfigSpec(DocumentPart):
    """Method for changing a parameter. Null means that it is unknown."""

    system: ConfigSystem | None = Field(description="Library that parses the settings.")
    detail: str = Field(default="", description="Remarks for readers.")
    override_style: OverrideStyle | None = Field(
        description="Command-line syntax of a parameter, or source_edit."
    )
    roots: tuple[str, ...] = Field(default=(), description="Configuration files and folders.")


class LogSource(DocumentPart):
    """Source of logged numbers."""

    kind: Literal["wandb", "tensorboard", "csv", "json", "stdout", "custom"]
    default: bool = Field(default=True, description="Whether the log is written by default.")
    path_template: str | None = Field(default=None, description="File in the run folder.")
    switch: str | None = Field(default=None, description="Option that enables or disables the log.")
    offline_env: dict[str, str] = Field(default={}, description="Variables for offline use.")
    network: bool = Field(default=False, description="Whether this log uses the network.")


class Logging(DocumentPart):
    """All sources of logged numbers."""

    sources: tuple[LogSource, ...] = Field(default=(), description="Log sources.")


class MetricMap(DocumentPart):
    """Mapping from canonical metric names to log keys."""

    map: dict[str, str] = Field(
        default={}, description="Names in the log for `return`, `success`, `episode_length`, …."
    )


class FileSet(DocumentPart):
    """Files with a common role."""

    globs: tuple[str, ...] = Field(default=(), description="Patterns relative to the repository.")


class Files(DocumentPart):
    """Files by role. Candidates must not change evaluator files."""

    evaluator: FileSet = FileSet()


class LauncherSpec(DocumentPart):
    """Settings for starting commands."""

    kind: Literal["local"] = Field(default="local", description="On this machine.")
    options: dict[str, Any] = Field(default={}, description="grace_s, nproc.")


class Seeds(DocumentPart):
    """Option or variable that sets the seed, which claims require. Null means unknown."""

    flag: str | None = Field(default=None, description="Option that sets the seed, e.g. --seed.")
    env_flag: str | None = Field(default=None, description="Variable that sets the seed.")
    controllable: bool | None = Field(default=None, description="Whether the seed can be set.")
    deterministic: Literal["claimed", "observed", "no"] | None = Field(
        default=None, description="Whether equal seeds produce equal results."
    )


class Completion(DocumentPart):
    """Criteria for a finished run, in addition to its exit code."""

    exit_code: int = Field(default=0, description="Exit code of a finished run.")
    marker_file: str | None = Field(default=None, description="File written at the end of a run.")


class RepositoryOutputs(DocumentPart):
    """Outputs of a run."""

    run_dir_template: str | None = Field(
        default=None,
        description="Pattern with {seed} or {nonce} of outputs in the working directory of the "
        "command, e.g. runs/*__{seed}__*. Matching outputs are moved to the run folder.",
    )
    checkpoint_glob: str | None = Field(default=None, description="Checkpoint files of a run.")
    completion: Completion = Completion()


class Hazard(DocumentPart):
    """Risk of running the repository's code. Gate G23 refuses some risks."""

    id: str = Field(description="actuates_hardware, network_by_default, deletes_results, ...")
    detail: str = Field(default="", description="Description of the hazard.")
    evidence: str = Field(default="", description="Sources as path:line, separated by commas.")


class Provenance(DocumentPart):
    """Source of a field's value."""

    status: Literal["inferred", "confirmed", "unknown"] = Field(
        description="`unknown` (no value), `inferred` (from sources), or `confirmed` (by a person)."
    )
    evidence: tuple[str, ...] = Field(default=(), description="Sources as path:line.")


class Adapter(Document):
    """Training, evaluation and logging of a repository (adapter.yaml)."""

    schema_id: str = Field(default="telic.adapter/1", alias="schema")
    commands: Commands = Field(description="Commands as lists of words, or null if unknown.")
    config: ConfigSpec = Field(description="How to change a parameter, or null if unknown.")
    logging: Logging = Field(description="Logs, with their files in the run folder.")
    metrics: MetricMap = Field(description="Name in the log for each canonical metric.")
    files: Files = Field(description="Files by role. Roles limit what candidates may change.")
    launcher: LauncherSpec = Field(description="Settings for starting commands.")
    seeds: Seeds = Field(description="How to set seeds, or null if unknown.")
    outputs: RepositoryOutputs = Field(description="Outputs of a run.")
    hazards: tuple[Hazard, ...] = Field(default=(), description="Risks that may block a launch.")
    provenance: dict[str, Provenance] = Field(
        default={}, description="Source of each field, with path:line."
    )

    @property
    def proven_hash(self) -> str:
        """Hash of the content verified by a smoke test: everything except the sources."""
        return content_hash({k: v for k, v in self.as_data().items() if k != "provenance"})


_COMMANDS = ("commands.train", "commands.eval", "commands.smoke", "commands.resume")
FIELDS = (
    *_COMMANDS,
    "config",
    "logging",
    "metrics",
    "seeds",
    "outputs",
    "launcher",
    "files.evaluator",
)
"""adapter parts that a person confirms as a unit"""
