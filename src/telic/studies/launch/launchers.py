"""Ways to start a run: on this machine, with declared commands, or on a cluster, by kind."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from telic.core.plugins import load_plugin, plugin_names
from telic.errors import UnknownName
from telic.jobs.ray_submission import RaySubmissions
from telic.jobs.slurm import slurm_script
from telic.jobs.spec import JOB_FILE, JobSpec, job_command
from telic.storage.files import write_text
from telic.studies.documents.adapter import LAUNCHERS
from telic.studies.errors import EnvironmentBlocked, InvalidDocument
from telic.studies.launch.machine import (
    ask_to_stop,
    is_alive,
    is_given_up,
    is_here,
    read_pid_record,
)
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    JobState,
    Launcher,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)

ON_THIS_MACHINE = frozenset({"local", "tmux", "torchrun", "accelerate"})
"""kinds whose runs can be found in the process table"""
_START_S = 60
_WORDS: dict[str, JobState] = {state: state for state in get_args(JobState)}


def launcher_of(kind: str, options: Mapping[str, Any]) -> Launcher:
    """Return the launcher of a kind with the adapter's options; packages may bring kinds.

    Raises UnknownName, also for a kind whose package is not installed any more.
    """
    match kind:
        case "local":
            return LocalLauncher()
        case "tmux":
            return TmuxLauncher()
        case "torchrun" | "accelerate":
            return SpreadLauncher(kind)
        case "slurm":
            return SlurmLauncher(options)
        case "ray":
            return RayLauncher(options.get("address"))
        case "custom":
            return CustomLauncher(options)
        case _:
            make = load_plugin("launchers", kind, LAUNCHERS)
    if make is None:
        raise UnknownName("launcher", kind, [*LAUNCHERS, *plugin_names("launchers", LAUNCHERS)])
    return make(options)


def submit(order: LaunchOrder, rendered: RenderedLaunch) -> str:
    """Write what a launch is started from and start it; return what the program said."""
    if rendered.document is not None:
        write_text(order.folder / str(rendered.document_name), rendered.document)
    return call(rendered.argv, order)


def call(
    argv: tuple[str, ...], order: LaunchOrder | None = None, *, output: int = subprocess.PIPE
) -> str:
    """Run a launcher's own command to its end and return what it said.

    Raises EnvironmentBlocked with its complaint.
    """
    if shutil.which(argv[0]) is None:
        raise EnvironmentBlocked(
            "E_LAUNCHER",
            f"{argv[0]} is not installed here.",
            hint="Install it, or choose another launcher in the contract's hardware section.",
        )
    try:
        done = subprocess.run(
            argv,
            cwd=order.folder if order else None,
            env=order.variables if order else None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_START_S,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentBlocked(
            "E_LAUNCHER", f"{argv[0]} did not answer within {_START_S} s."
        ) from None
    said = (done.stdout or "").strip()
    if done.returncode != 0:
        raise EnvironmentBlocked(
            "E_LAUNCHER", f"{argv[0]} ended with code {done.returncode}: {said[-500:]}"
        )
    return said


class LocalLauncher:
    """The supervisor in a session of its own."""

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the supervisor's command."""
        return RenderedLaunch(supervised(order, detach=True))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Start the supervisor; it leaves this process at once."""
        permit.spend(order.nonce, order.argv_hash)
        with (order.folder / "supervisor.log").open("ab") as log:
            call(self.render(order).argv, order, output=log.fileno())
        return JobHandle()

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Look into the process table."""
        record = read_pid_record(folder)
        if record is None:
            return JobReport("unknown", "no process has claimed this launch")
        if is_given_up(record):
            return JobReport("ended", "the launch was given up")
        if not is_here(record):
            return JobReport("unknown", f"it runs on {record['host']}, which is not this machine")
        return JobReport("running" if is_alive(record) else "ended", f"process {record['pid']}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Send TERM to the supervisor, which passes it on, waits and then kills."""
        ask_to_stop(folder, "user", "asked to stop")


class SpreadLauncher(LocalLauncher):
    """As local, with torchrun or accelerate between the supervisor and the program."""

    def __init__(self, program: Literal["torchrun", "accelerate"]) -> None:
        self.program = program

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the supervisor's command around the launcher program's."""
        count = int(order.options.get("nproc") or len(order.gpus) or 1)
        if self.program == "torchrun":
            head = ("torchrun", "--standalone", f"--nproc-per-node={count}")
            as_program = "--no-python"
        else:
            head = ("accelerate", "launch", f"--num_processes={count}")
            as_program = "--no_python"
        first, *rest = order.argv
        # Both start Python themselves unless told that the program is something else.
        words = rest if Path(first).name.startswith("python") else [as_program, first, *rest]
        return RenderedLaunch(supervised(order._replace(argv=(*head, *words)), detach=True))


class TmuxLauncher(LocalLauncher):
    """A detached tmux session, named after the nonce, that runs the supervisor.

    The session has a server of its own, because a server that runs already would give the run the
    environment of whoever started it.
    """

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the tmux command."""
        name = order.job_name
        start = ("tmux", "-f", "/dev/null", "-L", name, "new-session", "-d", "-s", name)
        return RenderedLaunch((*start, "-c", str(order.cwd), "--", *supervised(order)))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Start the session; a session of that name is refused by tmux itself."""
        permit.spend(order.nonce, order.argv_hash)
        submit(order, self.render(order))
        return JobHandle(job_id=order.job_name, attach=f"tmux -L {order.job_name} attach")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask tmux while no process has claimed the launch, else look into the process table."""
        if read_pid_record(folder) is not None:
            return super().report(nonce, folder)
        name = f"telic-{nonce}"
        asked = subprocess.run(
            ["tmux", "-L", name, "has-session", "-t", name], capture_output=True, check=False
        )
        return JobReport("running" if asked.returncode == 0 else "unknown", f"tmux session {name}")


class CustomLauncher:
    """Declared argument lists for start, status and stop; each must hold `{nonce}`.

    `{command}` alone stands for the supervised command, word by word, and `{run_dir}` for the run
    folder. `status` prints waiting, running, ended or unknown.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the start command."""
        problems = [
            f'the custom launcher\'s "{name}" must be a list of words that holds {{nonce}}'
            for name in ("start", "status", "stop")
            if not any("{nonce}" in str(word) for word in self.options.get(name, ()))
        ]
        if problems:
            return RenderedLaunch((), problems=tuple(problems))
        argv: list[str] = []
        for word in self._words("start", order.nonce, order.folder):
            argv += supervised(order) if word == "{command}" else (word,)
        return RenderedLaunch(tuple(argv))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Run the start command; what it prints is the job's id."""
        permit.spend(order.nonce, order.argv_hash)
        said = submit(order, self.render(order))
        return JobHandle(job_id=said.splitlines()[-1] if said else order.job_name)

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Run the status command."""
        said = call(self._words("status", nonce, folder)).strip()
        return JobReport(_WORDS.get(said, "unknown"), said)

    def stop(self, nonce: str, folder: Path) -> None:
        """Run the stop command."""
        call(self._words("stop", nonce, folder))

    def _words(self, name: str, nonce: str, folder: Path) -> tuple[str, ...]:
        words = tuple(str(word) for word in self.options.get(name, ()))
        if not any("{nonce}" in word for word in words):
            raise InvalidDocument(
                "E_LAUNCHER", f'The custom launcher has no "{name}" command that holds {{nonce}}.'
            )
        return tuple(w.replace("{nonce}", nonce).replace("{run_dir}", str(folder)) for w in words)


class RayLauncher:
    """Submits one job per run to a Ray cluster that shares the file system.

    The submission id is the nonce, which Ray accepts once.
    """

    def __init__(self, address: str | None = None) -> None:
        self._ray = RaySubmissions(address)

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the submission as the `ray` command would make it."""
        spec = _ray_job(order)
        words = self._ray.words(spec, order.folder / JOB_FILE)
        return RenderedLaunch(words, spec.as_text(), JOB_FILE)

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Submit it."""
        permit.spend(order.nonce, order.argv_hash)
        try:
            with self._reached():
                self._ray.submit(_ray_job(order), order.folder / JOB_FILE, order.labels)
        except (RuntimeError, ValueError) as error:
            raise EnvironmentBlocked(
                "E_LAUNCHER", f"Ray did not take job {order.job_name}: {error}"
            ) from None
        return JobHandle(job_id=order.job_name, attach=f"ray job logs --follow {order.job_name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask for the job's status."""
        with self._reached():
            return JobReport(*self._ray.state(f"telic-{nonce}"))

    def stop(self, nonce: str, folder: Path) -> None:
        """Stop it."""
        with self._reached():
            self._ray.stop(f"telic-{nonce}")

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except ConnectionError as error:
            raise EnvironmentBlocked(
                "E_LAUNCHER",
                f"There is no Ray cluster at {self._ray.address}: {error}",
                hint="Start one with: ray start --head",
            ) from None


def _ray_job(order: LaunchOrder) -> JobSpec:
    return JobSpec(
        name=order.job_name,
        argv=supervised(order),
        cwd=str(order.folder),
        env=order.changed,
        gpus=len(order.gpus),
    )


# ---------------------------------------------------------------------------- Slurm

# Directives that a job may carry, by what their values look like. What is not listed is refused:
# an array or a dependency would start more, or later, than the gates looked at.
_VALUES: dict[str | None, str] = {
    r"telic-[a-z0-9]+": "job-name",
    r"[A-Za-z0-9_.,:/+=@%-]+": "output error chdir partition account qos reservation wckey "
    "gpus gpus-per-node gpus-per-task nodelist exclude",
    r"\d+(:\d{2}(:\d{2})?)?|\d+-\d{1,2}(:\d{2}(:\d{2})?)?": "time",
    r"[A-Za-z0-9_.,&|*()-]+": "constraint",
    r"[1-9]\d*": "nodes ntasks ntasks-per-node cpus-per-task",
    r"\d+[KMGT]?": "mem mem-per-cpu mem-per-gpu",
    r"gpu(:[A-Za-z0-9_.-]+)?(:\d+)?": "gres",
    r"[BR:]*[A-Z0-9]+(@\d+)?": "signal",
    r"[^\n]*": "comment",
    r"ALL|NONE": "export",
    r"append|truncate": "open-mode",
    None: "exclusive no-requeue requeue",
}
DIRECTIVES = {name: pattern for pattern, names in _VALUES.items() for name in names.split()}
_WARNED_S = 90
"""seconds before its limit at which submitit has Slurm warn a job; the run must be over by then"""
_STATES: dict[str, JobState] = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "SUSPENDED", "REQUEUED"), "waiting"),
    **dict.fromkeys(("RUNNING", "COMPLETING", "STAGE_OUT"), "running"),
}


