import subprocess

import pytest

from telic.errors import Refused
from telic.studies import _git_read as git_read

GOOD = "--- a/reward.py\n+++ b/reward.py\n@@ -1 +1 @@\n-weight = 1\n+weight = 2\n"


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    (root / "reward.py").write_text("weight = 1\n")
    for words in (
        ("init", "-q"),
        ("config", "user.email", "a@example.org"),
        ("config", "user.name", "a"),
        ("add", "."),
        ("commit", "-q", "-m", "first"),
    ):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def snapshot(root):
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("commit", "-m", "x"),
        ("apply", "x.diff"),
        ("apply", "--check", "--apply", "x.diff"),
        ("hash-object", "-w", "x"),
        ("read-tree", "HEAD"),
        ("diff",),
        ("diff", "--no-ext-diff", "--output=x"),
        ("fetch",),
        ("worktree", "add", "x"),
        ("notes", "add", "-m", "x"),
        ("notes", "--ref=refs/notes/telic", "append", "-F", "-", "--output=x"),
    ],
)
def test_what_writes_or_runs_foreign_code_is_refused(repository, words):
    with pytest.raises(Refused, match="not one of the read-only"):
        git_read.ask(repository, *words)


def test_only_commands_built_here_count_as_allowed():
    assert not git_read.is_allowed(["git", "status", "--porcelain"])
    assert not git_read.is_allowed(["sh", "-c", "git status --porcelain"])


def test_a_patch_is_checked_against_its_base_whatever_lies_in_the_tree(repository, tmp_path):
    base = git_read.head_commit(repository)
    assert base is not None and git_read.has_commit(repository, base)
    patch = tmp_path / "patch.diff"
    patch.write_text(GOOD)
    (repository / "reward.py").write_text("something else\n")
    before = snapshot(repository)
    assert git_read.why_patch_fails(repository, patch, base) is None
    assert git_read.read_patch(repository, patch).files == ("reward.py",)
    assert git_read.changed_paths(repository) == ("reward.py",)
    why = git_read.why_patch_fails(repository, patch, None)
    assert why is not None and "reward.py" in why
    assert snapshot(repository) == before


def test_a_file_system_monitor_named_by_the_repository_does_not_run(repository, tmp_path):
    mark, hook = tmp_path / "ran", tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    words = ["git", "config", "core.fsmonitor", str(hook)]
    subprocess.run(words, cwd=repository, check=True)
    git_read.changed_paths(repository)
    assert not mark.exists()
