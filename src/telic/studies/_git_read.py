"""Query git repositories with read-only subcommands.

Only this module and `launch` start processes in this package. These commands must not change the
repository, use the network or run code that the repository configures (hooks, file-system monitors,
external diff tools, text conversions).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from telic.errors import TelicError
from telic.storage.reading import read_bytes, read_text

_TIMEOUT_S = 60

_SAFE_SETTINGS = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "protocol.allow=never"),
)
_SAFE_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",  # otherwise `status` rewrites the index
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # `git replace` would show other files as the commit's
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_CONVERTING = ("apply", "diff", "hash-object", "ls-files", "status")
"""subcommands that read files in the working tree"""
_PROGRAMS = (
    r"^(filter\..*\.(clean|smudge|process|required)|diff\.(.*\.(textconv|command)|external))$"
)
IMPORTABLE = (".py", ".so", ".pyd", ".pyc")
_RENAMED = re.compile(r"(?m)^(?:rename|copy) (?:from|to) (.+)$")
_MODES = re.compile(r"(?m)^(?:new file|deleted file|new|old) mode (\d+)$")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_BINARY = re.compile(r"(?m)^(?:GIT binary patch|Binary files )")
_PLAIN_MODES = ("100644", "100755")


class Answer(NamedTuple):
    """Result of a git command."""

    code: int
    out: str
    error: str

    @property
    def is_yes(self) -> bool:
        """True if the exit code is 0."""
        return self.code == 0


def ask(root: Path, *words: str, index: Path | None = None) -> Answer:
    """Run a git subcommand in `root`. `read-tree` needs a temporary `index` outside of it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= _SAFE_ENVIRONMENT
    if words[0] in _CONVERTING:
        environment |= without_programs(root)
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        done = subprocess.run(
            ["git", *_SAFE_SETTINGS, *words],
            cwd=root,
            env=environment,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise TelicError("git is not installed.", hint="Install git.") from None
    except subprocess.TimeoutExpired:
        raise TelicError(f"git {words[0]} took more than {_TIMEOUT_S} s in {root}.") from None
    # Bytes that are not text are kept, so that objects can be hashed.
    out, error = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))
    return Answer(done.returncode, out, error.strip())


