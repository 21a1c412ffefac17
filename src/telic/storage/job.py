"""A job: one file that says what to run, and one entry that runs it wherever a scheduler puts it.

    python -m telic.storage.job run FILE       run it here, to its end
    python -m telic.storage.job submit FILE    hand it to a scheduler; prints how that knows it

Whoever wants work done elsewhere writes such a file; what runs it need not know what it is. Files
hold no secrets: those are in the environment of whoever submits, which schedulers pass on.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Record
from telic.errors import MissingExtra

Cluster = Literal["slurm", "local"]
JOB_FILE = "job_spec.json"


class JobSpec(Record):
    """One process to run, and what is asked of a scheduler for it."""

    name: str
    """under which a scheduler knows it"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    """set on top of the environment that it finds"""
    cluster: Cluster = "slurm"
    """local runs it on this machine, through the same package"""
    asks: dict[str, Any] = Field(default={})
    """directives for Slurm; True stands for one without a value"""
    minutes: int = 0
    """after which the scheduler ends it; 0 is never"""

    def as_text(self) -> str:
        """Return the file's content."""
        return self.model_dump_json(indent=2) + "\n"


def job_command(verb: Literal["run", "submit"], path: Path) -> tuple[str, ...]:
    """Return the words that run or submit the job in a file."""
    return (sys.executable, "-m", "telic.storage.job", verb, str(path))


def run_job(path: str) -> int:
    """Run the job of a file to its end; returns its exit code."""
    spec = JobSpec.model_validate_json(Path(path).read_bytes())
    return subprocess.call(spec.argv, cwd=spec.cwd, env={**os.environ, **spec.env})


def submit_job(path: Path) -> str:
    """Hand the job of a file to its scheduler; returns the number that it gave.

    Raises MissingExtra without the extra `slurm`, RuntimeError where there is no Slurm.
    """
    spec = JobSpec.model_validate_json(path.read_bytes())
    kinds = _submitit()
    kind = kinds.LocalExecutor if spec.cluster == "local" else kinds.SlurmExecutor
    executor = kind(folder=_folder(path))
    if spec.cluster == "local":
        executor.update_parameters(timeout_min=spec.minutes or 10 * 365 * 24 * 60)
    else:
        executor.update_parameters(**_parameters(spec))
    return str(executor.submit(run_job, str(path)).job_id)


def slurm_script(spec: JobSpec, path: Path) -> str:
    """Return the script that `submit_job` would give to sbatch."""
    _submitit()
    slurm = importlib.import_module("submitit.slurm.slurm")
    folder = _folder(path)
    command = f"{sys.executable} -u -m submitit.core._submit {folder}"
    return str(slurm._make_sbatch_string(command=command, folder=folder, **_parameters(spec)))


def _folder(path: Path) -> Path:
    return path.parent / "submitit"


def _parameters(spec: JobSpec) -> dict[str, Any]:
    asks = {name.replace("_", "-"): value for name, value in spec.asks.items()}
    return {"job_name": spec.name, "time": spec.minutes, "additional_parameters": asks}


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise MissingExtra("submitit", "slurm", "Starting runs on Slurm") from None


def main(words: list[str]) -> int:
    """Do what the command line says."""
    match words:
        case ["run", path]:
            return run_job(path)
        case ["submit", path]:
            sys.stdout.write(submit_job(Path(path)) + "\n")
            return 0
        case _:
            sys.stderr.write("usage: python -m telic.storage.job run|submit FILE\n")
            return 2


if __name__ == "__main__":
    # submitit pickles by name, and the name of a program is __main__
    from telic.storage import job

    sys.exit(job.main(sys.argv[1:]))
