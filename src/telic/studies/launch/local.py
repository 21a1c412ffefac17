"""Start a run on this machine: directly, in tmux, or spread over several processes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Literal

from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)
from telic.studies.launch.processes import (
    ask_to_stop,
    is_alive,
    is_given_up,
    is_here,
    read_pid_record,
)

_START_S = 60


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
            as_program = ("--no-python",)
        else:
            head = ("accelerate", "launch", f"--num_processes={count}")
            as_program = ("--no_python",)
        first, *rest = order.argv
        # Both start Python themselves unless told that the program is something else.
        words = rest if Path(first).name.startswith("python") else [*as_program, first, *rest]
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
        call(self.render(order).argv, order)
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
    if done.returncode != 0:
        raise EnvironmentBlocked(
            "E_LAUNCHER",
            f"{argv[0]} ended with code {done.returncode}: {(done.stdout or '').strip()[-500:]}",
        )
    return (done.stdout or "").strip()
