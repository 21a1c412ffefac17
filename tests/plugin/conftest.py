"""The command line as a tree, and a small repository with a study."""

import json
from pathlib import Path

import pytest
from typer.main import get_command

ADAPTER = """\
commands:
  train: {argv: [python, scripts/train.py, --seed, '{seed}', '{overrides}']}
  eval: {argv: [python, scripts/evaluate.py, '{checkpoint}']}
  smoke: null
  resume: null
"""


@pytest.fixture(scope="session")
def tree():
    from telic.cli.main import app

    return get_command(app)


@pytest.fixture
def repository(tmp_path):
    """A repository with a study whose training command is known."""
    study = tmp_path / ".telic" / "tasks" / "walk" / "studies" / "speed"
    study.mkdir(parents=True)
    (tmp_path / ".telic" / "tasks" / "walk" / "adapter.yaml").write_text(ADAPTER)
    (tmp_path / "scripts").mkdir()
    return tmp_path


@pytest.fixture
def with_adapter(repository):
    def write(commands: dict) -> Path:
        held = {"train": None, "eval": None, "smoke": None, "resume": None, **commands}
        path = repository / ".telic" / "tasks" / "walk" / "adapter.yaml"
        path.write_text(json.dumps({"commands": held}))  # JSON is YAML
        return repository

    return write
