import re
import shutil
import subprocess

import pytest

from telic.studies import _git_read as git_read

GOOD = "--- a/reward.py\n+++ b/reward.py\n@@ -1 +1 @@\n-weight = 1\n+weight = 2\n"


def git(root, *words):
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    (root / "reward.py").write_text("weight = 1\n")
    git(root, "init", "-q")
    git(root, "config", "user.email", "a@example.org")
    git(root, "config", "user.name", "a")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def snapshot(root):
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}


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


def test_what_git_does_not_compare_counts_as_changed(repository):
    for name in ("json/__init__.py", "data/notes.py", "numpy.pyc", "__pycache__/reward.pyc"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("")
    (repository / "torch").symlink_to("json")
    (repository / ".git/info/exclude").write_text("json/\ndata/\n*.pyc\ntorch\n")
    expected = {"json/__init__.py", "numpy.pyc", "torch/__init__.py"}
    assert {*git_read.changed_paths(repository)} == expected
    for flag in ("skip-worktree", "assume-unchanged"):
        git(repository, "update-index", f"--{flag}", "reward.py")
        (repository / "reward.py").write_text(flag)
        assert {*git_read.changed_paths(repository)} == {*expected, "reward.py"}, flag
        git(repository, "update-index", f"--no-{flag}", "reward.py")


EVIL = "* filter=evil diff=evil\na.txt filter=e.v=il\n"
SETTINGS = [
    *(
        f"filter.{name}.{how}"
        for name in ("evil", "e.v=il")
        for how in ("clean", "process", "smudge")
    ),
    *("diff.evil.textconv", "diff.evil.command", "diff.external", "core.fsmonitor", "core.pager"),
    *("core.hooksPath", "core.sshCommand", "core.attributesFile"),
]


@pytest.mark.parametrize("inside", [False, True], ids=["itself", "a sub-module"])
def test_no_program_that_a_repository_names_is_started(repository, tmp_path, inside):
    mark, program, named = tmp_path / "mark", tmp_path / "evil.sh", repository
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    if inside:
        named = repository / "sub"
        shutil.copytree(repository, tmp_path / "other")
        words = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "sub")
        git(repository, *words)
        git(repository, "commit", "-q", "-m", "sub-module")
    (named / "reward.py").write_text("another\n")
    (named / ".gitattributes").write_text(EVIL.replace("a.txt", "reward.py"))
    for setting in SETTINGS:
        git(named, "config", setting, str(tmp_path if setting == "core.hooksPath" else program))
    git(named, "config", "filter.evil.required", "true")
    assert any(path.endswith("reward.py") for path in git_read.changed_paths(repository))
    git_read.differing_paths(repository, "HEAD", "HEAD")
    patch = tmp_path / "some.patch"
    patch.write_text(GOOD)
    git_read.why_patch_fails(repository, patch, git_read.head_commit(repository))
    git_read.read_patch(repository, patch)
    assert not mark.exists()


def read(folder, text):
    (folder / "x.diff").write_text(text)
    return git_read.read_patch(folder, folder / "x.diff")


def test_all_lines_of_a_patch_are_counted(repository):
    found = read(repository, "--- a/x.py\n+++ b/x.py\n@@ -1 +1,3 @@\n-b\n+a\rb\r\n+\n+d\n")
    assert (found.removed, found.added) == (("b",), ("a", "b", "", "d"))


def test_a_line_that_looks_like_a_header_is_counted(repository):
    """A line that adds "++ x" or removes "-- x" begins like the names of a file."""
    text = (
        "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def f():\n--- secret\n same\n+++ run(secret)\n"
        "@@ -9 +9 @@\n-b\n+c\n\\ No newline at end of file\n"
        "--- a/y.py\n+++ b/y.py\n@@ -0,0 +1 @@\n+++ d\n"
    )
    found = read(repository, text)
    assert found.files == ("x.py", "y.py") and not found.problems
    assert found.removed == ("-- secret", "b")
    assert found.added == ("++ run(secret)", "c", "++ d")


def test_a_patch_that_git_reads_differently_is_a_problem(repository, monkeypatch):
    monkeypatch.setattr(git_read, "_HUNK", re.compile("(never)(matches)"))
    found = read(repository, "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-b\n+c\n")
    assert "git counts other lines" in found.problems[0]


PATTERNS = """
src/**/reward*.py   src/reward.py            yes
src/**/reward*.py   src/a/b/reward_x.py      yes
src/**/reward*.py   src/a/b/other.py         no
**/eval*.py         eval.py                  yes
**/eval*.py         a/evaluate.py            yes
**/eval*.py         a/medieval.py            no
assets/**           assets/robot/mesh.stl    yes
assets              assets/robot/mesh.stl    yes
assets              assets2/x                no
src/reward*         src/rewards/deep/x.py    no
a?b                 a.b                      yes
a?b                 a/b                      no
"""


def test_patterns_mean_what_people_expect():
    for line in PATTERNS.strip().splitlines():
        pattern, path, fits = line.split()
        assert (git_read.first_match(path, [pattern]) is not None) == (fits == "yes"), line
