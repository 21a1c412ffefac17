"""A scripted host carries a study from an empty repository to its report, with MCP alone."""

from pathlib import Path

import pytest

from tests.mcp.story import POINT_MASS, idea, run_until, set_up, weights
from tests.mcp.toy import ENVIRONMENT_SECRET, SECRET, Person

pytestmark = pytest.mark.anyio


async def report_of(call) -> str:
    written = await call("study_report")
    return Path(written["markdown"]).read_text()


@pytest.mark.slow
async def test_from_nothing_to_a_trusted_baseline_and_the_next_candidate(host, repository):
    person = Person()
    async with host(person, allow_launch=True) as call:
        await set_up(call)
        done = await run_until(call, [])
        state = await call("study_status")
        assert state["incumbent"]["candidate"] == "c-0001-baseline"
        assert state["incumbent"]["n"] == 5 and state["noise_floor"] > 0
        assert done == ["decide"]

        runs = [*await call("study_status", about="runs")]
        metrics = await call.read(f"telic://toy/gain/runs/{runs[0]}/metrics?keys=success&tail=3")
        assert [len(each) for each in metrics["series"].values()] == [3]

        with pytest.raises(AssertionError, match="kind"):
            await call("study_propose", draft={"kind": "magic"})
        made = await call("study_propose", draft=idea("more gain", 1.5))
        assert made["id"] == "c-0002-more-gain"

        report = await report_of(call)
        assert "c-0001-baseline" in report and "c-0002-more-gain" in report
        assert (await call("study_verify"))["ok"]
        assert all(
            secret not in each for each in call.received for secret in (SECRET, ENVIRONMENT_SECRET)
        )
    asked = [each for each in person.asked if "Start runs" in each]
    assert len(asked) == 2, "before runs are started, and after the decision"


@pytest.mark.long
async def test_the_toy_study_ends_over_mcp_as_it_does_from_the_command_line(toy_host):
    async with toy_host(Person(), allow_launch=True) as call:
        await set_up(call, POINT_MASS)
        done = await run_until(call, weights())
        found = await call("study_status", about="candidates")
        assert {name: each["status"] for name, each in found.items()} == {
            "c-0001-baseline": "accepted",
            "c-0002-smoother": "inconclusive",
            "c-0003-more-pace": "rejected",
            "c-0004-less-effort": "accepted",
        }
        assert "review" in done, "the reward hack was noticed"
        assert (await call("study_status"))["incumbent"]["candidate"] == "c-0004-less-effort"
        report = await report_of(call)
        assert all(name in report for name in found)
        assert len(call.received) <= 60, "three candidates"
        assert (await call("study_verify"))["ok"]


@pytest.mark.long
async def test_a_study_with_one_change_takes_at_most_thirty_calls(toy_host):
    async with toy_host(Person(), allow_launch=True) as call:
        await set_up(call, POINT_MASS)
        await run_until(call, weights()[-1:])
        assert (await call("study_verify"))["ok"]
        await report_of(call)
        found = await call("study_status", about="candidates")
        assert [each["status"] for each in found.values()] == ["accepted", "accepted"]
        assert len(call.received) <= 30
