"""Jobs on a Ray cluster without a shared file system: inputs and results are copied.

Each attempt is one Ray task. It works in a local folder of its node and sends changed files back
with each heartbeat, so that the next attempt can resume on any node. The pool handles retries,
since it knows the cause of a failure. Heartbeats pass through one small actor on the head node.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from telic.errors import BadFile, MissingExtra, Refused
from telic.jobs.spec import JOBS, AttemptEnd, JobFolder, JobHeartbeat, JobSpec
from telic.jobs.worker import run_attempt
from telic.storage.files import TEMPORARY_MARK, open_append, read_json, write_bytes, write_json
from telic.storage.keys import BEGUN, sign_folder
from telic.storage.locks import RunLock
from telic.storage.reading import bounded_entries

_MAIL_S = 0.25
_POLL_S = 0.02
_TIMEOUT_S = 60.0
"""timeout in seconds for an earlier attempt to release the job's folder"""
_HEAD = {"node:__internal_head__": 0.001}
_MAX_ATTEMPTS = 5
_MAX_FILES, _MAX_BYTES = 100_000, 1 << 30
"""limits of an archive: files, and unpacked bytes unless it is large itself"""
_REMOVED = ".removed.json"
_STEADY_DATE = (1980, 1, 1, 0, 0, 0)


class AttemptMessage(NamedTuple):
    """Message from a running or finished attempt."""

    name: str
    attempt: int
    beat: str
    """JobHeartbeat as JSON"""
    log: bytes
    """output printed since the previous letter"""
    archive: bytes | None
    """files changed since the previous letter"""


class MessageRelay:
    """Actor that passes messages between attempts and the driver."""

    def __init__(self) -> None:
        self._letters: list[AttemptMessage] = []
        self._stopping: set[str] = set()

    def put(self, letter: AttemptMessage) -> bool:
        """Store a message for the driver and return whether the attempt must end."""
        self._letters.append(letter)
        return f"{letter.name}/{letter.attempt}" in self._stopping

    def take(self) -> list[AttemptMessage]:
        """Return and clear the stored messages."""
        letters, self._letters = self._letters, []
        return letters

    def stop(self, name: str, attempt: int) -> None:
        """Request an attempt to end at its next heartbeat."""
        self._stopping.add(f"{name}/{attempt}")


class _Task(NamedTuple):
    ref: Any
    attempt: int
    folder: JobFolder
    spec: JobSpec


