"""Files of earlier versions are read, resumed and reported.

The archive was written by telic before its packages were put in order: a training, a session and a
search that were killed in the middle, and a study whose baseline waits for a decision.
"""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.search.records import SearchFolder

ARCHIVE = Path(__file__).parent / "earlier" / "written_before.tar.xz"


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    # Minutes of drawing: what is drawn is the same as of a run that begins today.
    monkeypatch.setattr("telic.training.videos.render_run", lambda path, **options: [])
    return tmp_path


def telic(*words: str) -> dict:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


def test_an_unfinished_training_is_shown_and_not_resumed(earlier):
    assert telic("show", "halted")["status"] == "interrupted"
    done = CliRunner().invoke(app, ["resume", "halted"])
    assert done.exit_code == 1 and "earlier version" in " ".join(done.output.split())


def test_an_unfinished_session_is_shown_and_not_resumed(earlier):
    name = only(earlier, "runs/session_*").name
    assert telic("show", name)["intent"] == "keep the pole upright"
    done = CliRunner().invoke(app, ["resume", name])
    assert done.exit_code == 3 and "earlier version" in " ".join(done.output.split())


def test_an_unfinished_search_is_readable_and_not_resumed(earlier):
    folder = only(earlier, "runs/search_*")
    assert list(SearchFolder(folder).run(1).read())
    done = CliRunner().invoke(app, ["resume", folder.name])
    assert done.exit_code and "earlier version" in " ".join(done.output.split())


@pytest.mark.parametrize("words", [("verify",), ("study", "report")])
def test_an_unfinished_study_is_refused_with_a_clear_message(earlier, words):
    done = CliRunner().invoke(app, [*words, "--root", "repository"])
    assert done.exit_code == 2 and "earlier version of telic" in " ".join(done.output.split())
