"""The commands: what they say, how they end, and that they start nothing."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies._ledger import Ledger
from tests.studies.core.small import approve_all

runner = CliRunner()

# Every event that would start a process or reach the network ends the command.
_WATCHED = """
import sys
REFUSED = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.system",
           "pty.spawn", "os.startfile", "socket.connect", "socket.bind", "socket.getaddrinfo")
def watch(event, args):
    if event in REFUSED:
        sys.stderr.write(f"REFUSED {event} {args}")
        import os
        os._exit(99)
sys.addaudithook(watch)
from telic.__main__ import main
try:
    main()
finally:
    heavy = [m for m in ("torch", "gymnasium", "mujoco", "numpy") if m in sys.modules]
    if heavy:
        sys.stderr.write(f"IMPORTED {heavy}")
        import os
        os._exit(98)
"""


def command_of(words):
    return words if words[0] == "verify" else ("study", *words)


def run(root, *words, code=0):
    done = runner.invoke(app, [*command_of(words), "--root", str(root), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def watched(root, *words):
    """Run a command where starting a process, using the network or loading torch ends it."""
    command = [sys.executable, "-c", _WATCHED, *command_of(words), "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=-3)
    assert done.returncode not in (98, 99), done.stderr
    return done


def in_terminal(root, *words, answer=lambda code: code):
    """Run a command with a person at the terminal, who types what `answer` makes of the code."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", _WATCHED, *command_of(words), "--root", str(root)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = ""
    while "anything else to refuse" not in said:
        said += os.read(ours, 4096).decode(errors="replace")
    found = re.search(r"Type (\w+) to agree", said)
    assert found
    os.write(ours, (answer(found[1]) + "\n").encode())
    try:
        while more := os.read(ours, 4096):
            said += more.decode(errors="replace")
    except OSError:
        pass  # the terminal of a process that has ended cannot be read
    os.close(ours)
    return process.wait(60), said


def test_from_nothing_to_an_agreed_contract(repository):
    made = run(repository, "init", "--task", "g1-walk", "--study", "speed", "--says", "walk")
    assert made["study"] == "g1-walk/speed"
    found = run(repository, "contract", code=4)
    assert any("No version is agreed" in each for each in found["problems"])
    found = run(repository, "contract", "--set", "budget.gpu_h=96", code=4)
    assert found["version"] == 1
    done = run(repository, "contract", "--amend", "first version")
    assert (done["version"], done["ok"]) == (1, True)
    state = run(repository, "status")
    assert state["budget"]["left"]["gpu_h"] == 96
    assert run(repository, "verify")["ok"]


@pytest.mark.slow  # of all verbs, in one process, in launch/test_only_path
def test_every_command_starts_nothing_and_reaches_nowhere(repository):
    words = ["init", "--task", "g1-walk", "--study", "speed"]
    assert watched(repository, *words).returncode == 0
    assert watched(repository, "contract", "--set", "budget.gpu_h=1").returncode == 4
    assert watched(repository, "contract", "--amend", "first").returncode == 0
    assert watched(repository, "contract").returncode == 0
    assert watched(repository, "status").returncode == 0
    assert watched(repository, "verify").returncode == 0
    assert watched(repository, "run", "--pause").returncode == 0
    for refused in (["approve", "budget"], ["run", "--resume"]):
        done = watched(repository, *refused)
        assert done.returncode == 3
        assert "E_NO_HUMAN" in done.stderr


def test_a_person_approves_in_a_terminal(agreed):
    code, said = in_terminal(agreed.root, "approve", "budget", "hardware")
    assert code == 0, said
    assert "launches: 60" in said
    held = Ledger(agreed.folder).state().approvals
    assert {key: each.status for key, each in held.items()} == {
        "budget": "approved",
        "hardware": "approved",
    }


def test_a_wrong_code_approves_nothing(agreed):
    before = agreed.folder.ledger.read_bytes()
    code, said = in_terminal(agreed.root, "approve", answer=lambda code: "yes")
    assert (code, "E_NOT_CONFIRMED" in said) == (3, True)
    assert agreed.folder.ledger.read_bytes() == before


def test_a_person_resumes_in_a_terminal(agreed):
    run(agreed.root, "run", "--pause", "--because", "hot")
    code, said = in_terminal(agreed.root, "run", "--resume")
    assert code == 0, said
    assert Ledger(agreed.folder).state().study_status == "open"


def test_an_agent_cannot_amend_what_a_person_approved(agreed):
    approve_all(agreed)
    done = run(agreed.root, "contract", "--amend", "more", code=3)
    assert "E_NO_HUMAN" in done["message"]


def test_a_broken_ledger_ends_with_five(agreed):
    content = agreed.folder.ledger.read_bytes()
    agreed.folder.ledger.write_bytes(content.replace(b"created", b"creaTed"))
    found = run(agreed.root, "verify", code=5)
    assert (found["ok"], found["bad_seq"]) == (False, 1)
    done = runner.invoke(app, ["verify", "--root", str(agreed.root)])
    assert (done.exit_code, "line 1 is bad" in done.stderr) == (5, True)


def test_an_edit_is_named_by_the_check(agreed):
    approve_all(agreed)
    text = agreed.folder.contract.read_text()
    agreed.folder.contract.write_text(text.replace("launches: 60", "launches: 600"))
    found = run(agreed.root, "contract", code=4)
    assert [x["key"] for x in found["approvals"] if x["status"] == "void"] == ["budget"]
    types = [each.kind for each in Ledger(agreed.folder).entries()]
    assert types[-1] == "approval.voided"


@pytest.mark.parametrize("words", [["approve", "bugdet"], ["status", "--study", "sped"]])
def test_a_wrong_name_gets_a_suggestion(agreed, words):
    done = run(agreed.root, *words, code=2)
    assert "Closest" in done["hint"]
