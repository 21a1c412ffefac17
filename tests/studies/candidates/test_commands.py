import json
import sys

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies.evidence.audit import audit_result
from tests.studies.candidates.small_study import AGENT, PATCH, add_evidence, complete, measure

BETTER = "c-0002-more-weight"


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


def new_words(study):
    return [
        "candidate",
        "new",
        "more weight",
        "--kind",
        "config",
        "--set",
        "reward.weight=2.0",
        "--was",
        "reward.weight=1.0",
        "--because",
        "success rises",
        "--mechanism",
        "the term counts more",
        "--expects",
        "success:max:0.1",
        "--falsifier",
        "success does not rise",
        "--evidence",
        add_evidence(study),
        "--est",
        "gpu_h=1",
        "--seeds",
        "promotion=110-114",
    ]


def test_an_idea_is_written_checked_queued_and_offered(study, telic):
    code, made = telic(study, *new_words(study))
    name = made["id"]
    assert code == 0 and made["plan"]["seeds"]["promotion"] == [110, 111, 112, 113, 114]
    code, checked = telic(study, "candidate", "validate", name)
    assert (code, checked["ok"], len(checked["checks"])) == (0, True, 16)
    code, jobs = telic(study, "queue", "plan", name)
    assert (code, len(jobs)) == (0, 7)
    code, looked = telic(study, "queue", "step")
    assert looked["ready"][0]["job"]["job_id"] == f"{name}/1/smoke/1"
    code, said = telic(study, "next")
    assert (code, said["action"]) == (0, "agree")
    assert said["command"].startswith("telic study approve task_definition")
    run = complete(study, name)[0]
    measure(study, run, 0.3)
    code, moved = telic(study, "queue", "advance")
    assert moved[0]["to"] == "short_trial"
    code, shown = telic(study, "candidate", "show", name)
    assert (shown["status"], shown["phase"]) == ("validated", "short_trial")


def test_a_failed_check_is_exit_code_4(study, telic):
    words = [*new_words(study)[:-2], "--seeds", "promotion=1-5"]
    _, made = telic(study, *words)
    code, checked = telic(study, "candidate", "validate", made["id"])
    failed = [each["id"] for each in checked["checks"] if not each["passed"]]
    assert (code, failed) == (4, ["V13"])


def test_a_draft_file_with_a_patch(study, telic, tmp_path):
    (tmp_path / "idea.yaml").write_text(
        f"kind: config\nevidence_refs: [{add_evidence(study)}]\nplan: {{est: {{gpu_h: 1}}}}\n"
        "hypothesis: {statement: a, mechanism: b, falsifier: c, "
        "expected: {metric: success, direction: max}}\n"
    )
    (tmp_path / "x.diff").write_text(PATCH)
    words = ["--draft", str(tmp_path / "idea.yaml"), "--patch", str(tmp_path / "x.diff")]
    _, made = telic(study, "candidate", "new", "patched", *words)
    assert telic(study, "candidate", "validate", made["id"])[0] == 0
    code, revised = telic(
        study,
        "candidate",
        "revise",
        made["id"],
        "--set",
        "ppo.epochs=3",
        "--was",
        "ppo.epochs=2",
        "--est",
        "gpu_h=0.5",
        "--steps",
        "900",
        "--seeds",
        "smoke=7",
    )
    assert (code, revised["revision"], revised["change"]["patch"]) == (0, 2, "patch.diff")
    plan = revised["plan"]
    assert (plan["est"]["gpu_h"], plan["steps"], plan["seeds"]) == (0.5, 900, {"smoke": [7]})


def test_a_batch_and_what_resembles_it(study, telic):
    _, made = telic(study, *new_words(study))
    telic(study, "candidate", "validate", made["id"])
    code, batch = telic(study, "queue", "batch", "weights", made["id"], "--goal", "find it")
    assert (code, batch["candidates"][0]["id"]) == (0, made["id"])
    code, queue = telic(
        study, "queue", "reorder", "--order", "priority", "--priority", f"{made['id']}=2"
    )
    assert (code, queue["policy"]["order"], queue["jobs"][0]["priority"]) == (0, "priority", 2)
    assert telic(study, "queue", "reorder", "--order", "luck")[0] == 2
    _, again = telic(study, *new_words(study))
    code, found = telic(study, "candidate", "similar", again["id"])
    assert (found[0]["candidate"], found[0]["likeness"]) == (made["id"], 1.0)
    assert telic(study, "candidate", "withdraw", again["id"], "--because", "a copy")[0] == 0


def test_an_agent_can_only_propose_to_accept(claimed, telic):
    audit_result(claimed, BETTER, AGENT)
    code, made = telic(claimed, "decide", BETTER, "accept", "--because", "it is better")
    assert (code, made["recorded"]) == (0, False)
    code, refused = telic(claimed, "revert", "c-0001-as-it-is", "--because", "no")
    assert code == 3 and "agent may not" in refused["message"]


def test_a_word_that_is_no_verdict_is_usage(claimed, telic):
    code, refused = telic(claimed, "decide", BETTER, "acept", "--because", "x")
    assert code == 2 and "accept" in refused["hint"]


def test_a_baseline_is_one_command(study, telic):
    code, made = telic(study, "baseline", "--est", "gpu_h=1")
    assert (code, made["kind"]) == (0, "baseline")
    assert telic(study, "candidate", "validate", made["id"])[0] == 0


READING = [
    ["candidate", "show"],
    ["candidate", "validate", BETTER],
    ["candidate", "similar", BETTER],
    ["queue", "step"],
    ["queue", "advance"],
    ["next"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_no_command_starts_anything_but_git_questions_or_opens_a_socket(claimed, telic, words):
    seen = []

    def watch(event, details):
        if not watching:
            return
        if event in ("os.exec", "os.fork", "os.posix_spawn", "os.system", "pty.spawn"):
            seen.append(event)
        if event == "subprocess.Popen" and str(details[1][0]) != "git":
            seen.append(f"{event} {details[1]}")
        if event.startswith("socket.") and event not in ("socket.gethostname", "socket.__new__"):
            seen.append(event)

    watching = True
    sys.addaudithook(watch)
    telic(claimed, *words)
    watching = False
    assert seen == []
