"""Which files a confined interpreter needs: its code and libraries, and little of the system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from telic.sandbox import landlock

_SYSTEM = ("/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime")
_FACTS = (
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/driver",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
)

_READ_LATER = ("gymnasium", "mujoco", "mujoco_warp", "numpy", "torch", "warp")


def grants(
    writable: Iterable[Path], readable: Iterable[Path], devices: Iterable[Path]
) -> list[tuple[Path, int]]:
    """Return (path, rights) pairs for `landlock.restrict`."""
    code = [path for path in code_paths() if not _is_too_broad(path)]
    return [
        *((path, landlock.WRITE) for path in writable),
        *((path, landlock.READ) for path in (*readable, *code)),
        *((Path(path), landlock.READ) for path in (*_SYSTEM, *_FACTS)),
        *((path, landlock.DEVICE) for path in (Path("/dev/null"), *devices)),
    ]


def code_paths() -> set[Path]:
    """Return the folders that hold the interpreter, its packages and the loaded libraries."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    found.add(Path(os.__file__).parent)
    found |= {Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))}
    found.add(Path(__file__).parents[1])
    # These read files of their own later, and may lie elsewhere, as with PYTHONPATH.
    loaded = (sys.modules.get(name) for name in _READ_LATER)
    found |= {Path(each.__file__).parent for each in loaded if each and each.__file__}
    found |= set(_loaded_libraries())
    # Not Path.exists: it raises where an ordinary user may not even look.
    return {path.resolve() for path in found if os.path.exists(path)}


def _loaded_libraries() -> Iterator[Path]:
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.exists() else ():
        path = line.partition("/")[2]
        if ".so" in path:
            yield Path("/", path).parent


def _is_too_broad(path: Path) -> bool:
    """Say whether a folder holds a home or more, as when a library lies loose in one."""
    home = Path(os.path.expanduser("~")).resolve()
    return path in {home, *home.parents, Path("/tmp"), Path("/root"), Path("/home")}
