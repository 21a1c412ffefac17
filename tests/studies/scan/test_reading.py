"""Reading is static: nothing runs, nothing changes, nothing outside the root is read."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from telic.errors import UsageError
from telic.studies.offline import offline
from telic.studies.scan.audit import audit_repository
from telic.studies.scan.facts import ModuleFacts
from telic.studies.scan.records import Signals
from telic.studies.scan.settings import outline
from telic.studies.scan.source import RepositoryTree


def fingerprint(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["single_file_tyro", "destructive", "hardware_sdk"])
def test_the_tree_stays_as_it_is_and_nothing_runs(unpack, name):
    root = unpack(name)
    (root / "bomb.py").write_text("open('exploded', 'w').close()\nraise SystemExit\n")
    before = fingerprint(root)
    with offline("scan"):
        audit_repository(root)
    assert fingerprint(root) == before
    assert "bomb" not in sys.modules


def test_links_out_of_the_root_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("import unitree_sdk2py\n")
    root = tmp_path / "repo"
    root.mkdir()
    (root / "train.py").write_text("print(1)\n")
    os.symlink(outside, root / "folder")
    os.symlink(outside / "secret.py", root / "linked.py")
    os.symlink(root / "train.py", root / "again.py")
    assert RepositoryTree(root).python == ("again.py", "train.py")
    assert "actuates_hardware" not in {each.id for each in audit_repository(root).hazards}


def test_a_file_that_does_not_parse_is_named(tmp_path):
    (tmp_path / "old.py").write_text("print 'python two'\n")
    (tmp_path / "train.py").write_text("model.learn(10)\n")
    found = audit_repository(tmp_path)
    assert found.unreadable == ("old.py",)
    assert found.train[0].path == "train.py"


def test_an_empty_folder_and_no_folder(tmp_path):
    found = audit_repository(tmp_path)
    assert found.train == ()
    assert found.config.primary is None
    with pytest.raises(UsageError, match="not a folder"):
        audit_repository(tmp_path / "nothing")


def test_confidence_adds_up_and_a_doubt_caps_it():
    signals = Signals()
    signals.add(0.5, "a", 1, "x")
    signals.add(0.3, "b", 1, "y")
    assert signals.confidence == pytest.approx(0.65)
    signals.add(0.7, "c", 1, "z")
    signals.add(-0.1, "d", 1, "against")
    assert signals.confidence == 0.5
    weak = Signals(scale=0.1)
    weak.add(0.5, "tests/a.py", 1, "x")
    assert weak.confidence == pytest.approx(0.05)


def test_tests_do_not_speak_for_the_sources(tmp_path):
    (tmp_path / "tests").mkdir()
    text = "import pytest\n\n\ndef test_it():\n    model.learn(1)\n\n\ntest_it()\n"
    (tmp_path / "tests" / "test_train.py").write_text(text)
    assert audit_repository(tmp_path).train == ()


def test_outline_reads_keys_by_indentation():
    keys = outline("a:\n  b: 1e-3 # small\n  list:\n    - c: no\n# d: 1\ne: 'text'\n")
    assert [(key.path, key.value) for key in keys] == [
        ("a", None),
        ("a.b", 0.001),
        ("a.list", None),
        ("a.list.c", False),
        ("e", "text"),
    ]


def test_guards_follow_conditions_and_early_returns():
    from telic.studies.scan.reader import read_module

    facts: ModuleFacts = read_module(
        "m.py",
        "def f(cfg):\n"
        "    if not cfg.track:\n"
        "        return\n"
        "    if cfg.kind == 'x' and cfg.on:\n"
        "        go()\n"
        "    else:\n"
        "        stay()\n",
    )
    go = next(call for call in facts.calls if call.name == "go")
    assert [(guard.names[0], guard.holds) for guard in go.guards] == [
        ("cfg.track", True),
        ("cfg.kind", True),
        ("cfg.on", True),
    ]
    stay = next(call for call in facts.calls if call.name == "stay")
    assert [guard.holds for guard in stay.guards] == [True, False]
    either = stay.guards[1].test
    assert either is not None and either.kind == "and"
