"""Guarantees of the tools: fixed order, correct hints, readable errors, no started work."""

import re
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from telic.errors import UsageError
from telic.mcp._workplace import ServerContext
from telic.mcp.server import hide_in
from telic.plugin.package import read_skills
from tests.mcp.host import Refusal
from tests.mcp.toy import ENVIRONMENT_SECRET, SECRET

pytestmark = pytest.mark.anyio

STARTERS = {"study_adapter", "study_run", "start_session", "start_search", "stop_work"}
MOST_TOKENS = 10_000


async def test_tools_come_in_a_fixed_order_with_hints_and_schemas(host):
    async with host() as call:
        first = (await call.client.list_tools()).tools
    async with host(allow_launch=True) as call:
        second = (await call.client.list_tools()).tools
    names = [each.name for each in first]
    assert names[:3] == ["study_init", "study_contract", "study_approve"]
    steady = [name for name in names if name not in STARTERS]
    assert [each.name for each in second if each.name not in STARTERS] == steady
    assert {each.name for each in second} - set(steady) == STARTERS
    for each in second:
        assert each.description and each.output_schema["type"] == "object"
        assert each.annotations.destructive_hint == (each.name in STARTERS)
    reads = {each.name for each in first if each.annotations.read_only_hint}
    assert {"study_status", "study_verify"} <= reads
    assert not reads & {"study_propose", "study_approve", "submit_work_order"}
    assert sum(each.name.startswith("study_") for each in second) == 12
    size = sum(len(each.model_dump_json(by_alias=True, exclude_none=True)) for each in second)
    assert size / 4 < MOST_TOKENS, "schemas fill the context of every agent"


async def test_errors_say_what_to_do(host):
    async with host() as call:
        with pytest.raises(Refusal, match=r"has no studies.*telic study init"):
            await call("study_status")
        await call("study_init", task="toy", study="gain")
        with pytest.raises(Refusal, match="c-0009"):
            await call("study_status", about="c-0009-nope")


@pytest.mark.parametrize("path", ["../outside.json", "/etc/passwd", "link.json"])
def test_nothing_outside_the_repository_is_read(repository, path):
    outside = repository.parent / "outside.json"
    outside.write_text("{}")
    (repository / "link.json").symlink_to(outside)
    with pytest.raises(UsageError, match="is outside the repository"):
        ServerContext(repository, repository / "runs").inside(path)


async def test_secrets_are_hidden_wherever_they_were_written(host):
    async with host() as call:
        await call("study_init", task="toy", study="gain", behavior=f"use {SECRET}")
        why = f"the key is {ENVIRONMENT_SECRET}, the other {SECRET}"
        await call("study_run", pause=True, because=why)
        await call.read("telic://toy/gain/ledger")
        await call.client.read_resource("telic://toy/gain/contract")
        with pytest.raises(Refusal):
            await call("study_status", about=f"c-{ENVIRONMENT_SECRET}")
    assert "[redacted]" in "".join(call.received)
    assert all(each not in "".join(call.received) for each in (SECRET, ENVIRONMENT_SECRET))


async def test_the_reference_names_every_tool_and_resource(host):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "mcp.md").read_text()
    async with host(allow_launch=True) as call:
        tools = [each.name for each in (await call.client.list_tools()).tools]
        listed = (await call.client.list_resource_templates()).resource_templates
    named = set(re.findall(r"`([a-z_]+)`", page))
    assert set(tools) <= named
    for each in listed:
        path = each.uri_template.split("{?")[0].removeprefix("telic://{task}/{study}/")
        assert path.partition("/")[0] in page, each.uri_template


async def test_every_skill_is_a_prompt(host):
    async with host() as call:
        prompts = (await call.client.list_prompts()).prompts
        assert [each.name for each in prompts] == [skill.name for skill in read_skills()]
        text = (await call.client.get_prompt("telic-adapter")).messages[0].content.text
        assert "telic study adapter" in text


@pytest.mark.parametrize("query", ["since=x", "limit=1e3", "since=" + "9" * 99])
async def test_a_resource_with_an_invalid_number_is_an_invalid_parameter(host, query):
    async with host() as call:
        await call("study_init", task="toy", study="gain", behavior="go")
        with pytest.raises(MCPError, match="not a whole number") as caught:
            await call.client.read_resource(f"telic://toy/gain/ledger?{query}")
    assert caught.value.error.code == INVALID_PARAMS


def test_digests_and_code_are_not_secrets(monkeypatch):
    monkeypatch.setenv("SHORT_KEY", "abc")
    text = "def reward(obs): return obs  # abc e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495"
    assert hide_in(text) == text
    assert hide_in({"a": [1, None, text]}) == {"a": [1, None, text]}
