"""The real server: a process on stdio."""

import json
import os
import subprocess
import sys
from subprocess import PIPE

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.mcp.host import Host
from tests.mcp.test_approvals import draft, status_of
from tests.mcp.toy import Person

pytestmark = pytest.mark.anyio
SERVE = ["-m", "telic", "mcp", "serve"]


async def test_an_agent_works_over_stdio(repository):
    environment = {name: value for name, value in os.environ.items() if "TELIC" in name}
    served = StdioServerParameters(
        command=sys.executable, args=[*SERVE, "--root", str(repository)], env=environment
    )
    async with Client(served, elicitation_callback=Person()) as client:
        call = Host(client)
        await draft(call)
        assert (await call("study_approve", keys=["budget"]))["status"] == "agreed"
        assert (await call.read("telic://registry"))["active"]["study_id"] == "gain"
    assert status_of(repository) == "approved"


def test_a_message_that_cannot_be_read_is_answered(tmp_path):
    command = [sys.executable, *SERVE, "--root", str(tmp_path)]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    lines = [json.dumps({**ping, "id": 1, "params": {"x": "\ud800"}}), "{"]
    lines += [json.dumps({**ping, "id": "\ud800"}), json.dumps(ping)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as server:
        answers = {}
        for line in lines:
            print(line, file=server.stdin, flush=True)
        for _ in lines:
            answer = json.loads(server.stdout.readline())
            answers[answer["id"]] = answer
        server.stdin.close()
    assert set(answers) == {1, None, 2}
    assert "surrogates" in answers[1]["error"]["message"] and answers[2]["result"] == {}
