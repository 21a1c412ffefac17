"""The small program beside every training process: it starts it, watches it and records its end.

It runs as a file of its own with the standard library alone (`python -I -S supervisor.py …`), so
that neither the environment of the training nor the state of the repository can keep it from
starting, and it costs little while it waits for days. It writes in the run folder and nowhere else:

    pid.json      who runs this; created exclusively, so a launch is started or given up, never both
    heartbeat     when the run was last seen alive
    artefacts.json  every file that the run left, by its hash
    exit.json     how it ended, sealed with a key that only the launch and this program have
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PID_FILE = "pid.json"
HEARTBEAT_FILE = "heartbeat"
EXIT_FILE = "exit.json"
STOP_FILE = "stop.json"
MANIFEST_FILE = "artefacts.json"
SEAL_VARIABLE = "TELIC_SEAL"
"""the seal's key; taken out of the environment before the training starts"""

_STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2}
"""the last is how a cluster says that a job's time is nearly over"""
_COULD_NOT_START = 127
_SWEEP_S = 0.05


# ---------------------------------------------------------------------------- identity


def boot_id() -> str | None:
    """Return what names this boot of the machine, or None where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in brackets may hold spaces and brackets itself; the fields follow the last one.
    return int(stat.rpartition(")")[2].split()[19])


def identity(pid: int) -> dict[str, Any]:
    """Return what tells this process from every other, also after its number is used again."""
    return {
        "pid": pid,
        "pgid": os.getpgid(pid),
        "session": os.getsid(pid),
        "start_ticks": start_ticks(pid),
        "boot_id": boot_id(),
        "host": socket.gethostname(),
    }


def session_members(session: int) -> Iterator[int]:
    """Yield the other living processes of a session."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) == session and not _is_zombie(int(name)):
                    yield int(name)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


# ---------------------------------------------------------------------------- files


def now() -> str:
    """Return the time as the records write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def claim(path: Path, content: dict[str, Any]) -> bool:
    """Create `path` with its whole content unless it exists; return whether this call made it.

    A hard link is the one step that is both exclusive and complete: no reader sees half a file and
    two writers cannot both succeed.
    """
    own = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    _write_synced(own, content)
    try:
        os.link(own, path)
    except FileExistsError:
        return False
    finally:
        own.unlink()
    _sync(path.parent)
    return True


def _replace(path: Path, content: dict[str, Any]) -> None:
    own = path.with_name(f".{path.name}-{os.getpid()}")
    _write_synced(own, content)
    os.replace(own, path)
    _sync(path.parent)


def _write_synced(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---------------------------------------------------------------------------- what a run left


def seal_of(record: dict[str, Any], key: str) -> str:
    """Return the seal of a record; the same fields and key give the same one."""
    fields = {name: value for name, value in record.items() if name != "seal"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def list_artefacts(folder: Path) -> str:
    """Write down every file that the run left, by its hash; return the hash of the list."""
    named = ("cmd.json", "env.json", "git.json", "hw.json", "evaluations.json")
    named = (*named, "stdout.log", "stderr.log")
    files = [*(folder / name for name in named), *sorted((folder / "artefacts").rglob("*"))]
    listed = {
        path.relative_to(folder).as_posix(): _hash(path)
        for path in files
        if path.is_file() and not path.is_symlink()
    }
    _replace(folder / MANIFEST_FILE, listed)
    return _hash(folder / MANIFEST_FILE)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------------------- supervising


def _do_nothing(*_: object) -> None:
    """Let a signal do no more than wake the one who waits."""


class _Signals:
    """Turns signals into something to wait for, together with a time limit."""

    def __init__(self) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, _do_nothing)

    def wait(self, seconds: float) -> set[int]:
        """Sleep until a signal comes or the time is over; return the signals."""
        ready, _, _ = select.select([self._read], [], [], max(0.0, seconds))
        return set(os.read(self._read, 512)) if ready else set()


def supervise(folder: Path, options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Run `argv` to its end and record it; return its exit code."""
    signals = _Signals()
    mine = {"nonce": options.nonce, "at": now(), **identity(os.getpid())}
    if not claim(folder / PID_FILE, mine):
        return 0  # this launch was given up, or another supervisor has it
    began = time.monotonic()
    record: dict[str, Any] = {"nonce": options.nonce, "started_at": mine["at"]}
    key = os.environ.pop(SEAL_VARIABLE, None)
    try:
        child = _start(folder, options.cwd, argv)
    except OSError as error:
        return _finish(folder, record, began, _COULD_NOT_START, key, error=str(error))
    record["child_pid"] = child.pid
    ended_by = _watch(folder, options, child, signals, began)
    if options.evaluations is not None and child.returncode == 0 and ended_by is None:
        ended_by = _evaluate(folder, options, record, signals, began)
    _sweep(options.grace)
    return _finish(folder, record, began, child.returncode, key, ended_by=ended_by)


def _start(
    folder: Path, cwd: str, argv: Sequence[str], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with (folder / "stdout.log").open("ab") as out, (folder / "stderr.log").open("ab") as err:
        # A group of its own: stopping it must not stop the one who records the stop.
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,
        )


# ---------------------------------------------------------------------------- evaluating


