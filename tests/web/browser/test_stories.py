"""User actions on the pages of a prepared workspace: answer, watch."""

import json

import pytest

from telic.core.config import Record
from telic.llm import Request
from telic.llm.work_orders import ORDERS, publish
from tests.web.browser.conftest import Tab, serving
from tests.web.made import SESSION, make_workspace

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
