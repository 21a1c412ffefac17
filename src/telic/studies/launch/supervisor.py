"""Supervisor of a run: execute its commands in sequence, monitor them, and record the end.

    python -I -S supervisor.py FOLDER

This standalone program uses only the standard library, so that neither the training's environment
nor the repository's state can prevent it from starting. It reads cmd.json from the run folder and
writes only to that folder.

    pid.json        this process; created exclusively, so that a launch starts or is given up
    heartbeat       when the run was last alive
    artefacts.json  hash of every output file of the run; files that the repository writes elsewhere
                    (order: collect) are moved into the run folder first
    exit.json       how it ended, signed with a key that only the launch and this program have
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ORDER_FILE = "cmd.json"
PID_FILE = "pid.json"
HEARTBEAT_FILE = "heartbeat"
EXIT_FILE = "exit.json"
STOP_FILE = "stop.json"
MANIFEST_FILE = "artefacts.json"
SEAL_VARIABLE = "TELIC_SEAL"
"""variable of the signing key, removed from the environment before the training starts"""

_STOPPING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2}
"""signals that stop the run; clusters send SIGUSR2 shortly before a job's time limit"""
_COULD_NOT_START = 127
_STARTED = 19
"""field of /proc/PID/stat after the name: start time in clock ticks since boot"""
_HEARTBEAT_S = 5.0
_SWEEP_S = 0.05


# ---------------------------------------------------------------------------- identity


def boot_id() -> str | None:
    """Return the machine's boot id, or None if the kernel does not provide one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, or None if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def identity() -> dict[str, Any]:
    """Return an identity of this process that remains unique if its pid is reused."""
    fields = _stat(os.getpid())
    return {
        "pid": os.getpid(),
        "pgid": os.getpgid(0),
        "session": os.getsid(0),
        "start_ticks": None if fields is None else int(fields[_STARTED]),
        "boot_id": boot_id(),
        "host": socket.gethostname(),
    }


def is_alive(pid: int, ticks: int | None) -> bool:
    """Return whether the process with this pid and start time is alive."""
    if not os.path.isdir("/proc"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            return True
        return False
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX" and int(fields[_STARTED]) == ticks


def session_members(session: int) -> Iterator[int]:
    """Yield the other live processes of an operating system session."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                fields = _stat(int(name))
                if os.getsid(int(name)) == session and fields and fields[0] not in "ZX":
                    yield int(name)


# ---------------------------------------------------------------------------- files


def now() -> str:
    """Return the current time in the format of the records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def claim(path: Path, content: dict[str, Any]) -> bool:
    """Create `path` atomically if it does not exist, and return whether this call created it.

    The hard link is atomic and exclusive: readers never see a partial file, and only one of several
    writers succeeds.
    """
    own = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    _write(own, content)
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
    _write(own, content)
    os.replace(own, path)
    _sync(path.parent)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def seal_of(record: dict[str, Any], key: str) -> str:
    """Return the signature of a record, which depends only on its fields and the key."""
    fields = {name: value for name, value in record.items() if name != "seal"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def importable_files(tree: Path) -> dict[str, str]:
    """Return the hashes by path of all importable files in a tree."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name not in (".git", ".telic", "__pycache__")]
        for name in files:
            path = Path(folder, name)
            if name.endswith((".py", ".so", ".pyd")) and path.is_file():
                found[path.relative_to(tree).as_posix()] = _hash(path)
    return found


