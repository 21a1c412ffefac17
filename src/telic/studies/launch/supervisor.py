"""Supervisor of a run: executes the commands in sequence, monitors them, and records the end.

    python -I -m telic.studies.launch.supervisor FOLDER

The supervisor is started in isolated mode, so that neither the training's environment nor the
repository's state can change its imports. It reads cmd.json from the run folder and writes only to
that folder.

    pid.json        this process; created exclusively, so that a launch starts or is given up
    heartbeat       when the run was last alive
    artifacts.json  hash of every output file of the run; files that the repository writes elsewhere
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
import shutil
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from telic.jobs.process import Process, ProcessId, signals_noted, start_of, user_environment
from telic.storage.files import write_json
from telic.storage.reading import file_hash
from telic.studies._git_read import IMPORTABLE
from telic.studies.canonical import utc_now

ORDER_FILE = "cmd.json"
PID_FILE = "pid.json"
HEARTBEAT_FILE = "heartbeat"
EXIT_FILE = "exit.json"
STOP_FILE = "stop.json"
MANIFEST_FILE = "artifacts.json"
TRAINING_COMPILED = "compiled-training"
COMPILED = "compiled"
"""folder of the files that the evaluations compile"""
SEAL_VARIABLE = "TELIC_SEAL"
"""variable of the signing key, removed from the environment before the training starts"""

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""signals that stop the run; clusters send SIGUSR2 shortly before a job's time limit"""
_COULD_NOT_START = 127
_HEARTBEAT_S = 5.0
_POLL_S = 0.1
_SWEEP_S = 0.05


