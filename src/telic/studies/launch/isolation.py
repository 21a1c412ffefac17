"""The tree that a candidate runs in: the repository itself, or a git worktree of its own.

A tree is made once per candidate revision. Its manifest is written last: a tree without one was
never finished, nothing ever ran in it, and it is made again. A candidate that runs in place goes on
in a worktree of its own commit once the repository has moved on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from telic.core.config import Record
from telic.storage.files import read_record, write_json
from telic.storage.locks import taking_turns
from telic.storage.reading import file_hash
from telic.studies import git_read
from telic.studies.documents.candidate import Candidate
from telic.studies.errors import EnvironmentBlocked
from telic.studies.folder import STATE_FOLDER, StudyFolder

_GIT_S = 300
TreeMode = Literal["in_place", "worktree"]


class TreeManifest(Record):
    """What a tree was when it was made."""

    schema_version: Literal[1] = 1
    base_commit: str
    files: dict[str, str]
    """path to hash: what differs from the base"""


def mode_of(folder: StudyFolder, candidate: Candidate) -> TreeMode:
    """Return where the candidate runs now: in place only while that is what it was validated on."""
    mode, base, root = candidate.isolation.mode, candidate.base_commit, folder.root
    if mode != "in_place" or base is None or not git_read.is_repository(root):
        return mode
    head = git_read.head_commit(root)
    if head is None or head == base or not git_read.has_commit(root, base):
        return mode
    moved = any(not _is_ours(name) for name in git_read.differing_paths(root, base, head))
    return "worktree" if moved else mode


def tree_of(folder: StudyFolder, candidate: Candidate) -> Path:
    """Return where the candidate runs, whether it was made or not."""
    in_place = mode_of(folder, candidate) == "in_place"
    return folder.root if in_place else _own_tree(folder, candidate)


def _own_tree(folder: StudyFolder, candidate: Candidate) -> Path:
    name = f"{folder.study_id}.{candidate.id}.r{candidate.revision}"
    return folder.state_root / "worktrees" / folder.task_id / name


def manifest_file(folder: StudyFolder, candidate: Candidate) -> Path:
    """Return where the manifest is: outside of the tree, which must stay as it is."""
    tree = _own_tree(folder, candidate)
    return tree.with_name(f"{tree.name}.json")


def is_made(folder: StudyFolder, candidate: Candidate) -> bool:
    """Return whether the candidate's own tree is there, and whole."""
    return manifest_file(folder, candidate).exists() and _own_tree(folder, candidate).is_dir()


def prepare_tree(folder: StudyFolder, candidate: Candidate) -> Path:
    """Make the candidate's tree unless it is there; return it."""
    if mode_of(folder, candidate) == "in_place":
        return folder.root
    tree = _own_tree(folder, candidate)
    tree.parent.mkdir(parents=True, exist_ok=True)
    with taking_turns(folder.locks / "worktrees.lock"):
        if not is_made(folder, candidate):
            _make(folder, candidate, tree)
    return tree


def tree_problems(folder: StudyFolder, candidate: Candidate, *, excepted: bool) -> list[str]:
    """Return why the candidate's tree is not exactly its base with its change.

    Args:
        folder: of the study.
        candidate: whose tree it is.
        excepted: whether the contract waives the need for a tree of its own.
    """
    change = candidate.change
    if mode_of(folder, candidate) == "in_place":
        if (change.patch or change.files) and not excepted:
            return ["a change of files needs isolation.mode worktree"]
        return [] if excepted else _in_place_problems(folder.root, candidate)
    path = manifest_file(folder, candidate)
    if not path.exists():
        return ["its tree has not been made"]
    manifest = read_record(path, TreeManifest)
    tree = _own_tree(folder, candidate)
    if not tree.is_dir():
        return [f"its tree {tree} is gone"]
    if git_read.head_commit(tree) != manifest.base_commit:
        return ["its worktree is not at the base commit any more"]
    now = _contents(tree)
    return [
        f"{name} is not what it was when the tree was made"
        for name in sorted(manifest.files.keys() | now.keys())
        if manifest.files.get(name) != now.get(name)
    ]


def remove_tree(folder: StudyFolder, candidate: Candidate) -> bool:
    """Remove a worktree that holds nothing but its change; False when it holds results."""
    path = manifest_file(folder, candidate)
    if mode_of(folder, candidate) != "worktree" or not path.exists():
        return False
    if tree_problems(folder, candidate, excepted=False):
        return False
    _git(folder.root, "worktree", "remove", "--force", str(_own_tree(folder, candidate)))
    path.unlink()
    return True


def _in_place_problems(root: Path, candidate: Candidate) -> list[str]:
    if not git_read.is_repository(root):
        return []  # there is nothing to compare with; evaluator and adapter hashes still are
    problems = [f"{name} has changes that are in no commit" for name in _changed(root)]
    base = candidate.base_commit
    if base is not None and not git_read.has_commit(root, base):
        problems.append(f"the commit {base[:12]} that it was validated at is gone from here")
    return problems


def _make(folder: StudyFolder, candidate: Candidate, tree: Path) -> None:
    base = candidate.base_commit
    if base is None:
        raise EnvironmentBlocked("E_TREE", f"{candidate.id} names no base commit.")
    _git(folder.root, "worktree", "prune")
    if tree.exists():
        _git(folder.root, "worktree", "remove", "--force", str(tree))
    _git(folder.root, "worktree", "add", "--detach", str(tree), base)
    home = folder.candidate_file(candidate.id, candidate.revision).parent
    if candidate.change.patch:
        _git(tree, "apply", "-p1", str((home / candidate.change.patch).resolve()))
    for changed in candidate.change.files:
        target = tree / changed.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(home / "files" / changed.path, target)
    manifest = TreeManifest(base_commit=base, files=_contents(tree))
    write_json(manifest_file(folder, candidate), manifest)


def _contents(tree: Path) -> dict[str, str]:
    return {
        name: file_hash(tree / name) if (tree / name).is_file() else "absent"
        for name in sorted(_changed(tree))
    }


def _changed(tree: Path) -> list[str]:
    return [
        name
        for name in git_read.changed_paths(tree)
        if not _is_ours(name) and not _is_compiled(name)
    ]


def _is_ours(name: str) -> bool:
    return name.startswith(f"{STATE_FOLDER}/")


def _is_compiled(name: str) -> bool:
    return "__pycache__" in name.split("/") or name.endswith(".pyc")


def _git(folder: Path, *words: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    done = subprocess.run(
        # A repository's hooks are its own programs; checking a tree out must not run them.
        ["git", "-c", "core.hooksPath=/dev/null", *words],
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
