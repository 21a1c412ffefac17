"""An adapter is checked: its schema, the lines it cites, its commands; people confirm it."""

import json

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies.documents.base import read_yaml, write_yaml
from telic.studies.folder import StudyFolder

TRAIN = (
    "import argparse\n\nif __name__ == '__main__':\n    p.add_argument('--seed')\n    m.learn()\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    words = ["study", "init", "--task", "walk", "--study", "one", "--root", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return StudyFolder.find(tmp_path)


def checked(folder, *words):
    line = ["study", "adapter", *words, "--root", str(folder.root), "--json"]
    done = CliRunner().invoke(app, line)
    return done.exit_code, json.loads(done.stdout)["check"]


def change(folder, **parts):
    data = read_yaml(folder.adapter)
    for place, value in parts.items():
        section, _, name = place.partition("__")
        data[section][name] = value
    write_yaml(folder.adapter, data)


def test_a_draft_is_valid_and_says_what_it_leaves_open(folder):
    code, found = checked(folder)
    assert (code, found["ok"], found["problems"]) == (0, True, [])
    assert "logging" in found["unknown"] and "commands.train" not in found["unknown"]


def cites(*places):
    source = {"status": "inferred", **({"evidence": places} if places else {})}
    return {"provenance__seeds": source}


WRONG = (
    ({"commands__train": {"argv": ["python", "gone.py"]}}, "the file gone.py was not found"),
    ({"commands__train": {"argv": ["nowhere-train"]}}, "the program nowhere-train was not found"),
    ({"commands__train": {"argv": ["python", "train.py", "--task=xxx"]}}, "--task=xxx"),
    ({"commands__train": {"argv": ["python", "train.py", "&&", "ls"]}}, "shell operator"),
    ({"commands__train": {"argv": ["python", "train.py", "{oops}"]}}, "placeholder"),
    ({"commands__trian": None}, "unknown key trian"),
    (cites("train.py:99"), "train.py:99: the file has 6 lines"),
    (cites("../secret:1"), "outside the repository"),
    (cites(), "must cite its line"),
)


def test_what_is_wrong_is_named(folder):
    held = folder.adapter.read_bytes()
    for parts, problem in WRONG:
        change(folder, **parts)
        code, found = checked(folder)
        assert code == 4 and not found["ok"]
        assert any(problem in each for each in found["problems"]), found["problems"]
        folder.adapter.write_bytes(held)
