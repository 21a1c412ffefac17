"""Confine this process for good: files, network, processes, memory, environment.

Call it once, after everything is imported and opened and before foreign code is executed. It
holds for root and for ordinary users. Order matters: file rules and capabilities cover the calling
thread and the threads it starts afterwards, so thread pools (torch, OpenMP, physics) must start
later. On a system without Landlock and seccomp the limits and the allow-list remain, and the report
says so.

It does not hide: names, sizes and times of files (stat), the clock, the machine's load, and what
the process was given by its caller. It is one wall of several, not a virtual machine.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from telic.errors import Refused
from telic.sandbox import kernel, landlock, seccomp
from telic.sandbox.environment import clean_environment, scrub_environment
from telic.sandbox.paths import grants
from telic.sandbox.report import ConfinementReport, Part

GIBIBYTE = 1 << 30
_DRIVER_THREADS = ("cuda",)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a confined process may still use."""

    writable: Sequence[Path] = ()
    """folders it may read and write"""
    readable: Sequence[Path] = ()
    """further files and folders it may read; the interpreter and its packages always are"""
    devices: Sequence[Path] = ()
    """device files it may use, such as a GPU's"""
    memory_bytes: int = 4 * GIBIBYTE
    """private memory it may take on top of what it has when it is confined"""
    file_bytes: int = 4 * GIBIBYTE
    """largest file it may write"""
    open_files: int = 512
    """files it may hold open"""
    cpu_s: int | None = None
    """processor time after which the kernel ends it; None for no limit"""


def confine(rules: Confinement) -> ConfinementReport:
    """Confine this process and all its threads, for good, and say what is in force.

    Raises:
        Refused: threads are running that the file rules of this kernel would not cover, or the
            rules could not be put in force.
    """
    version = landlock.abi()
    # A GPU's driver starts threads when the device is opened, which must be before. They run none
    # of our code; the system-call filter covers them.
    drivers = _DRIVER_THREADS if rules.devices else ()
    others = [name for name in kernel.threads()[1:] if not name.startswith(drivers)]
    if others and kernel.LINUX and version < landlock.SYNC_ABI:
        raise Refused(
            f"This process cannot be confined: {len(others)} other threads run already "
            f"({', '.join(others)}), and the file rules would not cover them.",
            hint="Confine first, then start thread pools and simulations.",
        )
    removed = scrub_environment()
    parts = [Part("environment", True, f"{len(removed)} variables removed")]
    parts.append(_attempt("limits", lambda: _limit(rules)))
    parts.append(_attempt("privileges", _give_up_privileges))
    files = _attempt("files", lambda: _restrict_files(rules, version))
    if version and not files.active:
        raise Refused(
            f"This kernel has file rules, but they could not be put in force: {files.message}.",
            hint="Check that the run folder exists and can be read.",
        )
    parts.append(files)
    parts.append(_attempt("system calls", _filter_calls))
    return ConfinementReport(parts=tuple(parts), landlock_abi=version)


def _attempt(name: str, step: Callable[[], str]) -> Part:
    """Take one step; a kernel that cannot do it is reported, not hidden."""
    try:
        return Part(name, True, step())
    except (OSError, ValueError, NotImplementedError) as error:
        return Part(name, False, str(error))


def _limit(rules: Confinement) -> str:
    # RLIMIT_DATA counts private writable memory. The address space (RLIMIT_AS) would not do: torch,
    # thread stacks and GPU drivers reserve far more of it than they use.
    _lower(resource.RLIMIT_DATA, _data_bytes() + rules.memory_bytes)
    _lower(resource.RLIMIT_FSIZE, rules.file_bytes)
    _lower(resource.RLIMIT_NOFILE, rules.open_files)
    _lower(resource.RLIMIT_CORE, 0)
    if rules.cpu_s is not None:
        # A second between the two: the first limit sends SIGXCPU, which says why, the second kills.
        resource.setrlimit(resource.RLIMIT_CPU, (rules.cpu_s, rules.cpu_s + 1))
    return f"{rules.memory_bytes / GIBIBYTE:.3g} GiB of memory, {rules.open_files} open files"


def _lower(which: int, value: int) -> None:
    """Set both limits, never above what is already imposed."""
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _data_bytes() -> int:
    """Return the private writable memory of this process."""
    if not kernel.LINUX:
        return 0
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def _give_up_privileges() -> str:
    if not kernel.LINUX:
        raise NotImplementedError("only Linux has them")
    kernel.forbid_new_privileges()
    kernel.drop_capabilities()
    return "no set-user-id programs, no powers of root"


def _restrict_files(rules: Confinement, version: int) -> str:
    if version == 0:
        raise NotImplementedError("this kernel has no Landlock (Linux 5.13 or later has it)")
    landlock.restrict(grants(rules.writable, rules.readable, rules.devices), version)
    network = ", no network" if version >= 4 else ""
    return f"Landlock {version}: writes only to its own folders ({len(rules.writable)}){network}"


def _filter_calls() -> str:
    if not seccomp.supported():
        raise NotImplementedError(f"no filter is written for {sys.platform} on {kernel.MACHINE}")
    seccomp.install()
    return "seccomp: no sockets, programs, child processes or signals to others"


def available(timeout_s: float = 60.0) -> ConfinementReport:
    """Confine a throw-away process, try its doors, and report what this system can do."""
    package = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "outside")
        secret.write_text("secret")
        inside = Path(folder, "inside")
        inside.mkdir()
        trial = subprocess.run(
            [sys.executable, "-P", "-m", "telic.sandbox.trial", str(inside), str(secret)],
            env=clean_environment(inside, python_path=(package,)),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    try:
        return ConfinementReport.from_dict(json.loads(trial.stdout))
    except (ValueError, KeyError, TypeError):
        reason = (trial.stderr.strip().splitlines() or ["no output"])[-1]
        failed = f"the trial ended with {trial.returncode}: {reason}"
        return ConfinementReport(parts=(Part("trial", False, failed),), landlock_abi=0)
