"""Working tree of a candidate: the repository itself or a separate git worktree.

A worktree is created once per candidate revision. Its manifest is written last, so a worktree
without a manifest is incomplete and is recreated. A candidate that runs in the repository moves to
a worktree of its commit once the repository has newer commits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from telic.core.config import Record
from telic.storage.files import read_record, write_json
from telic.storage.locks import taking_turns
from telic.storage.reading import file_hash
from telic.studies import _git_read as git_read
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import Protocol
from telic.studies.errors import EnvironmentBlocked
from telic.studies.folder import STATE_FOLDER, StudyFolder
from telic.studies.launch.supervisor import files_in

_GIT_S = 300
TreeMode = Literal["in_place", "worktree"]


class TreeManifest(Record):
    """State of a worktree at its creation."""

    schema_version: Literal[1] = 1
    base_commit: str
    files: dict[str, str]
    """hashes of the files that differ from the base, by path"""


def mode_of(folder: StudyFolder, candidate: Candidate) -> TreeMode:
    """Return the isolation mode, which is `in_place` only if the code matches the base commit."""
    mode, base, root = candidate.isolation.mode, candidate.base_commit, folder.root
    if mode != "in_place" or base is None or not git_read.is_repository(root):
        return mode
    head = git_read.head_commit(root)
    if head is None or head == base or not git_read.has_commit(root, base):
        return mode
    return (
        "worktree" if any(_is_code(x) for x in git_read.differing_paths(root, base, head)) else mode
    )


def tree_of(folder: StudyFolder, candidate: Candidate) -> Path:
    """Return the path of the candidate's working tree, which may not exist yet."""
    in_place = mode_of(folder, candidate) == "in_place"
    return folder.root if in_place else _own_tree(folder, candidate)


def _own_tree(folder: StudyFolder, candidate: Candidate) -> Path:
    name = f"{folder.study_id}.{candidate.id}.r{candidate.revision}"
    return folder.worktrees / name


def _manifest_file(folder: StudyFolder, candidate: Candidate) -> Path:
    """Return the path of the manifest (stored outside the tree)."""
    tree = _own_tree(folder, candidate)
    return tree.with_name(f"{tree.name}.json")


def is_made(folder: StudyFolder, candidate: Candidate) -> bool:
    """Return whether the worktree of the candidate exists and is complete."""
    return _manifest_file(folder, candidate).exists() and _own_tree(folder, candidate).is_dir()


def prepare_tree(folder: StudyFolder, candidate: Candidate) -> Path:
    """Create the candidate's tree if it is missing and return its path."""
    tree, base = tree_of(folder, candidate), candidate.base_commit
    if tree == folder.root:
        return tree
    tree.parent.mkdir(parents=True, exist_ok=True)
    with taking_turns(folder.locks / "worktrees.lock"):
        if is_made(folder, candidate):
            return tree
        if base is None:
            raise EnvironmentBlocked("E_TREE", f"{candidate.id} has no base commit.")
        _git(folder.root, "worktree", "prune")
        if tree.exists():
            _git(folder.root, "worktree", "remove", "--force", str(tree))
        _add_worktree(folder.root, tree, base)
        home = folder.candidate_file(candidate.id, candidate.revision).parent
        if candidate.change.patch:
            _git(tree, "apply", "-p1", str((home / candidate.change.patch).resolve()))
        for changed in candidate.change.files:
            target = tree / changed.path
            if not target.resolve().is_relative_to(tree.resolve()):  # a link of the repository
                raise EnvironmentBlocked("E_TREE", f"{changed.path} leads out of the repository.")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(home / "files" / changed.path, target)
        manifest = TreeManifest(base_commit=base, files=_contents(tree))
        write_json(_manifest_file(folder, candidate), manifest)
    return tree


def evaluator_tree(folder: StudyFolder, candidate: Candidate, protocol: Protocol, run: str) -> Path:
    """Return the tree for evaluation: a separate checkout of the contract's commit for this run.

    If the training log is measured, this is the training tree. Without git, it is the repository.
    """
    if protocol.command is None:
        return tree_of(folder, candidate)
    if candidate.base_commit is None or not git_read.is_repository(folder.root):
        return folder.root
    return evaluator_checkout(folder, run)


def evaluator_checkout(folder: StudyFolder, run: str) -> Path:
    """Return the path of a run's checkout for evaluation, which is deleted when the run ends."""
    return folder.worktrees / f"{folder.study_id}.{run}"


