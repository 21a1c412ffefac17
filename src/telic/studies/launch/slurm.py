"""Start a run as a Slurm job: a rendered sbatch file that runs the supervisor."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

from telic.storage.files import write_text
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.local import call
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)

SCRIPT = "job.sbatch"

_TIME = r"\d+(:\d{2}(:\d{2})?)?|\d+-\d{1,2}(:\d{2}(:\d{2})?)?"
_WORD = r"[A-Za-z0-9_.,:/+=@%-]+"
_COUNT = r"[1-9]\d*"
_SIZE = r"\d+[KMGT]?"
# Directives that a job may carry, and what their values look like. What is not listed is refused:
# an array or a dependency would start more, or later, than the gates looked at.
DIRECTIVES: dict[str, str | None] = {
    "job-name": r"telic-[a-z0-9]+",
    "output": _WORD,
    "error": _WORD,
    "chdir": _WORD,
    "time": _TIME,
    "partition": _WORD,
    "account": _WORD,
    "qos": _WORD,
    "reservation": _WORD,
    "constraint": r"[A-Za-z0-9_.,&|*()-]+",
    "nodes": _COUNT,
    "ntasks": _COUNT,
    "ntasks-per-node": _COUNT,
    "cpus-per-task": _COUNT,
    "mem": _SIZE,
    "mem-per-cpu": _SIZE,
    "mem-per-gpu": _SIZE,
    "gres": r"gpu(:[A-Za-z0-9_.-]+)?(:\d+)?",
    "gpus": _WORD,
    "gpus-per-node": _WORD,
    "gpus-per-task": _WORD,
    "nodelist": _WORD,
    "exclude": _WORD,
    "signal": r"[BR:]*[A-Z0-9]+(@\d+)?",
    "comment": r"[^\n]*",
    "export": r"ALL|NONE",
    "exclusive": None,
    "no-requeue": None,
    "requeue": None,
}

_STATES = {
    "PENDING": "waiting",
    "CONFIGURING": "waiting",
    "SUSPENDED": "waiting",
    "REQUEUED": "waiting",
    "RUNNING": "running",
    "COMPLETING": "running",
    "STAGE_OUT": "running",
}


class SlurmLauncher:
    """Submits one job per run; the job is found again by its name."""

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the sbatch file."""
        script = _script(order)
        return RenderedLaunch(
            ("sbatch", "--parsable", str(order.folder / SCRIPT)),
            script,
            SCRIPT,
            tuple(sbatch_problems(script)),
        )

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Submit it, unless a job of that name is known already."""
        permit.spend(order.nonce, order.argv_hash)
        found = self.report(order.nonce, order.folder)
        if found.state != "unknown":
            raise EnvironmentBlocked("E_LAUNCHED", f"Job {order.job_name} exists: {found.detail}.")
        rendered = self.render(order)
        write_text(order.folder / SCRIPT, rendered.document or "")
        answer = call(rendered.argv, order)
        return JobHandle(job_id=answer.partition(";")[0], attach=f"squeue --name={order.job_name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask the queue, then the accounting."""
        name = f"telic-{nonce}"
        queued = call(("squeue", "--noheader", f"--name={name}", "--format=%i %T"))
        if queued:
            number, _, state = queued.splitlines()[0].partition(" ")
            return JobReport(_STATES.get(state.strip(), "ended"), f"job {number} is {state}")  # pyright: ignore[reportArgumentType]
        past = call(
            (
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                f"--name={name}",
                "--format=JobID,State",
            )
        )
        if past:
            number, _, state = past.splitlines()[-1].partition("|")
            return JobReport("ended", f"job {number} is {state}")
        return JobReport("unknown", f"no job named {name}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Cancel it; TERM first, so that the supervisor can stop it in order."""
        call(("scancel", "--signal=TERM", "--full", f"--name=telic-{nonce}"))


def sbatch_problems(script: str) -> list[str]:
    """Return what in an sbatch file is not a directive we know with a value of its kind."""
    problems: list[str] = []
    seen: set[str] = set()
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            continue
        name, equals, value = line.removeprefix("#SBATCH").strip().removeprefix("--").partition("=")
        pattern = DIRECTIVES.get(name, "")
        if name not in DIRECTIVES:
            problems.append(f"--{name} is not a directive that a run may carry")
        elif pattern is None and equals:
            problems.append(f"--{name} takes no value")
        elif pattern is not None and not re.fullmatch(pattern, value):
            problems.append(f"--{name}={value} is not a valid value")
        if name in seen:
            problems.append(f"--{name} is given twice")
        seen.add(name)
    problems += [f"--{name} is missing" for name in ("job-name", "output") if name not in seen]
    if {"requeue", "no-requeue"} <= seen:
        problems.append("--requeue and --no-requeue contradict each other")
    return problems


def _script(order: LaunchOrder) -> str:
    directives: dict[str, str | None] = {
        "job-name": order.job_name,
        "output": str(order.folder / "supervisor.log"),
        "chdir": str(order.folder),
        # A job that Slurm starts again by itself would be a launch that no gate has seen.
        ("requeue" if order.options.get("resume_safe") else "no-requeue"): None,
    }
    if order.timeout_s:
        minutes = math.ceil((order.timeout_s + order.grace_s) / 60) + 1
        directives["time"] = f"{minutes // 60}:{minutes % 60:02d}:00"
    if order.gpus:
        directives["gres"] = f"gpu:{len(order.gpus)}"
    for name, value in sorted(order.options.get("sbatch", {}).items()):
        directives[str(name)] = None if value is True else str(value)
    lines = ["#!/bin/bash"]
    lines += [
        f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={value}"
        for name, value in directives.items()
    ]
    lines += [
        f"export {name}={shlex.quote(value)}" for name, value in sorted(order.changed.items())
    ]
    lines.append(f"exec {shlex.join(supervised(order))}")
    return "\n".join(lines) + "\n"
