import json

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from tests.studies.candidates.small_study import add_evidence, complete, measure

CHANGE = "change: {overrides: {reward.weight: {from: 1.0, to: 2.0}}}\n"


@pytest.fixture
def telic(monkeypatch):
    """Return a function that runs a command in a study and gives its exit code and answer."""
    monkeypatch.setenv("TELIC_ACTOR", "agent:claude")

    def run(study, *words):
        done = CliRunner().invoke(
            app, ["study", *words, "--root", str(study.folder.root), "--json"]
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout)

    return run


@pytest.fixture
def idea(tmp_path):
    """Return a function that writes a draft file and returns its path."""

    def write(study, promotion="[110, 111, 112, 113, 114]", change=CHANGE, more=""):
        path = tmp_path / "idea.yaml"
        path.write_text(
            f"title: more weight\nkind: config\nevidence_refs: [{add_evidence(study)}]\n"
            "hypothesis: {statement: success rises, mechanism: it counts more, falsifier: it does "
            "not, expected: {metric: success, direction: max, magnitude: 0.1}}\n"
            f"{change}plan: {{est: {{gpu_h: 1}}, seeds: {{promotion: {promotion}}}}}\n{more}"
        )
        return str(path)

    return write


def test_an_idea_is_written_checked_and_queued(based, telic, idea):
    study = based
    code, made = telic(study, "propose", idea(study))
    name = made["id"]
    assert (code, made["ok"], len(made["checks"])) == (0, True, 16)
    code, shown = telic(study, "status", name)
    assert shown["plan"]["seeds"]["promotion"] == [110, 111, 112, 113, 114]
    code, done = telic(study, "run")
    assert (code, done["steps"]) == (0, {})
    assert done["next"]["action"] == "agree"
    assert done["next"]["command"].startswith("telic study approve task_definition")
    code, looked = telic(study, "status", "queue")
    (job,) = looked["jobs"]
    assert [job[x] for x in ("candidate", "phase", "seed", "status")] == [name, "smoke", 1, "ready"]
    run = complete(study, name)[0]
    measure(study, run, 0.3)
    telic(study, "run")
    code, shown = telic(study, "status", name)
    assert (shown["status"], shown["phase"]) == ("validated", "short_trial")
    assert telic(study, "status", "candidates")[1][name]["status"] == "validated"
