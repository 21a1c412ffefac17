"""The commands as a person meets them, and the how-to page as it is written."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telic.bench.results import load_suite
from telic.cli.main import app

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "measure-with-the-benchmark.md"
SUITE = """
name = "odd"
[[case]]
id = "nonsense"
env = "Ant-v5"
intent = "frobnicate the quux"
category = "pose"
difficulty = "hard"
"""


@pytest.fixture
def telic(tmp_path):
    (tmp_path / "odd.toml").write_text(SUITE)

    def call(*arguments):
        return CliRunner().invoke(app, ["bench", *arguments, "--runs-dir", str(tmp_path / "runs")])

    return call


def test_a_refused_case_is_in_the_result(telic, tmp_path):
    done = telic("intents", "--suite", str(tmp_path / "odd.toml"), "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["overall"]["passed"] == 0 and found["overall"]["total"] == 1
    assert found["results"][0]["outcome"] == "refused" and found["results"][0]["score"] is None
    shown = telic("intents", "--suite", str(tmp_path / "odd.toml"))
    assert "0 of 1 (0%" in shown.stdout and "index.html" in shown.stdout


def test_wrong_names_are_refused_with_the_closest(telic):
    assert telic("intents", "--suite", "croe").exit_code == 2
    assert telic("intents", "--only", "ant-wlak").exit_code == 2


@pytest.mark.long
def test_the_how_to_page_is_true(tmp_path, monkeypatch):
    text = GUIDE.read_text()
    monkeypatch.chdir(tmp_path)
    suite, _ = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    Path("mine.toml").write_text(suite)
    assert load_suite("mine.toml").case[0].checks
    for name in ("core", "exotic", "files"):
        assert f"| `{name}` | {len(load_suite(name).case)} |" in text
    (code,) = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    exec(compile(code, GUIDE.name, "exec"), {"__name__": __name__})
