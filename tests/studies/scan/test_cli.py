"""telic study audit, card and confirm from the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from telic.cli.main import app

run = CliRunner().invoke


@pytest.fixture
def studied(unpack):
    root = unpack("presets_yaml")
    begun = run(app, ["study", "init", "--task", "garden", "--study", "one", "--root", str(root)])
    assert begun.exit_code == 0, begun.output
    return root


def test_audit_needs_no_study_and_writes_nothing(unpack):
    root = unpack("destructive")
    shown = run(app, ["study", "audit", "--root", str(root)])
    assert shown.exit_code == 0, shown.output
    assert "deletes_results" in shown.output
    assert not (root / ".telic").exists()


def test_audit_writes_the_adapter_and_the_card(studied):
    done = run(app, ["study", "audit", "--root", str(studied), "--write", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["train"][0]["argv"][:2] == ["gardener", "train"]
    task = studied / ".telic" / "tasks" / "garden"
    assert "telic.adapter/1" in (task / "adapter.yaml").read_text()
    assert "gardener train" in (task / "task_card.md").read_text()


def test_the_audit_keeps_comments(studied):
    run(app, ["study", "audit", "--root", str(studied), "--write"])
    adapter = studied / ".telic" / "tasks" / "garden" / "adapter.yaml"
    commented = adapter.read_text().replace("seeds:\n", "seeds:  # ask Ada\n")
    adapter.write_text(commented)
    run(app, ["study", "audit", "--root", str(studied), "--write"])
    assert adapter.read_text() == commented and "# ask Ada" in commented


def test_an_agent_cannot_confirm(studied):
    run(app, ["study", "audit", "--root", str(studied), "--write"])
    adapter = studied / ".telic" / "tasks" / "garden" / "adapter.yaml"
    before = adapter.read_bytes()
    refused = run(app, ["study", "confirm", "seeds", "--root", str(studied)])
    assert refused.exit_code == 3
    assert adapter.read_bytes() == before


def test_the_card_can_be_written_again(studied):
    first = run(app, ["study", "card", "--root", str(studied)])
    again = run(app, ["study", "card", "--root", str(studied)])
    assert first.exit_code == 0, first.output
    assert first.output == again.output