class RayJobs:
    """Launcher that runs attempts as tasks on a Ray cluster."""

    def __init__(self, address: str | None = None) -> None:
        self._ray = _ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _connect(self._ray, address)
        # Twice the number of CPUs, so that a job is queued when a processor becomes free.
        self.room = 2 * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._mailbox = self._ray.remote(MessageRelay).options(num_cpus=0, resources=_HEAD).remote()
        self._run = self._ray.remote(attempt_elsewhere)
        self._tasks: dict[str, _Task] = {}
        self._ready: set[Any] = set()
        self._looked = self._fetched = 0.0

    def find(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str | None:
        """Return None: tasks end with their driver."""

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Send the job's files and submit the task."""
        cwd = Path(spec.cwd)
        if folder.archive.exists():  # a driver died while unpacking
            _take_in(folder, folder.archive.read_bytes(), spec)
        returned = [name for name in _returned(folder, spec) if (cwd / name).exists()]
        archive = pack(cwd, [*spec.sends, *returned])
        if archive is None:
            raise RuntimeError("the input files of the job are changing continually")
        task = self._run.options(
            num_cpus=spec.cores, num_gpus=spec.gpus, max_retries=0, name=spec.name
        )
        ref = task.remote(spec.model_dump_json(), archive.content, attempt, self._mailbox)
        self._tasks[spec.name] = _Task(ref, attempt, folder, spec)
        return f"{spec.name} of Ray"

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptEnd | str | None:
        """Unpack received files, then check whether the task has ended."""
        self._read_mail()
        task = self._tasks[spec.name]
        if task.ref not in self._over():
            return None
        del self._tasks[spec.name]
        try:
            end, letter = self._ray.get(task.ref)
            _deliver(letter, task)
        except self._ray.exceptions.RayError as error:
            return _first_line(error)
        except BadFile as error:
            return str(error)
        return AttemptEnd.model_validate_json(end)

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Request a stop through the mailbox, or cancel the task."""
        task = self._tasks.get(spec.name)
        if task is None:
            return
        self._mailbox.stop.remote(spec.name, task.attempt)
        if now:
            self._ray.cancel(task.ref, force=True)
            del self._tasks[spec.name]

    def close(self) -> None:
        """Cancel running tasks and disconnect from the cluster, if it is still reachable."""
        if not self._ray.is_initialized():
            return
        for task in self._tasks.values():
            self._ray.cancel(task.ref, force=True)
        self._tasks.clear()
        self._ray.kill(self._mailbox)
        if self._is_ours:
            self._ray.shutdown()

    def _over(self) -> set[Any]:
        """Return the finished tasks. All tasks are polled together."""
        if time.monotonic() - self._looked > _POLL_S:
            refs = [task.ref for task in self._tasks.values()]
            self._ready = set(self._ray.wait(refs, num_returns=len(refs), timeout=0)[0])
            self._looked = time.monotonic()
        return self._ready

    def _read_mail(self) -> None:
        now = time.monotonic()
        if now - self._fetched < _MAIL_S:
            return
        if not self._ray.is_initialized():
            raise Refused(
                "The connection to the Ray cluster was lost.",
                hint="Copied files are kept. Run the same command again once it is available.",
            )
        self._fetched = now
        for letter in self._ray.get(self._mailbox.take.remote()):
            task = self._tasks.get(letter.name)
            # An abandoned attempt may still write; its letters are ignored.
            if task is not None and task.attempt == letter.attempt:
                _deliver(letter, task)


def _deliver(letter: AttemptMessage, task: _Task) -> None:
    beat = JobHeartbeat.model_validate_json(letter.beat)
    if letter.log:
        with open_append(task.folder.log(letter.attempt)) as log:
            log.write(letter.log)
    if letter.archive is not None:
        # Save the archive first: a crash while unpacking must leave no partial state.
        write_bytes(task.folder.archive, letter.archive)
        _take_in(task.folder, letter.archive, task.spec)
    write_json(task.folder.beat(letter.attempt), beat)


def _take_in(folder: JobFolder, content: bytes, spec: JobSpec) -> None:
    """Unpack received files. Their names are recorded first, in case of a crash while unpacking.

    Raises BadFile for files that existed before the job, because nodes are not trusted.
    """
    before, (written, removed) = _returned(folder, spec), names_in(content, Path(spec.cwd))
    known = {_result_of(name, spec) for name in before}
    for name in (*written, *removed):
        result = _result_of(name, spec)
        if result is None or (result not in known and os.path.lexists(Path(spec.cwd, result))):
            raise BadFile(f'A job returned the file "{name[:100]}", but did not create it.')
    if not before.issuperset(written):
        write_json(folder.returned, sorted(before.union(written)))
    unpack(content, Path(spec.cwd))
    folder.archive.unlink(missing_ok=True)


def _returned(folder: JobFolder, spec: JobSpec) -> set[str]:
    """Return the names of the files that a job has returned."""
    names = read_json(folder.returned) if folder.returned.exists() else []
    return {name for name in names if _result_of(name, spec)}


def _result_of(name: str, spec: JobSpec) -> str | None:
    """Return the file or folder in the results folder to which a returned file belongs.

    Returns None for a file that a job must not return, such as records other than its state.
    """
    results, path = PurePosixPath(spec.folder or "/"), PurePosixPath(name)
    if not path.is_relative_to(results) or path == results:
        return None
    first, *rest = path.relative_to(results).parts
    if first == JOBS:
        return (
            name if name == str(PurePosixPath(spec.sends[0]).with_suffix(".state.json")) else None
        )
    is_hidden = any(part.startswith(".") for part in (first, *rest))
    return None if is_hidden else str(results / first)


def _connect(ray: Any, address: str | None) -> None:
    try:
        with contextlib.chdir("/"):  # Ray's workers import from the folder where this is called
            ray.init(
                address=address or "auto",
                namespace="telic",
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Refused(
            f"No Ray cluster found at {address or 'this machine'}: {_first_line(error)}",
            hint="Start one with: ray start --head   or name one: --on ray://HOST:10001",
        ) from None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _ray() -> Any:
    # Otherwise a call after losing the connection would start a local cluster on this machine.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", "ray", "Running jobs on Ray") from None


# ---------------------------------------------------------------------------- on a node


def attempt_elsewhere(
    text: str, content: bytes, attempt: int, mailbox: Any
) -> tuple[str, AttemptMessage]:
    """Run an attempt on this node and return its result and its last message."""
    ray = _ray()
    spec = JobSpec.model_validate_json(text)
    node = str(ray.get_runtime_context().get_node_id())[:8]
    with _own_folder(spec.name) as (own, lock):
        unpack(content, own)
        mail = _UnsentOutput(spec, own, attempt)
        cwd = own if spec.sends or spec.folder is not None else Path(spec.cwd)
        if spec.folder is not None:
            (own / spec.folder).mkdir(parents=True, exist_ok=True)

        def beat(alive: JobHeartbeat) -> bool:
            return bool(ray.get(mailbox.put.remote(mail.letter(alive))))

        # Ray sets this variable; a job must compute as it would locally.
        os.environ.pop("OMP_NUM_THREADS", None)
        with mail.log.open("ab") as log:
            end = run_attempt(spec, cwd, log, beat, node=node, holds=(lock,))
        last = mail.letter(JobHeartbeat(time=time.time(), node=node, pid=os.getpid()))
        if last.archive is None and spec.folder is not None:
            end = end.model_copy(update={"error": "its files were changing continually"})
        return end.model_dump_json(), last


class _UnsentOutput:
    """Unsent output and files of an attempt."""

    def __init__(self, spec: JobSpec, cwd: Path, attempt: int) -> None:
        self.log = cwd.with_name(f"{cwd.name}.log")
        self.log.unlink(missing_ok=True)
        self._spec, self._cwd, self._attempt = spec, cwd, attempt
        self._parts = [] if spec.folder is None else [spec.folder]
        self._known: Marks = marks_of(cwd, self._parts)
        self._read = 0

    def letter(self, beat: JobHeartbeat) -> AttemptMessage:
        """Return the output and files that changed since the previous message."""
        printed = b""
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(self._read)
                printed = log.read()
        self._read += len(printed)
        archive = pack(self._cwd, self._parts, self._known) if self._parts else None
        if archive is not None:
            self._known = archive.marks
        content = archive.content if archive is not None else None
        return AttemptMessage(
            self._spec.name, self._attempt, beat.model_dump_json(), printed, content
        )


@contextlib.contextmanager
def _own_folder(name: str) -> Generator[tuple[Path, int]]:
    """Yield an empty folder for a job, with the same path on every node, and its lock.

    The job's process inherits the lock, so remaining processes of an earlier attempt hold it.
    """
    base = Path(tempfile.gettempdir()) / f"telic-jobs-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    facts = base.lstat()
    if facts.st_uid != os.getuid() or not stat.S_ISDIR(facts.st_mode):
        raise PermissionError(f"The folder {base} belongs to another user.")
    folder = base / name
    with RunLock(base / f"{name}.lock", f"The folder of {name}", patience_s=_TIMEOUT_S) as lock:
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            yield folder, lock.handle
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_name(f"{name}.log").unlink(missing_ok=True)
            lock.path.unlink(missing_ok=True)


# ---------------------------------------------------------------------------- archives
#
# An archive is one zip file of the files that changed since the last one. A running job may write
# during packing, so packing is repeated until no file changes meanwhile: an archive is a consistent
# snapshot, which is all that a resume after a crash needs. Names are relative to the job's working
# folder; names that lead out of it are refused.


Marks = Mapping[str, tuple[int, int]]
"""modification time and size of each file, by name relative to the working folder"""


class OutputArchive(NamedTuple):
    """Set of packed files."""

    content: bytes
    marks: Marks
    """state of all existing files, for the next archive"""


def marks_of(cwd: Path, parts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the sizes and timestamps of the given files, and of files in the given folders."""
    marks: dict[str, tuple[int, int]] = {}
    for part in parts:
        start = cwd / part
        paths = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in paths:
            if path.name.startswith(TEMPORARY_MARK) or path.name == "lock" or path.is_symlink():
                continue
            try:
                facts = path.stat()
            except FileNotFoundError:  # replaced in the meantime
                continue
            if path.is_file():
                marks[path.relative_to(cwd).as_posix()] = (facts.st_mtime_ns, facts.st_size)
    return marks


def pack(cwd: Path, parts: Iterable[str], known: Marks | None = None) -> OutputArchive | None:
    """Pack the files that differ from `known`, or return None if they keep changing."""
    parts, known = list(parts), known or {}
    for _ in range(_MAX_ATTEMPTS):
        marks = marks_of(cwd, parts)
        names = [name for name, mark in marks.items() if known.get(name) != mark]
        removed = [name for name in known if name not in marks]
        content = _zip(cwd, names, removed)
        if content is not None and marks_of(cwd, parts) == marks:
            return OutputArchive(content, marks)
    return None


def _zip(cwd: Path, names: list[str], removed: list[str]) -> bytes | None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in names:
            try:
                content = (cwd / name).read_bytes()
            except FileNotFoundError:
                return None
            archive.writestr(zipfile.ZipInfo(name, _STEADY_DATE), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(_REMOVED, _STEADY_DATE), json.dumps(removed))
    return out.getvalue()


class ArchiveNames(NamedTuple):
    """Names of the files in an archive, and of the files removed since the previous one."""

    written: tuple[str, ...]
    removed: tuple[str, ...]


def names_in(content: bytes, cwd: Path) -> ArchiveNames:
    """Return the file names in an archive that is to be unpacked in a folder.

    Raises BadFile for a name that leads out of the folder, or for an archive that is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = bounded_entries(archive, _MAX_FILES, max(_MAX_BYTES, 50 * len(content)))
            removed = tuple(str(name) for name in json.loads(archive.read(_REMOVED)))
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadFile(f"A job returned files that cannot be read: {error}.") from None
    written = tuple(entry.filename for entry in entries if entry.filename != _REMOVED)
    for name in (*written, *removed):
        _check(name, cwd)
    return ArchiveNames(written, removed)


def unpack(content: bytes, cwd: Path) -> ArchiveNames:
    """Extract packed files into a folder and delete the files listed as removed."""
    names = names_in(content, cwd)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in names.written:
            write_bytes(cwd / name, archive.read(name))
            if PurePosixPath(name).name == BEGUN:  # work created by this user's job elsewhere
                sign_folder((cwd / name).parent)
    for name in names.removed:
        (cwd / name).unlink(missing_ok=True)
    return names


def _check(name: str, cwd: Path) -> None:
    parts = PurePosixPath(name)
    is_inside = (cwd / name).resolve().is_relative_to(cwd.resolve())
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or not is_inside:
        raise BadFile(f'A job returned the file "{name[:100]}", which is outside its folder.')
