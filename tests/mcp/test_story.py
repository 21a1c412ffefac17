"""A scripted host carries a study from an empty repository to its report, with MCP alone."""

import pytest

from tests.mcp.story import go_on, idea, set_up
from tests.mcp.toy import ENVIRONMENT_SECRET, SECRET, Person

pytestmark = pytest.mark.anyio


async def report_of(call) -> str:
    written = await call("write_report")
    assert written["markdown"].endswith("report.md")
    return (await call("get_report"))["markdown"]


async def test_from_nothing_to_a_trusted_baseline_and_the_next_candidate(host, repository):
    person = Person()
    async with host(person, allow_launch=True) as call:
        await set_up(call)
        done = await go_on(call, [])
        state = await call("get_state")
        assert state["incumbent"]["candidate"] == "c-0001-baseline"
        assert state["incumbent"]["n"] == 5 and state["noise_floor"] > 0
        assert done.count("launch") == 6 and done[-2:] == ["audit", "decide"]

        runs = (await call("query_runs", candidate="c-0001-baseline"))["runs"]
        metrics = await call.read(
            f"telic://toy/gain/runs/{runs[0]['id']}/metrics?keys=success&tail=3"
        )
        assert [len(each) for each in metrics["series"].values()] == [3]

        order = (await call("next_work_order"))["order"]
        with pytest.raises(AssertionError, match=r"kind: .*4 attempts are left"):
            await call("submit_work_order", order=order["id"], answer={"kind": "magic"})
        taken = {"order": order["id"], "answer": idea("more gain", 1.5)}
        made = await call("submit_work_order", **taken)
        assert made["result"] == "c-0002-more-gain"
        assert await call("submit_work_order", **taken) == made
        shown = await call("get_candidate", candidate="c-0002-more-gain")
        assert shown["origin"]["work_order"] == order["id"]

        report = await report_of(call)
        assert "c-0001-baseline" in report and "c-0002-more-gain" in report
        assert (await call("ledger_verify"))["ok"]
        assert all(
            secret not in each for each in call.heard for secret in (SECRET, ENVIRONMENT_SECRET)
        )
    asked = [each.splitlines()[-3] for each in person.asked if "Start " in each]
    assert len(asked) == 6 and all("c-0001-baseline" in each for each in asked)


@pytest.mark.long
async def test_one_is_accepted_one_rejected_one_left_open(host):
    async with host(Person(), allow_launch=True) as call:
        await set_up(call)
        await go_on(call, [idea("less", 0.8), idea("a little", 1.014), idea("more", 1.7)])
        found = (await call("list_candidates"))["candidates"]
        assert {each["id"]: each["candidate"]["status"] for each in found} == {
            "c-0001-baseline": "accepted",
            "c-0002-less": "rejected",
            "c-0003-a-little": "inconclusive",
            "c-0004-more": "accepted",
        }
        assert (await call("get_state"))["incumbent"]["candidate"] == "c-0004-more"
        report = await report_of(call)
        assert all(each["id"] in report for each in found)
        assert (await call("ledger_verify"))["ok"]
