"""Permanently restrict the files, network, processes and memory available to this process.

Call this once, after all imports and file opens, and before untrusted code runs. It works for root
and for ordinary users. File rules and capabilities cover the calling thread and the threads that it
starts afterwards, so thread pools (torch, OpenMP, physics) must be started later. Without Landlock
and seccomp, only the limits and the allow-list apply, as the report states.

Names, sizes and times of files (stat), the clock, the machine's load, and data from the caller are
not hidden. This is one layer of defense, not a virtual machine.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from telic.core.config import Record
from telic.errors import Refused
from telic.sandbox import _kernel as kernel
from telic.sandbox._allowed import words
from telic.sandbox.limits import GIBIBYTE, Limits

_DRIVER_THREADS = ("cuda",)

# System paths a confined interpreter may read, besides its code and libraries.
_SYSTEM = ("/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime")
_FACTS = (
    *(f"/proc/self/{name}" for name in ("fd", "maps", "stat", "statm", "status")),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/driver"),
    *("/sys/devices/system", "/dev/urandom", "/dev/random", "/dev/zero"),
)
_READ_LATER = ("gymnasium", "mujoco", "mujoco_warp", "numpy", "torch", "warp")
"""Packages that read data files after their import and may be installed in other locations."""

ALLOWED = words("""
CUDA_VISIBLE_DEVICES LANG LC_ALL LC_CTYPE LD_LIBRARY_PATH MKL_NUM_THREADS OMP_NUM_THREADS
OPENBLAS_NUM_THREADS PYTHONHASHSEED PYTHONPATH TMPDIR TZ USER WARP_CACHE_PATH
""")
"""Environment variables available to a sandboxed process. They include no keys or tokens."""


class Confinement(Record):
    """Resources available to a sandboxed process."""

    writable: tuple[Path, ...] = ()
    """folders with read and write access"""
    readable: tuple[Path, ...] = ()
    """further readable files and folders, in addition to the interpreter and its packages"""
    searched: tuple[Path, ...] = ()
    """further folders whose entries may be listed"""
    devices: tuple[Path, ...] = ()
    """accessible device files, e.g. of a GPU"""
    programs: tuple[Path, ...] = ()
    """programs that may be started, with the same confinement. If empty, none may be started."""
    limits: Limits = Limits()
    """limits, of which the kernel enforces those on memory, files and CPU time"""


class ConfinementPart(Record):
    """Mechanism of the confinement."""

    name: str
    active: bool
    message: str
    """effect of the mechanism, or the reason why it is inactive"""


class ConfinementReport(Record):
    """Report of all mechanisms that confine a process."""

    parts: tuple[ConfinementPart, ...]
    landlock_abi: int
    """version of the kernel's Landlock ABI, or 0 if it has none"""

    @property
    def missing(self) -> tuple[ConfinementPart, ...]:
        """Return the inactive mechanisms."""
        return tuple(part for part in self.parts if not part.active)


def confine(rules: Confinement) -> ConfinementReport:
    """Confine this process and all its threads permanently and report the active mechanisms.

    Raises Refused if the file rules cannot be enforced or would not cover all threads.
    """
    version = kernel.landlock_abi()
    # A GPU's driver starts threads when the device is opened, which must happen earlier. They run
    # none of our code; the system-call filter covers them.
    drivers = _DRIVER_THREADS if rules.devices else ()
    others = [name for name in kernel.threads()[1:] if not name.startswith(drivers)]
    if others and kernel.LINUX and version < kernel.SYNC_ABI:
        raise Refused(
            f"This process cannot be confined: {len(others)} other threads are running "
            f"({', '.join(others)}), and the file rules would not cover them.",
            hint="Confine the process before starting thread pools and simulations.",
        )
    # The initial environment stays readable in /proc/self/environ, so a worker must also be started
    # with `clean_environment`.
    removed = sorted(set(os.environ) - ALLOWED)
    for name in removed:
        del os.environ[name]  # also in the C library's environment
    message = f"variables removed: {len(removed)}"
    parts = [
        ConfinementPart(name="environment", active=True, message=message),
        _attempt("limits", lambda: _limit(rules.limits)),
        _attempt("privileges", _give_up_privileges),
    ]
    files = _attempt("files", lambda: _restrict_files(rules, version))
    if version and not files.active:
        raise Refused(
            f"This kernel supports file rules, but they could not be enforced: {files.message}.",
            hint="Check that the run folder exists and can be read.",
        )
    calls = _attempt("system calls", lambda: _filter_calls(bool(rules.programs)))
    parts += [files, calls, *_probe(rules)]
    return ConfinementReport(parts=tuple(parts), landlock_abi=version)


def _attempt(name: str, step: Callable[[], str]) -> ConfinementPart:
    """Run one step of the confinement and report whether the kernel supports it."""
    try:
        return ConfinementPart(name=name, active=True, message=step())
    except (OSError, ValueError, NotImplementedError) as error:
        return ConfinementPart(name=name, active=False, message=str(error))


def _limit(limits: Limits) -> str:
    # RLIMIT_DATA counts private writable memory. RLIMIT_AS is unsuitable: torch, thread stacks and
    # GPU drivers reserve far more address space than they use.
    memory = limits.memory_bytes + limits.reserved_bytes
    _lower(resource.RLIMIT_DATA, _data_bytes() + memory)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_CORE, 0)
    if limits.cpu_s is not None:
        # One second apart: the first limit sends SIGXCPU, which states the cause, the second kills.
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))
    return f"{memory / GIBIBYTE:.3g} GiB of memory, {limits.open_files} open files"