def without_programs(root: Path) -> dict[str, str]:
    """Return environment variables that disable all programs in the git configuration.

    A repository can configure filters and text conversions that git runs when it compares files.
    """
    answer = ask(root, "config", "-z", "--name-only", "--get-regexp", _PROGRAMS)
    keys = dict.fromkeys(filter(None, answer.out.split("\0")))
    found = [(key, "false" if key.endswith(".required") else "") for key in keys]
    variables = {"GIT_CONFIG_COUNT": str(len(found))}
    for number, (key, value) in enumerate(found):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def head_commit(root: Path) -> str | None:
    """Return the checked-out commit, or None outside git or before the first commit."""
    answer = ask(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return answer.out.strip() if answer.is_yes else None


def is_repository(root: Path) -> bool:
    """Return whether `root` lies in a git working tree."""
    home = root.absolute()
    if not any((each / ".git").exists() for each in (home, *home.parents)):
        return False
    return ask(root, "rev-parse", "--is-inside-work-tree").out.strip() == "true"


def has_commit(root: Path, commit: str) -> bool:
    """Return whether this clone contains the commit."""
    return ask(root, "cat-file", "-e", f"{commit}^{{commit}}").is_yes


def changed_paths(root: Path) -> tuple[str, ...]:
    """Return paths that differ from the checked-out commit, plus untracked and ignored modules.

    The git index is not used, because it could hide changes.
    """
    words = ("status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching")
    with tempfile.TemporaryDirectory(prefix="telic-index-") as scratch:
        index = Path(scratch) / "index"
        if head_commit(root) is not None:
            entries(root, "read-tree", "HEAD", index=index)
        # Inside a submodule git would read its configuration, so these are queried separately.
        words += ("--no-renames", "--ignore-submodules=dirty")
        rows = entries(root, *words, index=index)
    found: list[str] = []
    for row in rows:
        found += _modules(root, row[3:]) if row.startswith("!!") else [row[3:]]
    for row in entries(root, "ls-files", "--stage", "-z"):
        mode, _, name = row.partition(" ")[0], *row.partition("\t")[1:]
        if mode == "160000" and (root / name / ".git").exists():
            found += [f"{name}/{path}" for path in changed_paths(root / name)]
    return tuple(found)


def _modules(root: Path, ignored: str) -> Iterator[str]:
    """Yield the importable Python modules in an ignored file or folder."""
    path = root / ignored
    for found in path.glob("__init__.*") if path.is_dir() else [path]:
        if found.name.endswith(IMPORTABLE) and "__pycache__" not in found.parts:
            yield found.relative_to(root).as_posix()


def differing_paths(root: Path, one: str, other: str) -> tuple[str, ...]:
    """Return paths that differ between two commits."""
    words = ("diff", "--no-ext-diff", "--name-only", "-z", "--no-renames", one, other)
    return tuple(entries(root, *words))


def entries(root: Path, *words: str, index: Path | None = None) -> list[str]:
    """Return the NUL-separated output of a git command. Raises TelicError if it fails."""
    answer = ask(root, *words, index=index)
    if not answer.is_yes:
        raise TelicError(f"git {words[0]} failed in {root}: {answer.error}")
    return list(filter(None, answer.out.split("\0")))


def why_patch_fails(root: Path, patch: Path, base_commit: str | None) -> str | None:
    """Return why `patch` does not apply cleanly to `base_commit`, or None if it does.

    The check uses a temporary index, so the working tree and staged changes have no influence.
    Without git, the patch is applied to the current files.
    """
    if base_commit is None:
        answer = ask(root, "apply", "--check", "-p1", str(patch.resolve()))
        return None if answer.is_yes else answer.error
    with tempfile.TemporaryDirectory(prefix="telic-index-") as scratch:
        index = Path(scratch) / "index"
        read = ask(root, "read-tree", base_commit, index=index)
        if not read.is_yes:
            return f"base commit {base_commit[:12]} cannot be read: {read.error}"
        answer = ask(root, "apply", "--check", "--cached", "-p1", str(patch.resolve()), index=index)
        return None if answer.is_yes else answer.error


# ---------------------------------------------------------------------------- diffs and patterns


class Patch(NamedTuple):
    """Parsed diff with the affected files, the removed and added lines, and problems."""

    files: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    problems: tuple[str, ...]


def read_patch(root: Path, path: Path) -> Patch:
    """Parse a diff as git applies it, and report links, submodules, binaries and unusual names."""
    answer = ask(root, "apply", "--numstat", "-z", "-p1", str(path.resolve()))
    text = read_text(path)
    rows = [row.split("\t", 2) for row in answer.out.split("\0") if row.count("\t") >= 2]
    # git lists one name of a rename. Lines inside a hunk never begin with these words.
    files = tuple(dict.fromkeys([*(row[2] for row in rows), *_RENAMED.findall(text)]))
    problems = [
        f"mode {mode} is neither a plain nor an executable file"
        for mode in dict.fromkeys(_MODES.findall(text))
        if mode not in _PLAIN_MODES
    ]
    if _BINARY.search(text) or any(row[0] == "-" for row in rows):
        problems.append("it contains a binary change that cannot be reviewed")
    problems += [
        f"path {name} leaves the repository or is quoted"
        for name in files
        if name.startswith(("/", '"')) or ".." in name.split("/")
    ]
    if not files:
        problems.append(f"it changes no file: {answer.error}")
    # Python and YAML also end lines at "\r", which git does not.
    lines = list(_changed_lines(read_bytes(path).decode().split("\n")))
    counted = [sum(int(row[at]) for row in rows if row[at].isdigit()) for at in (1, 0)]
    if [sum(line[0] == sign for line in lines) for sign in "-+"] != counted:
        problems.append("git counts other lines in it than can be shown")
    rows = [(line[0], part) for line in lines for part in line[1:].splitlines() or [""]]
    removed, added = (tuple(part for sign, part in rows if sign == mark) for mark in "-+")
    return Patch(files, removed, added, tuple(problems))


def _changed_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the removed and added lines of a diff, which may look like the header of a file."""
    old = new = 0
    for line in lines:
        if old <= 0 and new <= 0:
            found = _HUNK.match(line)
            old, new = (int(size or 1) for size in found.groups()) if found else (0, 0)
            continue
        old, new = old - (line[:1] not in ("+", "\\")), new - (line[:1] not in ("-", "\\"))
        if line[:1] in ("-", "+"):
            yield line


def first_match(path: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that matches the path, or None.

    `**` matches any number of folders, including none. `*` and `?` match within one name. A
    pattern whose last part is a plain folder name matches everything in that folder.
    """
    return next((pattern for pattern in patterns if _compiled(pattern).fullmatch(path)), None)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    *folders, last = pattern.strip("/").split("/")
    wild = {"*": "[^/]*", "?": "[^/]"}

    def name(part: str) -> str:
        return "".join(wild.get(letter, re.escape(letter)) for letter in part)

    before = "".join("(?:[^/]+/)*" if part == "**" else f"{name(part)}/" for part in folders)
    inside = "" if set(last) & wild.keys() else "(?:/.*)?"
    return re.compile(before + (".*" if last == "**" else name(last) + inside), re.DOTALL)
