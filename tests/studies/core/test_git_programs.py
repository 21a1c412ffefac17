"""Reading a repository starts no program that the repository names, in whichever setting."""

import subprocess

import pytest

from telic.studies import _git_read as git_read


def git(root, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


def repository(root):
    root.mkdir()
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    (root / "a.txt").write_text("another\n")
    return root


SETTINGS = [
    *(
        f"filter.{name}.{how}"
        for name in ("evil", "e.v=il")
        for how in ("clean", "process", "smudge")
    ),
    *("diff.evil.textconv", "diff.evil.command", "diff.external", "core.fsmonitor", "core.pager"),
    *("core.hooksPath", "core.sshCommand", "core.attributesFile"),
]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("inside", [False, True], ids=["itself", "a sub-module"])
def test_no_program_of_a_repository_is_started(tmp_path, setting, inside):
    mark = tmp_path / "mark"
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    root = named = repository(tmp_path / "repository")
    if inside:
        repository(tmp_path / "other")
        git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "sub")
        git(root, "commit", "-q", "-m", "sub-module")
        named = root / "sub"
        (named / "a.txt").write_text("another\n")
    (named / ".gitattributes").write_text("* filter=evil diff=evil\na.txt filter=e.v=il\n")
    value = str(tmp_path) if setting == "core.hooksPath" else str(program)
    git(named, "config", setting, value)
    git(named, "config", "filter.evil.required", "true")
    assert any(path.endswith("a.txt") for path in git_read.changed_paths(root))
    git_read.head_commit(root)
    git_read.differing_paths(root, "HEAD", "HEAD")
    patch = tmp_path / "some.patch"
    patch.write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n")
    git_read.why_patch_fails(root, patch, git_read.head_commit(root))
    git_read.read_patch(root, patch)
    assert not mark.exists()
