import json

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from tests.studies.candidates.small_study import PATCH, add_evidence, complete, measure

BETTER = "c-0002-more-weight"
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


def test_a_failed_check_is_exit_code_4(study, telic, idea):
    code, made = telic(study, "propose", idea(study, promotion="[1, 2, 3, 4, 5]"))
    failed = [each["id"] for each in made["checks"] if not each["passed"]]
    assert (code, failed) == (4, ["V13"])


def test_a_patch_and_a_revision(study, telic, idea, tmp_path):
    (tmp_path / "x.diff").write_text(PATCH)
    patch = ["--patch", str(tmp_path / "x.diff")]
    code, made = telic(study, "propose", idea(study, change=""), *patch)
    assert code == 0, made
    (tmp_path / "more.yaml").write_text("change: {overrides: {ppo.epochs: {from: 2, to: 3}}}\n")
    code, revised = telic(
        study, "propose", str(tmp_path / "more.yaml"), *patch, "--revise", made["id"]
    )
    assert (code, revised["revision"]) == (0, 2), revised
    shown = telic(study, "status", made["id"])[1]
    change = shown["change"]
    assert (change["patch"], list(change["overrides"])) == ("patch.diff", ["ppo.epochs"])


def test_unknown_verdict_is_a_usage_error(claimed, telic):
    code, refused = telic(claimed, "decide", BETTER, "acept", "--because", "x")
    assert code == 2 and "accept" in refused["hint"]