def check_out(folder: StudyFolder, commit: str, tree: Path) -> None:
    """Create a worktree of a commit."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    with taking_turns(folder.locks / "worktrees.lock"):
        _git(folder.root, "worktree", "prune")
        _add_worktree(folder.root, tree, commit)


def _add_worktree(root: Path, tree: Path, commit: str) -> None:
    """Create a worktree. Raises EnvironmentBlocked E_TREE if a file differs from the commit."""
    blobs = _blobs(root, commit)
    _git(root, "worktree", "add", "--detach", str(tree), commit)
    if names := list(_altered(tree, blobs)):
        _git(root, "worktree", "remove", "--force", str(tree))
        raise EnvironmentBlocked(
            "E_TREE",
            f"{', '.join(names[:5])} would differ from commit {commit[:12]} after a checkout.",
            hint="Remove the filters in the repository's git configuration and attributes.",
        )


def _altered(tree: Path, blobs: dict[str, str]) -> Iterator[str]:
    """Yield the files of a new worktree that differ from its commit, e.g. due to a git filter.

    Line endings and files stored by Git LFS, with the hash in the commit, may be converted.
    """
    present = files_in(tree)
    for name in sorted(blobs.keys() | present.keys() - {".git"}):
        path, blob = tree / name, blobs.get(name)
        if blob is None or not (path.is_symlink() or path.is_file()):
            yield name
            continue
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        forms = (content, content.replace(b"\r\n", b"\n"))
        if blob not in [_object_id("blob", form, blob) for form in forms]:
            pointer = git_read.ask(tree, "cat-file", "-p", blob).out
            if f"oid sha256:{present.get(name)}" not in pointer.splitlines():
                yield name


def _blobs(root: Path, commit: str) -> dict[str, str]:
    """Return the names of a commit's blobs by path. git does not verify them or their folders.

    Raises EnvironmentBlocked E_TREE if the commit or a tree does not have the hash in its name.
    """
    blobs: dict[str, str] = {}
    stored = git_read.ask(root, "cat-file", "commit", commit).out
    trees = {"": "".join(stored.split()[1:2])}
    contents: dict[str, bytes] = {"": b""}
    for row in git_read.entries(root, "ls-tree", "-r", "-t", "-z", "--full-tree", commit):
        head, _, path = row.partition("\t")
        mode, kind, name = head.split()
        {"tree": trees, "blob": blobs}.get(kind, {})[path] = name
        folder, _, own = path.rpartition("/")
        entry = f"{mode.lstrip('0')} {own}\0".encode(errors="surrogateescape")
        contents[folder] = contents.get(folder, b"") + entry + bytes.fromhex(name)
    is_intact = _object_id("commit", stored.encode(errors="surrogateescape"), commit) == commit
    changed = [
        path
        for path, name in trees.items()
        if _object_id("tree", contents.get(path, b""), name) != name
    ]
    if changed or not is_intact:
        raise EnvironmentBlocked(
            "E_TREE", f"The stored objects of commit {commit[:12]} were changed."
        )
    return blobs


def _object_id(kind: str, content: bytes, like: str) -> str:
    """Return the name that git gives to an object, with the hash function of another name."""
    own = hashlib.new("sha1" if len(like) == 40 else "sha256")
    own.update(f"{kind} {len(content)}\0".encode() + content)
    return own.hexdigest()


def tree_problems(folder: StudyFolder, candidate: Candidate) -> list[str]:
    """Return the differences between a candidate's tree and the tree that its change produces."""
    change, root, base = candidate.change, folder.root, candidate.base_commit
    if mode_of(folder, candidate) == "in_place":
        if change.patch or change.files:
            return ["a change of files requires isolation.mode worktree"]
        if not git_read.is_repository(root):
            return []  # no reference here; evaluator and adapter hashes are compared
        names = filter(_is_code, git_read.changed_paths(root))
        problems = [f"{name} is uncommitted or ignored" for name in names]
        if base is not None and not git_read.has_commit(root, base):
            problems.append(f"the commit {base[:12]} of its validation does not exist here")
        return problems
    tree, path = _own_tree(folder, candidate), _manifest_file(folder, candidate)
    if not path.exists():
        return ["its tree does not exist yet"]
    if not tree.is_dir():
        return [f"its tree {tree} is missing"]
    manifest = read_record(path, TreeManifest)
    if git_read.head_commit(tree) != manifest.base_commit:
        return ["its worktree is no longer at the base commit"]
    now = _contents(tree)
    return [
        f"{name} has changed since the tree was created"
        for name in sorted(manifest.files.keys() | now.keys())
        if manifest.files.get(name) != now.get(name)
    ]


def remove_tree(folder: StudyFolder, candidate: Candidate) -> None:
    """Remove a candidate's worktree, unless it contains other changes than the candidate's."""
    is_own = mode_of(folder, candidate) == "worktree" and is_made(folder, candidate)
    if is_own and not tree_problems(folder, candidate):
        _git(folder.root, "worktree", "remove", "--force", str(_own_tree(folder, candidate)))
        _manifest_file(folder, candidate).unlink()


def _contents(tree: Path) -> dict[str, str]:
    """Return the hashes of files that differ from the checked-out commit."""
    return {
        name: file_hash(tree / name) if (tree / name).is_file() else "absent"
        for name in sorted(git_read.changed_paths(tree))
        if _is_code(name)
    }


def _is_code(name: str) -> bool:
    return "__pycache__" not in name.split("/") and not name.startswith(f"{STATE_FOLDER}/")


def _git(folder: Path, *words: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
    if words[0] == "apply":  # a filter could change the patched files
        environment |= git_read.without_programs(folder)
    done = subprocess.run(
        # A checkout must not run the repository's hooks or file-system monitor.
        ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_GIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentBlocked(
            "E_TREE", f"git {' '.join(words[:2])} failed: {done.stderr.strip()[-500:]}"
        )
