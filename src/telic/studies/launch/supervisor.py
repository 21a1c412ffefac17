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
import ctypes
import hashlib
import hmac
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
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

_LOADING = (
    *("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH"),
    *("PYTHONHOME", "PYTHONPLATLIBDIR"),
)
"""variables that make a program load other code, besides PYTHONPATH"""
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
"""signals that stop the run; clusters send SIGUSR2 shortly before a job's time limit"""
_PR_SET_CHILD_SUBREAPER = 36
_COULD_NOT_START = 127
_HEARTBEAT_S = 5.0
_POLL_S = 0.1
_SWEEP_S = 0.05
_ANSWER_S = 60.0


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


def _interpreter(program: Path, env: Mapping[str, str], cwd: str) -> Path:
    """Return the Python behind a command: that of its shebang, or that to which a shim leads."""
    with program.open("rb") as file:
        first = file.readline(512)
    if first.startswith(b"#!") and not program.name.startswith("python"):
        words = [x for x in first[2:].decode(errors="replace").split() if not x.startswith("-")]
        program = Path(shutil.which("".join(words[-1:]), path=env.get("PATH")) or program)
    if program.name.startswith("python"):  # without site packages, which could change the answer
        words = [program, "-I", "-S", "-c", "import sys; print(sys.executable)"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, timeout=_ANSWER_S)
            found = Path(os.fsdecode(done.stdout.strip()))
            return found if found.is_file() else program
    return program


def _imports(program: Path, env: Mapping[str, str], cwd: str, tree: Path) -> str:
    """Return a hash of the code outside a tree that a program's interpreter imports.

    It covers the names, sizes and times of the files of the interpreter, its packages, the user's
    packages and PYTHONPATH, and the variables that load other code.
    """
    program = _interpreter(program, env, cwd)
    home, base = program.parent.parent, program.resolve().parent.parent
    settings = home / "pyvenv.cfg"
    about = settings.read_text(errors="replace") if settings.is_file() else "= true"
    is_alone = "= true" not in about  # a virtual environment without other packages
    user = env.get("PYTHONUSERBASE") or f"{env.get('HOME', '')}/.local"
    homes = {home, base, Path(env.get("PYTHONHOME") or home), *([] if is_alone else [Path(user)])}
    named = [os.path.realpath(os.path.join(cwd, x)) for x in env.get("PYTHONPATH", "").split(":")]
    waiting = [str(each) for place in homes for each in place.glob("lib*/python*")]
    named = [each for each in named if not Path(each).is_relative_to(tree.resolve())]
    waiting += named
    texts, seen = [about, *(f"{x}={env.get(x)}" for x in _LOADING)], set[str]()
    texts += [f"{named} {[file_hash(Path(each)) for each in named if os.path.isfile(each)]}"]
    while waiting:
        folder = os.path.realpath(waiting.pop())
        is_unused = is_alone and folder.endswith("-packages") and folder.startswith(f"{base}/")
        if folder in seen or is_unused or not os.path.isdir(folder):
            continue
        seen.add(folder)
        for entry in os.scandir(folder):
            if entry.name.endswith((".py", ".pyc", ".so", ".pth", ".egg-link")) and entry.is_file():
                stat = entry.stat()
                texts.append(f"{entry.path} {stat.st_size} {stat.st_mtime_ns}")
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            if entry.name.endswith(".pth"):
                lines = Path(entry.path).read_text(errors="replace").splitlines()
                # Follow entries of other environments, but not editable sources.
                waiting += [line for line in lines if line.endswith("-packages")]
    return hashlib.sha256("\n".join(sorted(texts)).encode(errors="surrogateescape")).hexdigest()


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
        steps = {path: max(map(int, re.findall("[0-9]+", path.name)), default=-1) for path in found}
        return max(found, key=lambda path: (steps[path], path.name), default=None)
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
            if sys.platform == "linux":  # processes that outlive their parents stay descendants
                ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
        env = {**user_environment(), **step["env"]}
        found = [shutil.which(word, path=env.get("PATH")) or word for word in wanted["programs"]]
        programs = [Path(step["cwd"], word) for word in found]
        if missing := [each for each in programs if not each.is_file()]:
            return f"the program {missing[0]} does not exist"
        imports = [_imports(each, env, step["cwd"], tree) for each in dict.fromkeys(programs)]
        parts = (wanted["files"], [file_hash(each) for each in programs], imports)
        texts = [json.dumps(part, sort_keys=True).encode() for part in parts]
        digest = "-".join(hashlib.sha256(text).hexdigest()[:20] for text in texts)
        if self.code_hash not in (None, digest):
            return "the interpreter, its packages or import paths changed during the run"
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
    """End all remaining processes of a command, also those in sessions of their own."""
    import psutil

    deadline, asked, own = time.monotonic() + grace_s, set[int](), psutil.Process()
    while left := {
        *session_members(session),
        *(each.pid for each in own.children(recursive=True) if start_of(each.pid) is not None),
    }:
        is_late = time.monotonic() >= deadline
        for pid in left if is_late else {*left} - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        asked.update(left)
        time.sleep(_SWEEP_S)


if __name__ == "__main__":
    sys.exit(_Supervisor(Path(sys.argv[1]).resolve()).run())