def boot_id() -> str:
    """Return the machine's boot id, or "" if the kernel does not provide one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def session_members(session: int) -> list[int]:
    """Return the live processes of an operating system session."""
    import psutil  # slow to load

    found: list[int] = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session and start_of(pid) is not None:
                found.append(pid)
    return found


def claim(path: Path, content: dict[str, Any]) -> bool:
    """Atomically create `path` unless it exists and return whether this call created the file.

    Hard links are exclusive and atomic: readers never see a partial file, and two writers cannot
    both succeed.
    """
    own = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    write_json(own, content)
    try:
        os.link(own, path)
    except FileExistsError:
        return False
    finally:
        own.unlink()
    return True


def seal_of(record: dict[str, Any], key: str) -> str:
    """Return the signature of a record, computed from the record's fields and the key."""
    fields = {name: value for name, value in record.items() if name != "seal"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def files_in(tree: Path) -> dict[str, str]:
    """Return the hashes of all files in a tree by path, except compiled files."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_file():
                found[path.relative_to(tree).as_posix()] = file_hash(path)
            elif path.is_symlink():
                found[path.relative_to(tree).as_posix()] = os.readlink(path)
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
            if entry.name.endswith((".py", ".pyc", ".so", ".pth", ".egg-link")) and entry.is_file():
                stat = entry.stat()
                digest.update(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            if entry.name.endswith(".pth"):
                lines = Path(entry.path).read_text(errors="replace").splitlines()
                # Follow entries of other environments, but not editable sources.
                waiting += [Path(line) for line in lines if line.endswith("-packages")]
    return digest.hexdigest()


def choose_checkpoint(artifacts: Path, rule: dict[str, Any]) -> Path | None:
    """Return the checkpoint selected by the protocol's rule, or None.

    The rules are `last` (newest checkpoint), `best_on_validation` (newest checkpoint with "best" in
    its name) and `fixed_step` (checkpoint with the highest number in its name).
    """
    glob, selection = rule["checkpoint_glob"], rule["selection"]
    found = [path for path in artifacts.glob(glob) if path.exists()] if glob else []
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
        self.began, self.beaten = time.monotonic(), float("-inf")
        self.signaled: list[int] = []
        self.ended_by: str | None = None
        self.code_hash: str | None = None

    def run(self) -> int:
        """Run all steps, record the end, and return the exit code of the first step."""
        with signals_noted(*_STOPPING) as self.signaled:
            claimed = {"nonce": self.order["nonce"], "at": utc_now(), "boot": boot_id()}
            claimed |= asdict(ProcessId.own())
            if not claim(self.folder / PID_FILE, claimed):
                return 0  # given up, or claimed by another supervisor
            key = os.environ.pop(SEAL_VARIABLE, None)
            results: list[dict[str, Any]] = []
            before = self._written()
            for step in self.order["steps"]:
                results.append(self._step(step))
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
        """Move training outputs from outside the run folder to its artifacts."""
        for path in sorted(self._written() - before):
            if path.exists():  # its parent folder may have been moved already
                shutil.move(path, self.folder / "artifacts" / path.name)

    def _check_code(self, step: dict[str, Any]) -> str | None:
        """Record the evaluator's code, interpreter and packages, and return a problem or None."""
        wanted = self.order["evaluator"]
        tree, files = Path(wanted["tree"]), wanted["files"]
        present = {name: file_hash(tree / name) for name in files if (tree / name).is_file()}
        if wanted["checkout"] is not None:
            files, present = wanted["checkout"], files_in(tree)
            if self.code_hash is not None:  # an earlier evaluation may have written data
                present = {x: present[x] for x in present if x in files or x.endswith(IMPORTABLE)}
        if self.code_hash is None and os.path.lexists(self.folder / COMPILED):
            return f"{COMPILED} existed before the first evaluation"
        if changed := [x for x in {*files, *present} if files.get(x) != present.get(x)]:
            return f"the evaluator's {min(changed)} was modified after the launch"
        search = step["env"].get("PATH", os.environ.get("PATH"))
        found = [shutil.which(word, path=search) or word for word in wanted["programs"]]
        programs = [Path(step["cwd"], word) for word in found]
        if missing := [each for each in programs if not each.is_file()]:
            return f"the program {missing[0]} does not exist"
        packages = [_packages(each) for each in dict.fromkeys(programs)]
        parts = (wanted["files"], [file_hash(each) for each in programs], packages)
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
            chosen = choose_checkpoint(self.folder / "artifacts", self.order)
            if chosen is None:
                return {**result, "error": "no checkpoint was found"}
            argv = [word.replace("{checkpoint}", str(chosen)) for word in argv]
        if step.get("measures") and (why := self._check_code(step)):
            return {**result, "error": why}
        try:
            with (home / "stdout.log").open("ab") as out, (home / "stderr.log").open("ab") as err:
                process = Process(
                    argv,
                    cwd=Path(step["cwd"]),
                    env={**user_environment(), **step["env"]},
                    stdout=out,
                    stderr=err,
                    parent_death_signal=signal.SIGTERM,
                )
        except OSError as error:
            return {**result, "error": str(error)}
        child = {"pid": process.pid, "started": start_of(process.pid)}
        grace_s: float = self.order["grace_s"]
        process.supervise(
            lambda: self._must_stop(child), every_s=_POLL_S, grace_s=grace_s, whole_group=True
        )
        _sweep(process.pid, grace_s)  # no training process may observe its evaluation
        return {**result, "code": process.code}

    def _must_stop(self, child: dict[str, Any]) -> bool:
        """Write a heartbeat if due and return whether a signal or the time limit ends the run."""
        wall_s, limit_s = time.monotonic() - self.began, self.order["timeout_s"]
        if wall_s - self.beaten >= self.order.get("heartbeat_s", _HEARTBEAT_S):
            self.beaten = wall_s
            beat = {"at": utc_now(), "wall_s": wall_s, "child": child}
            write_json(self.folder / HEARTBEAT_FILE, beat)
        if self.ended_by is None and limit_s and wall_s >= limit_s:
            self.ended_by = "timeout"
        if self.ended_by is None and self.signaled:
            self.ended_by = "signal"
        return self.ended_by is not None

    def _finish(self, key: str | None, started_at: str, results: list[dict[str, Any]]) -> int:
        """List the run's outputs, write the exit record, and return the exit code."""
        first, *evaluations = results
        code: int = first["code"]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        named = (ORDER_FILE, "env.json", "git.json", "hw.json", "stdout.log", "stderr.log")
        files = [self.folder / name for name in named]
        files += sorted((self.folder / "artifacts").rglob("*"))
        manifest = {
            path.relative_to(self.folder).as_posix(): file_hash(path)
            for path in files
            if path.is_file() and not path.is_symlink()
        }
        write_json(self.folder / MANIFEST_FILE, manifest)
        for name in (TRAINING_COMPILED, COMPILED):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        record: dict[str, Any] = {
            "nonce": self.order["nonce"],
            "started_at": started_at,
            "ended_at": utc_now(),
            "wall_s": time.monotonic() - self.began,
            "cpu_s": used.ru_utime + used.ru_stime,
            "max_rss_kb": used.ru_maxrss,
            "code": code if code >= 0 else None,
            "signal": signal.Signals(-code).name if code < 0 else None,
            "ended_by": self.ended_by,
            "error": first["error"],
            "evaluations": evaluations,
            "artifacts": file_hash(self.folder / MANIFEST_FILE),
            "code_hash": self.code_hash,
        }
        if key is not None:
            record["seal"] = seal_of(record, key)
        write_json(self.folder / EXIT_FILE, record)
        return code if code >= 0 else 128 - code


def _sweep(session: int, grace_s: float) -> None:
    """End all remaining processes of a command."""
    deadline, asked = time.monotonic() + grace_s, set[int]()
    while left := session_members(session):
        is_late = time.monotonic() >= deadline
        for pid in left if is_late else {*left} - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        asked.update(left)
        time.sleep(_SWEEP_S)


if __name__ == "__main__":
    sys.exit(_Supervisor(Path(sys.argv[1]).resolve()).run())
