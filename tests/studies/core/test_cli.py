"""The commands: what they say, how they end, and that they start nothing."""

import json
import re

from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies._ledger import Ledger
from tests.studies.core.small import approve_all
from tests.studies.toy.interfaces import at_terminal

runner = CliRunner()


def command_of(words):
    return words if words[0] == "verify" else ("study", *words)


def run(root, *words, code=0):
    done = runner.invoke(app, [*command_of(words), "--root", str(root), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_from_nothing_to_an_agreed_contract(repository):
    made = run(repository, "init", "--task", "g1-walk", "--study", "speed", "--behavior", "walk")
    assert made["study"] == "g1-walk/speed"
    found = run(repository, "contract", code=4)
    assert any("No version has been approved" in each for each in found["problems"])
    found = run(repository, "contract", "--set", "budget.gpu_h=96", code=4)
    assert found["version"] == 1
    done = run(repository, "contract", "--amend", "first version")
    assert (done["version"], done["ok"]) == (1, True)
    state = run(repository, "status")
    assert state["budget"]["left"]["gpu_h"] == 96
    assert run(repository, "verify")["ok"]


def test_a_broken_ledger_ends_with_five(agreed):
    content = agreed.folder.ledger.read_bytes()
    agreed.folder.ledger.write_bytes(content.replace(b"created", b"creaTed"))
    found = run(agreed.root, "verify", code=5)
    assert (found["ok"], found["bad_seq"]) == (False, 1)
    done = runner.invoke(app, ["verify", "--root", str(agreed.root)])
    assert done.exit_code == 5 and re.search(r"bad seq: +1\n", done.stdout), done.stdout


def test_a_person_approves_in_a_terminal(agreed):
    code, printed = at_terminal("approve", "budget", "hardware", "--root", str(agreed.root))
    assert code == 0, printed
    assert "launches: 60" in printed
    held = Ledger(agreed.folder).state().approvals
    statuses = {key: each.status for key, each in held.items()}
    assert statuses == {"budget": "approved", "hardware": "approved"}


def test_an_agent_cannot_amend_what_a_person_approved(agreed):
    approve_all(agreed)
    done = run(agreed.root, "contract", "--amend", "more", code=3)
    assert "E_NO_HUMAN" in done["message"]