def _lower(which: int, value: int) -> None:
    """Set the soft and hard limit of a resource, but not above the current limit."""
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
        raise NotImplementedError("available on Linux only")
    kernel.forbid_new_privileges()
    kernel.drop_capabilities()
    return "no set-user-id programs, no root privileges"


def _restrict_files(rules: Confinement, version: int) -> str:
    if version == 0:
        raise NotImplementedError("this kernel lacks Landlock (requires Linux 5.13 or later)")
    allowed = grants(rules.writable, rules.readable, rules.devices)
    allowed += [(path, kernel.READ_DIR) for path in rules.searched]
    allowed += [(path, kernel.READ | kernel.EXECUTE) for path in rules.programs]
    kernel.restrict_files(allowed, version)
    network = ", no network" if version >= 4 else ""
    return f"Landlock {version}: writes only to its own folders ({len(rules.writable)}){network}"


def _filter_calls(children: bool) -> str:
    if not kernel.has_filter():
        raise NotImplementedError(f"no filter is available for {sys.platform} on {kernel.MACHINE}")
    kernel.install_filter(children)
    if children:
        return "seccomp: no sockets, no signals to others, same confinement for child processes"
    return "seccomp: no sockets, programs, child processes or signals to other processes"


def grants(
    writable: Iterable[Path], readable: Iterable[Path], devices: Iterable[Path]
) -> list[tuple[Path, int]]:
    """Return (path, rights) pairs for `_kernel.restrict_files`."""
    home = Path(os.path.expanduser("~")).resolve()
    # A library may be directly in a home folder; granting all of that would be too much.
    too_broad = {home, *home.parents, Path("/tmp"), Path("/root"), Path("/home")}
    return [
        *((path, kernel.WRITE) for path in writable),
        *((path, kernel.READ) for path in (*readable, *(code_paths() - too_broad))),
        *((Path(path), kernel.READ) for path in (*_SYSTEM, *_FACTS)),
        *((path, kernel.DEVICE) for path in (Path("/dev/null"), *devices)),
    ]


def code_paths() -> set[Path]:
    """Return the folders of the interpreter, its packages and the loaded libraries."""
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    folders.add(Path(os.__file__).parent)
    folders |= {Path(each) for each in sys.path if each and _holds_installed(Path(each))}
    folders.add(Path(__file__).parents[1])
    # As with PYTHONPATH, packages may be in different locations.
    found = (importlib.util.find_spec(name) for name in _READ_LATER)
    folders |= {Path(spec.origin).parent for spec in found if spec and spec.origin}
    maps = Path("/proc/self/maps")
    mapped = maps.read_text().splitlines() if maps.exists() else ()
    loaded = [line.partition("/")[2] for line in mapped]
    folders |= {Path("/", path).parent for path in loaded if ".so" in path}
    # Not Path.exists: it raises if an ordinary user lacks permission.
    return {path.resolve() for path in folders if os.path.exists(path)}


def _holds_installed(folder: Path) -> bool:
    """Return whether packages are installed in a folder of `sys.path` from a .pth file.

    An editable project (.egg-info) does not count, because its folder may also contain keys.
    """
    if folder.name in ("site-packages", "dist-packages"):
        return True
    try:
        return any(path.suffix == ".dist-info" for path in folder.iterdir())
    except OSError:  # a zip file, or not readable
        return False


def clean_environment(
    folder: Path, *, python_path: tuple[Path, ...] = (), base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a worker."""
    base = os.environ if base is None else base
    kept = {name: value for name, value in base.items() if name in ALLOWED}
    named = map(Path, filter(None, base.get("PYTHONPATH", "").split(os.pathsep)))
    packages = [path.absolute() for path in named if _holds_installed(path)]
    return {
        **kept,
        # numpy's linear algebra starts threads at import, before confinement.
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(map(str, (*python_path, *packages))),
        "TMPDIR": str(folder),
        # Libraries that query the user name read the list of users unless this is set.
        "USER": "telic",
    }


def _probe(rules: Confinement) -> Iterator[ConfinementPart]:
    """Attempt forbidden operations to verify that the rules are effective."""
    import _socket  # the part of socket that no worker needs

    folders = [path.resolve() for path in rules.writable]
    outside = folders[0].parent / f".telic-{os.getpid()}" if folders else Path("/.telic")
    if not any(outside.is_relative_to(folder) for folder in folders):
        yield _try("writing outside", lambda: os.close(os.open(outside, os.O_CREAT | os.O_EXCL)))
        outside.unlink(missing_ok=True) if os.path.lexists(outside) else None
    yield _try("listing /", lambda: os.listdir("/"))
    yield _try("opening a socket", lambda: _socket.socket())
    yield _try("signaling the parent", lambda: os.kill(os.getppid(), 0))
    if not rules.programs:
        yield _try("starting a process", _fork)


def _try(name: str, act: Callable[[], object]) -> ConfinementPart:
    try:
        act()
    except OSError as error:
        return ConfinementPart(name=name, active=True, message=f"stopped: {error.strerror}")
    return ConfinementPart(name=name, active=False, message="not blocked on this system")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
