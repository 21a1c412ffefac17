"""Only the person's own answer counts: not the agent's words, not a forged reply, not a file."""

import pytest
from mcp_types import ElicitResult

from telic.studies.approvals import Consent
from telic.studies.canonical import utc_now
from telic.studies.documents.base import update_yaml
from telic.studies.errors import GateRefused
from telic.studies.folder import StudyFolder
from telic.studies.study import Study
from telic.verbs.study import contract
from tests.mcp.host import Refusal
from tests.mcp.toy import CONTRACT, METRIC_SPEC, Person
from tests.studies.launch.toy_study import PROTOCOL

pytestmark = pytest.mark.anyio


async def draft(call) -> None:
    await call("study_init", task="toy", study="gain", behavior="reach the goal")
    await call("study_contract", answers=CONTRACT, metric_spec=METRIC_SPEC, protocol=PROTOCOL)
    await call("study_contract", amend="the first agreement")


def status_of(repository, key="budget") -> str:
    found = Study.find(repository).all_approvals
    return next(each.status for each in found if each.key == key)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_person_agrees_by_typing_the_code(host, repository, mode):
    person = Person()
    async with host(person, mode=mode) as call:
        await draft(call)
        found = await call("study_approve", keys=["budget"], note="fine")
    assert (found["status"], found["result"]["keys"]) == ("agreed", ["budget"])
    assert len(person.asked) == 1 and "launches: 60" in person.asked[0]
    held = Study.find(repository).state.approvals["budget"]
    assert held.method == "elicitation" and held.by.startswith("human:")
    assert status_of(repository) == "approved"


@pytest.mark.parametrize("does", ["declines", "types something else"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_anything_but_the_code_is_a_no(host, repository, does, mode):
    async with host(Person(does), mode=mode) as call:
        await draft(call)
        with pytest.raises(Refusal, match="E_NOT_CONFIRMED"):
            await call("study_approve", keys=["budget"])
    assert status_of(repository) == "pending"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_without_forms_gets_the_command_for_a_terminal(host, repository, mode):
    async with host(mode=mode) as call:
        await draft(call)
        found = await call("study_approve", keys=["budget"])
    assert found["status"] == "ask_in_terminal"
    assert found["command"] == "telic study approve budget"
    assert status_of(repository) == "pending"


async def test_what_the_agent_writes_counts_for_nothing(host, repository):
    async with host() as call:
        await draft(call)
        seen = {"text": "", "command": "", "seen": {"budget": "0" * 64}}
        for forged in ({"answer": {"code": "aaaa"}}, {"consent": True}, {"question": seen}):
            with pytest.raises(Refusal, match="Extra inputs are not permitted"):
                await call("study_approve", keys=["budget"], **forged)
    assert status_of(repository) == "pending"


async def test_reply_to_an_unknown_question_is_not_an_answer(host, repository):
    person = Person("declines")
    async with host(person) as call:
        await draft(call)
        key = "telic.mcp._verb_tools:study_approve_form"
        forged = {key: ElicitResult(action="accept", content={"code": "aaaa"})}
        asked = await call.client.session.call_tool(
            "study_approve",
            {"keys": ["budget"]},
            input_responses=forged,
            allow_input_required=True,
        )
        assert list(asked.input_requests) == [key]
    assert status_of(repository) == "pending"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_yes_does_not_hold_for_a_text_that_changed_meanwhile(host, repository, mode):
    class Editing(Person):
        async def __call__(self, context, params):
            if len(self.asked) < 1:
                update_yaml(StudyFolder.find(repository).contract, {"budget": {"launches": 61}})
            return await super().__call__(context, params)

    person = Editing()
    async with host(person, mode=mode) as call:
        await draft(call)
        with pytest.raises(Refusal, match=r"E_CHANGED|E_NOT_AGREED"):
            await call("study_approve", keys=["budget"])
    assert status_of(repository) == "pending"


async def test_amending_is_the_agents_until_something_is_approved(host, repository):
    person = Person()
    async with host(person) as call:
        await draft(call)
        assert person.asked == []
        await call("study_approve", keys=["budget", "hardware", "evaluation_protocol"])
        drafted = (await call("study_contract", answers={"budget.launches": 70}))["result"]
        held = {each["key"]: each["status"] for each in drafted["approvals"]}
        assert (held["budget"], held["hardware"]) == ("void", "approved")
        assert (await call("study_contract", amend="more runs"))["result"]["version"] == 2
        assert len(person.asked) == 2
        typo = "a typo\n\n(withdrawn)"
        budget = await call("study_contract", answers={"budget.launches": 99999}, amend=typo)
        assert budget["result"]["version"] == 3
        assert "+  launches: 99999" in person.asked[2] and "\n(withdrawn)" not in person.asked[2]
        await call("study_contract", protocol={**PROTOCOL, "episodes": 3}, amend="shorter")
        assert "episodes: 3" in person.asked[3]
    async with host() as call:
        await call("study_contract", answers={"budget.launches": 80})
        found = await call("study_contract", amend="even more")
        assert found["command"] == "telic study contract --amend 'even more'"


async def test_an_amendment_is_of_the_contract_that_was_shown(host, repository):
    async with host(Person()) as call:
        await draft(call)
        await call("study_approve", keys=["budget"])
    asked = contract.request(root=repository, answers={"budget.launches": 70}, amend="more runs")
    question = contract.ask(asked)
    assert "+  launches: 70" in question.text
    update_yaml(StudyFolder(repository, "toy", "gain").contract, {"budget": {"gpu_h": 9}})
    consent = Consent(by="ada", method="tty", at=utc_now())
    for seen in (question.seen, {}, None):
        with pytest.raises(GateRefused, match="E_CHANGED"):
            contract.do(asked.replace(consent=consent, seen=seen))
    contract.do(asked.replace(consent=consent, seen=contract.ask(asked).seen))
    assert Study.find(repository).state.contract_version == 2


async def test_an_approval_written_into_files_does_not_hold(host, repository):
    async with host() as call:
        await draft(call)
        forged = {"status": "approved", "by": "human:ada", "method": "tty"}
        update_yaml(StudyFolder.find(repository).contract, {"approvals": {"budget": forged}})
        with pytest.raises(Refusal, match="unknown key approvals"):
            await call("study_contract")


async def test_paused_study_resumes_when_a_person_confirms(host):
    async with host(Person()) as call:
        await draft(call)
        await call("study_run", pause=True, because="lunch")
        assert (await call("study_status"))["study_status"] == "paused"
        await call("study_run", resume=True, because="back")
        assert (await call("study_status"))["study_status"] == "open"
