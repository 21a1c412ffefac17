"""The real server over both transports: a process on stdio, and HTTP on a port of this machine."""

import os
import re
import subprocess
import sys

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

import telic.mcp
from telic.cli.main import app
from tests.mcp.host import Host
from tests.mcp.test_approvals import draft, status_of
from tests.mcp.toy import Person

pytestmark = pytest.mark.anyio
SERVE = ["-m", "telic", "mcp", "serve"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


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


@pytest.fixture
def served(repository, monkeypatch):
    """A server on a free port; returns its address and its token."""
    monkeypatch.delenv("TELIC_MCP_TOKEN", raising=False)
    words = ["--root", str(repository), "--transport", "http", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, *SERVE, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = re.search(r"http://\S+", process.stderr.readline())[0]
        token = process.stderr.readline().removeprefix("token: ").strip()
        yield address, token
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert out == ""


async def test_an_agent_works_over_http_and_strangers_do_not(served, repository):
    address, token = served
    bearer = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=bearer) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, elicitation_callback=Person()) as client:
            call = Host(client)
            await draft(call)
            assert (await call("study_approve", keys=["budget"]))["status"] == "agreed"
    assert status_of(repository) == "approved"
    wrong = {"Authorization": f"Bearer {token[:-1]}x"}
    strange = {**bearer, "Origin": "http://evil.example"}
    elsewhere = {**bearer, "Host": "evil.example"}
    unreadable = {"Authorization": b"Bearer \xff\xfe"}
    async with httpx2.AsyncClient() as http:
        for headers, code in (
            ({}, 401),
            (wrong, 401),
            (unreadable, 401),
            (strange, 403),
            (elsewhere, 421),
        ):
            found = await http.post(address, json=INITIALIZE, headers=headers)
            assert found.status_code == code, headers
            assert token not in found.text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--transport", "http", "--host", "0.0.0.0"], "can be reached from other machines"),
        (["--transport", "http", "--host", "example.org"], "can be reached from other machines"),
        (["--transport", "pigeon"], "No transport named"),
    ],
)
def test_it_serves_this_machine_only(words, says):
    found = CliRunner().invoke(app, ["mcp", "serve", *words])
    assert found.exit_code == 2 and says in found.output


def test_a_token_that_can_be_guessed_is_refused(monkeypatch):
    monkeypatch.setenv("TELIC_MCP_TOKEN", "hunter2")
    found = CliRunner().invoke(app, ["mcp", "serve", "--transport", "http", "--port", "0"])
    assert found.exit_code == 2 and "too short" in found.output and "hunter2" not in found.output


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(telic.mcp, "find_spec", lambda name: None)
    found = CliRunner().invoke(app, ["mcp", "serve"])
    assert found.exit_code == 2 and "pip install 'telic[mcp]'" in found.output