def _evaluate(
    folder: Path,
    options: argparse.Namespace,
    record: dict[str, Any],
    signals: _Signals,
    began: float,
) -> str | None:
    """Evaluate what the training left, one command after the other; return what ended it."""
    plan = json.loads(options.evaluations.read_text())
    results: list[dict[str, Any]] = []
    record["evaluations"] = results
    checkpoint = choose_checkpoint(folder / "artefacts", plan)
    for step in plan["steps"]:
        inside = folder / "artefacts" / "evaluations" / step["name"]
        inside.mkdir(parents=True, exist_ok=True)
        argv = [word.replace("{checkpoint}", str(checkpoint)) for word in step["argv"]]
        if checkpoint is None and argv != step["argv"]:
            results.append({"name": step["name"], "code": None, "error": "there is no checkpoint"})
            return None
        try:
            child = _start(inside, step["cwd"], argv, step["env"])
        except OSError as error:
            results.append({"name": step["name"], "code": None, "error": str(error)})
            return None
        ended_by = _watch(folder, options, child, signals, began)
        results.append({"name": step["name"], "code": child.returncode, "error": None})
        if ended_by is not None or child.returncode != 0:
            return ended_by
    return None


def choose_checkpoint(artefacts: Path, plan: dict[str, Any]) -> Path | None:
    """Return the checkpoint that the protocol's rule names; None when there is none.

    last is the newest; best_on_validation the newest that the training itself calls best;
    fixed_step the one with the highest number in its name.
    """
    glob, rule = plan["checkpoint_glob"], plan["selection"]
    found = (
        [path for path in artefacts.glob(glob) if path.is_file() or path.is_dir()] if glob else []
    )
    if rule == "best_on_validation":
        found = [path for path in found if "best" in path.name.lower()]
    if rule == "fixed_step":
        return max(found, key=lambda path: (_number_in(path.name), path.name), default=None)
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def _number_in(name: str) -> int:
    digits = "".join(letter if letter.isdigit() else " " for letter in name).split()
    return max(map(int, digits), default=-1)


def _watch(
    folder: Path,
    options: argparse.Namespace,
    child: subprocess.Popen[bytes],
    signals: _Signals,
    began: float,
) -> str | None:
    """Wait for the end of the child; return what ended it, or None when it ended by itself."""
    ended_by: str | None = None
    never = float("inf")
    kill_at, deadline = never, began + options.timeout if options.timeout else never
    while child.poll() is None:
        _replace(
            folder / HEARTBEAT_FILE,
            {"at": now(), "wall_s": time.monotonic() - began, "child_pid": child.pid},
        )
        left = min(deadline, kill_at) - time.monotonic()
        caught = signals.wait(min(options.heartbeat, left))
        moment = time.monotonic()
        if ended_by is None and (caught & _STOPPING or moment >= deadline):
            ended_by = "timeout" if moment >= deadline else "signal"
            deadline, kill_at = never, moment + options.grace
            _signal_group(child.pid, signal.SIGTERM)
        elif moment >= kill_at:
            kill_at = moment + 1.0
            _signal_group(child.pid, signal.SIGKILL)
    return ended_by


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _sweep(grace: float) -> None:
    """End what the run left behind in this session: a run's end is the end of all its parts."""
    if os.getsid(0) != os.getpid():
        return  # the session belongs to somebody else, such as a scheduler's job step
    deadline = time.monotonic() + grace
    asked: set[int] = set()
    while left := list(session_members(os.getpid())):
        late = time.monotonic() >= deadline
        for pid in left:
            if late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(_SWEEP_S)


def _finish(
    folder: Path,
    record: dict[str, Any],
    began: float,
    code: int,
    key: str | None,
    *,
    ended_by: str | None = None,
    error: str | None = None,
) -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record |= {
        "ended_at": now(),
        "wall_s": time.monotonic() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "max_rss_kb": used.ru_maxrss,
        "code": code if code >= 0 else None,
        "signal": signal.Signals(-code).name if code < 0 else None,
        "ended_by": ended_by,
        "error": error,
        "artefacts": list_artefacts(folder),
    }
    if key is not None:
        record["seal"] = seal_of(record, key)
    _replace(folder / EXIT_FILE, record)
    return code if code >= 0 else 128 - code


def _own_session(detach: bool) -> None:
    """Leave the caller's session, so that neither its end nor its terminal ends the run."""
    if detach and os.fork():
        os._exit(0)
    with contextlib.suppress(PermissionError):  # already the leader, under tmux or a scheduler
        os.setsid()


def main(arguments: Sequence[str]) -> int:
    """Read the command line and supervise."""
    parser = argparse.ArgumentParser(prog="supervisor")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--nonce", required=True)
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--timeout", type=float, help="seconds until the run is stopped")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds from TERM to KILL")
    parser.add_argument("--heartbeat", type=float, default=5.0, help="seconds between two")
    parser.add_argument("--evaluations", type=Path, help="what to evaluate after the training")
    parser.add_argument("--detach", action="store_true", help="leave the caller at once")
    split = list(arguments).index("--")  # what follows is the command, and none of our business
    options = parser.parse_args(arguments[:split])
    _own_session(options.detach)
    return supervise(options.folder.resolve(), options, arguments[split + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