class SlurmLauncher:
    """Submits one job per run through submitit; the job is found again by its name.

    Args:
        options: `sbatch` are directives; `cluster: local` runs on this machine instead, through the
            same package, to try an adapter without a cluster.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._is_local = options.get("cluster") == "local"

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the job's file; what it makes of the script for sbatch is checked."""
        spec, path = _slurm_job(order), order.folder / JOB_FILE
        problems = () if self._is_local else tuple(sbatch_problems(slurm_script(spec, path)))
        return RenderedLaunch(job_command("submit", path), spec.as_text(), JOB_FILE, problems)

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Submit it, unless a job of that name is known already."""
        permit.spend(order.nonce, order.argv_hash)
        report = self.report(order.nonce, order.folder)
        if report.state != "unknown":
            raise EnvironmentBlocked("E_LAUNCHED", f"Job {order.job_name} exists: {report.detail}.")
        number = submit(order, self.render(order)).splitlines()[-1]
        return JobHandle(job_id=number, attach=f"squeue --name={order.job_name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask the queue, then the accounting; on this machine the process table."""
        if self._is_local:
            return LocalLauncher().report(nonce, folder)
        name = f"telic-{nonce}"
        queued = call(("squeue", "--noheader", f"--name={name}", "--format=%i %T"))
        if queued:
            number, _, state = queued.splitlines()[0].partition(" ")
            return JobReport(_STATES.get(state.strip(), "ended"), f"job {number} is {state}")
        listing = ("sacct", "--noheader", "--parsable2", "--allocations")
        past = call((*listing, f"--name={name}", "--format=JobID,State"))
        if past:
            number, _, state = past.splitlines()[-1].partition("|")
            return JobReport("ended", f"job {number} is {state}")
        return JobReport("unknown", f"no job named {name}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Cancel it; TERM first, so that the supervisor can stop it in order."""
        if self._is_local:
            LocalLauncher().stop(nonce, folder)
            return
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


def _slurm_job(order: LaunchOrder) -> JobSpec:
    """Return the file of a run: its command under the supervisor, and what it asks of Slurm."""
    # A job that Slurm starts again by itself would be a launch that no gate has seen.
    asks: dict[str, Any] = {"requeue" if order.options.get("resume_safe") else "no-requeue": True}
    if order.gpus:
        asks["gres"] = f"gpu:{len(order.gpus)}"
    asks |= {str(name): value for name, value in order.options.get("sbatch", {}).items()}
    ends_s = order.timeout_s + order.grace_s + _WARNED_S if order.timeout_s else None
    return JobSpec(
        name=order.job_name,
        argv=supervised(order),
        cwd=str(order.folder),
        env=order.changed,
        cluster="local" if order.options.get("cluster") == "local" else "slurm",
        asks=asks,
        minutes=0 if ends_s is None else math.ceil(ends_s / 60) + 1,
    )
