"""User actions on the pages of a prepared workspace: answer, watch."""

import json

import pytest

from telic.core.config import Record
from telic.llm import Request
from telic.llm.work_orders import ORDERS, publish
from telic.storage.locks import RunLock
from tests.web.browser.conftest import Tab, serving
from tests.web.made import RUN, SESSION, make_workspace
from tests.web.test_trackings import write_clip, write_tracking

pytestmark = pytest.mark.slow


class ShortAnswer(Record):
    """Requested work."""

    verdict: str
    score: float


@pytest.fixture
def workspace(tmp_path):
    return make_workspace(tmp_path)


@pytest.fixture
def own_tab(browser, workspace):
    with serving(workspace) as address:
        tab = Tab(browser, address, viewport={"width": 1360, "height": 900})
        yield tab
        tab.context.close()


def test_a_question_is_answered_on_the_page(own_tab, workspace):
    folder = workspace / "runs" / SESSION / ORDERS
    folder.mkdir(parents=True)
    request = Request(role="judge", prompt="How good was it?", answer=ShortAnswer)
    publish(folder, "a" * 16, request)
    own_tab.open(f"/runs/{SESSION}", "1 work order to answer")
    page = own_tab.page
    page.get_by_text("How good was it?").wait_for()
    page.get_by_role("button", name="Edit as JSON").click()
    page.get_by_label("Answer as JSON").fill('{"verdict": "good"')
    page.get_by_role("button", name="Answer", exact=True).click()
    page.get_by_text("Not valid JSON").wait_for()
    page.get_by_role("button", name="Edit as a form").click()
    page.get_by_label("verdict").fill("good")
    page.get_by_label("score").fill("0.5")
    page.get_by_role("button", name="Answer", exact=True).click()
    page.get_by_text("The answer was accepted").wait_for()
    [answer] = folder.glob("*answer*.json")
    assert json.loads(answer.read_text())["score"] == 0.5


def test_what_happens_is_seen_at_once_and_a_reload_loses_nothing(own_tab, workspace):
    folder = workspace / "runs" / SESSION
    with RunLock(folder / "lock", SESSION):
        own_tab.open(f"/runs/{SESSION}/events", "5 events")
        with (folder / "events.jsonl").open("a") as file:
            for number in range(20):
                file.write(json.dumps({"event": "log", "message": f"line {number}"}) + "\n")
        own_tab.page.get_by_text("25 events").wait_for()
    own_tab.page.reload()
    own_tab.page.get_by_text("25 events").wait_for()
    assert not own_tab.faults


def test_a_run_of_trackers_shows_how_it_follows(own_tab, workspace, tmp_path):
    write_tracking(workspace)
    write_clip(workspace)
    own_tab.open(f"/runs/{RUN}", "Tracking of held-out clips")
    own_tab.page.get_by_text("walk_19").wait_for()
    own_tab.page.get_by_role("button", name="overlaid").wait_for()
    own_tab.page.get_by_role("button", name="side by side").click()
    for theme in ("light", "dark"):
        own_tab.theme(theme)
        own_tab.picture(tmp_path, f"tracking-{theme}")
        assert not own_tab.findings()
