"""Tools that start work exist only with --allow-launch, and ask for confirmation."""

import time

import pytest

from telic.session.labels import Veto
from telic.storage.locks import RunLock
from telic.studies.folder import StudyFolder
from telic.verbs import background
from telic.verbs.background import read_job
from tests.mcp.host import Refusal
from tests.mcp.story import set_up
from tests.mcp.toy import Person
from tests.session.test_labels import passed

pytestmark = pytest.mark.anyio


async def test_without_leave_nothing_is_launched(host, repository):
    async with host(Person()) as call:
        await set_up(call)
        found = await call("study_run", candidate="c-0001-baseline")
        with pytest.raises(Refusal, match="confirm"):  # an argument that this server does not have
            await call("study_run", candidate="c-0001-baseline", confirm="RUN_CANDIDATE")
        assert "gates" in found["result"] and "launched" not in found["result"]
        assert (await call("study_status", about="runs")) == {}


async def test_a_launch_needs_the_word_the_gates_and_the_person(host, repository):
    async with host(Person(), allow_launch=True) as call:
        await set_up(call)
        wanted = {"candidate": "c-0001-baseline", "confirm": "RUN_CANDIDATE"}
        with pytest.raises(Refusal, match="E_CONFIRM"):
            await call("study_run", **wanted | {"confirm": "yes"})
        stop = StudyFolder.find(repository).stop_file
        stop.write_text("")
        with pytest.raises(Refusal, match="G15"):
            await call("study_run", **wanted)
        stop.unlink()
        await call("study_approve", keys=["experiment"], candidate="c-0001-baseline")
    async with host(Person("declines"), allow_launch=True) as call:
        with pytest.raises(Refusal, match="E_NOT_CONFIRMED"):
            await call("study_run", **wanted)
    async with host(allow_launch=True) as call:
        found = await call("study_run", **wanted)
        assert found["status"] == "ask_in_terminal"
        assert found["command"].endswith("--confirm RUN_CANDIDATE")
        assert (await call("study_status", about="runs")) == {}


async def test_an_agent_does_not_decide_what_a_pass_is(host, repository):
    async with host(allow_launch=True) as call:
        for weak in ({"threshold": 0.01}, {"accept_partial": True}):
            with pytest.raises(Refusal, match=next(iter(weak))):
                await call("start_session", intent="run forward", **weak)


async def test_search_runs_in_the_background_and_reports_its_folder(host, repository):
    async with host(allow_launch=True) as call:
        found = await call("start_search", env="No-such-task", method="cma", model=None)
    deadline = time.monotonic() + 240
    while (job := read_job(repository / "runs", found["job"])).state != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "No-such-task" in job.error
    assert found["command"].startswith("telic search --env No-such-task --method cma")


@pytest.mark.parametrize("name", ["evil.py:Env", "evil:Env", "mjlab:Task"])
async def test_code_that_an_agent_names_is_not_the_users(host, repository, name):
    (repository / "evil.py").write_text("open('mark', 'w').close()\nclass Env: pass\n")
    async with host(allow_launch=True) as call:
        for tool, more in (
            ("start_search", {"method": "cma"}),
            ("start_session", {"intent": "go"}),
        ):
            with pytest.raises(Refusal, match="have not approved"):
                await call(tool, env=name, model=None, **more)
    assert not (repository / "mark").exists() and not list(repository.glob("runs/*/*.json"))


async def test_an_agents_word_on_a_verdict_is_kept_as_an_agents(host, repository):
    session = passed(repository / "runs")
    async with host() as call:
        label = await call("label_episode", session=session.name, answer="no", why="it slides")
        assert label["disagrees"] and label["by"] == "agent"
        with pytest.raises(Refusal, match="No session, run or search named"):
            await call("veto_session", session=f"../runs/{session.name}", why="no")
        veto = await call("veto_session", session=session.name, why="it slides")
        assert "the agent" in str(Veto.read(session.vetoes)[0].words) and veto["by"] == "agent"
        assert (await call("list_work"))["work"][0]["state"] == "unproven"


async def test_launches_are_bounded(host, repository, monkeypatch):
    monkeypatch.setattr(background.Process, "detach", lambda *_: None)
    async with host(allow_launch=True) as call:
        for _ in range(16):
            await call("start_search", env="FrozenLake-v1", method="cma", model=None)
        with pytest.raises(Refusal, match="16 jobs are running"):
            await call("start_search", env="FrozenLake-v1", method="cma", model=None)


async def test_only_work_that_runs_can_be_stopped(host, repository):
    (repository / "runs" / "session_1").mkdir(parents=True)
    (repository / "runs" / "session_1" / "session.json").write_text("{}")
    async with host(allow_launch=True) as call:
        with pytest.raises(Refusal, match="session_1 is not running"):
            await call("stop_work", artifact="session_1")
        with pytest.raises(Refusal, match="No session, run or search named"):
            await call("stop_work", artifact="../session_1")
        with RunLock(repository / "runs" / "session_1" / "lock"):
            await call("stop_work", artifact="session_1")
    assert (repository / "runs" / "session_1" / "stop").exists()