def _packages(program: Path) -> str:
    """Return a hash of the file names, sizes and times of an interpreter's packages."""
    with program.open("rb") as file:
        first = file.readline(512)
    if first.startswith(b"#!"):  # interpreter from the shebang of an installed command
        words = first[2:].decode(errors="replace").split()
        program = Path(words[-1] if words else program)
    waiting = list(program.parent.parent.glob("lib*/python*/*-packages"))
    digest, seen = hashlib.sha256(), set[str]()
    while waiting:
        folder = os.path.realpath(waiting.pop())
        if folder in seen or not os.path.isdir(folder):
            continue
        seen.add(folder)
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.name.endswith((".py", ".so", ".pth", ".egg-link")) and entry.is_file():
                stat = entry.stat()
                digest.update(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            if entry.name.endswith(".pth"):
                lines = Path(entry.path).read_text(errors="replace").splitlines()
                # Follow entries of other environments, but not editable sources.
                waiting += [Path(line) for line in lines if line.endswith("-packages")]
    return digest.hexdigest()


def choose_checkpoint(artefacts: Path, rule: dict[str, Any]) -> Path | None:
    """Return the checkpoint selected by the protocol's rule, or None.

    The rules are last (the newest), best_on_validation (the newest with "best" in its name) and
    fixed_step (the one with the highest number in its name).
    """
    glob, selection = rule["checkpoint_glob"], rule["selection"]
    found = [path for path in artefacts.glob(glob) if path.exists()] if glob else []
    if selection == "best_on_validation":
        found = [path for path in found if "best" in path.name.lower()]
    if selection == "fixed_step":

        def number(path: Path) -> int:
            digits = "".join(letter if letter.isdigit() else " " for letter in path.name)
            return max(map(int, digits.split()), default=-1)

        return max(found, key=lambda path: (number(path), path.name), default=None)
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


# ---------------------------------------------------------------------------- supervising


class _Supervisor:
    """Supervision of one run: commands, timeouts and stop signals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.order = json.loads((folder / ORDER_FILE).read_text())
        self.began = time.monotonic()
        self.ended_by: str | None = None
        self.code_hash: str | None = None
        # Signals are written to a pipe, so that waiting for them can have a timeout.
        self._signals, write = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def run(self) -> int:
        """Run all steps, record the end, and return the exit code of the first step."""
        claimed = {"nonce": self.order["nonce"], "at": now(), **identity()}
        if not claim(self.folder / PID_FILE, claimed):
            return 0  # given up, or claimed by another supervisor
        key = os.environ.pop(SEAL_VARIABLE, None)
        results: list[dict[str, Any]] = []
        before = self._written()
        for step in self.order["steps"]:
            results.append(self._step(step))
            _sweep(self.order["grace_s"])  # no training process may observe its evaluation
            if step["name"] == "train":
                self._collect(before)
            if results[-1]["code"] != 0 or self.ended_by is not None:
                break
        return self._finish(key, claimed["at"], results)

    def _written(self) -> set[Path]:
        """Return the paths that match the `collect` pattern."""
        pattern = self.order.get("collect")
        return set(Path(self.order["cwd"]).glob(pattern)) if pattern else set()

    def _collect(self, before: set[Path]) -> None:
        """Move training outputs from outside the run folder to its artefacts."""
        for path in sorted(self._written() - before):
            if path.exists():  # its parent folder may have been moved already
                shutil.move(path, self.folder / "artefacts" / path.name)

    def _check_code(self, step: dict[str, Any]) -> str | None:
        """Record the evaluator's code, interpreter and packages. Return a problem, or None."""
        wanted = self.order["evaluator"]
        tree, files = Path(wanted["tree"]), wanted["files"]
        present = {name: _hash(tree / name) for name in files if (tree / name).is_file()}
        if wanted["checkout"] is not None:
            files, present = wanted["checkout"], importable_files(tree)
        if changed := [x for x in {*files, *present} if files.get(x) != present.get(x)]:
            return f"the evaluator's {min(changed)} was modified after the launch"
        search = step["env"].get("PATH", os.environ.get("PATH"))
        found = [shutil.which(word, path=search) or word for word in wanted["programs"]]
        programs = [Path(step["cwd"], word) for word in found]
        if missing := [each for each in programs if not each.is_file()]:
            return f"the program {missing[0]} does not exist"
        packages = [_packages(each) for each in dict.fromkeys(programs)]
        parts = (wanted["files"], [_hash(each) for each in programs], packages)
        texts = [json.dumps(part, sort_keys=True).encode() for part in parts]
        digest = "-".join(hashlib.sha256(text).hexdigest()[:20] for text in texts)
        if self.code_hash not in (None, digest):
            return "the interpreter or its packages changed during the run"
        self.code_hash = digest
        return None

    def _step(self, step: dict[str, Any]) -> dict[str, Any]:
        """Run one command, either the training or an evaluation of its checkpoint."""
        home, argv = self.folder / step["folder"], step["argv"]
        home.mkdir(parents=True, exist_ok=True)
        result = {"name": step["name"], "code": _COULD_NOT_START, "error": None}
        if any("{checkpoint}" in word for word in argv):
            chosen = choose_checkpoint(self.folder / "artefacts", self.order)
            if chosen is None:
                return {**result, "error": "no checkpoint was found"}
            argv = [word.replace("{checkpoint}", str(chosen)) for word in argv]
        if step.get("measures") and (why := self._check_code(step)):
            return {**result, "error": why}
        try:
            with (home / "stdout.log").open("ab") as out, (home / "stderr.log").open("ab") as err:
                # Separate process group, so that stopping it does not stop the supervisor.
                child = subprocess.Popen(
                    argv,
                    cwd=step["cwd"],
                    env={**os.environ, **step["env"]},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    process_group=0,
                )
        except OSError as error:
            return {**result, "error": str(error)}
        self._watch(child)
        return {**result, "code": child.returncode}

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        """Wait for a command while writing heartbeats, and stop it on a signal or timeout."""
        never, limit_s = float("inf"), self.order["timeout_s"]
        kill_at, deadline = never, self.began + limit_s if limit_s else never
        while child.poll() is None:
            wall_s = time.monotonic() - self.began
            beat = {"at": now(), "wall_s": wall_s, "child_pid": child.pid}
            _replace(self.folder / HEARTBEAT_FILE, beat)
            left = min(deadline, kill_at) - time.monotonic()
            pause = max(0.0, min(self.order.get("heartbeat_s", _HEARTBEAT_S), left))
            ready, _, _ = select.select([self._signals], [], [], pause)
            caught = set(os.read(self._signals, 512)) if ready else set[int]()
            moment, number = time.monotonic(), None
            if self.ended_by is None and (caught & _STOPPING or moment >= deadline):
                self.ended_by = "timeout" if moment >= deadline else "signal"
                deadline, kill_at = never, moment + self.order["grace_s"]
                number = signal.SIGTERM
            elif moment >= kill_at:
                kill_at, number = moment + 1.0, signal.SIGKILL
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)

    def _finish(self, key: str | None, started_at: str, results: list[dict[str, Any]]) -> int:
        """List the run's outputs, write the exit record, and return the exit code."""
        first, *evaluations = results
        code: int = first["code"]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        named = (ORDER_FILE, "env.json", "git.json", "hw.json", "stdout.log", "stderr.log")
        files = [self.folder / name for name in named]
        files += sorted((self.folder / "artefacts").rglob("*"))
        manifest = {
            path.relative_to(self.folder).as_posix(): _hash(path)
            for path in files
            if path.is_file() and not path.is_symlink()
        }
        _replace(self.folder / MANIFEST_FILE, manifest)
        record: dict[str, Any] = {
            "nonce": self.order["nonce"],
            "started_at": started_at,
            "ended_at": now(),
            "wall_s": time.monotonic() - self.began,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss_kb": used.ru_maxrss,
            "code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "ended_by": self.ended_by,
            "error": first["error"],
            "evaluations": evaluations,
            "artefacts": _hash(self.folder / MANIFEST_FILE),
            "code_hash": self.code_hash,
        }
        if key is not None:
            record["seal"] = seal_of(record, key)
        _replace(self.folder / EXIT_FILE, record)
        return code if code >= 0 else 128 - code


def _sweep(grace: float) -> None:
    """Kill all remaining processes of the run in this session."""
    if os.getsid(0) != os.getpid():
        return  # the session belongs to another process, e.g. a scheduler's job step
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


def supervise_run(folder: Path) -> int:
    """Run in a new session, so that the caller's exit or terminal does not end the run."""
    if os.fork():
        os._exit(0)
    with contextlib.suppress(PermissionError):  # already a session leader
        os.setsid()
    return _Supervisor(folder.resolve()).run()


if __name__ == "__main__":
    sys.exit(supervise_run(Path(sys.argv[1])))
