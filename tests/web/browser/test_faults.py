"""Faults that people met on the pages, each held in a real browser."""

import json
import re
import shutil

import pytest

from telic.storage.locks import RunLock
from tests.web.browser.conftest import Tab, serving
from tests.web.conftest import TOKEN
from tests.web.made import RUN, SESSION, make_session, make_workspace, write


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_many_tabs_share_one_stream_and_ended_work_needs_none(browser, tmp_path, count):
    root = make_workspace(tmp_path)
    live = root / "runs" / "session_20260101_000000_eeee5555"
    make_session(live)
    with serving(root) as address, RunLock(live / "lock", live.name):
        context = browser.new_context()
        opened = []
        context.on("request", lambda asked: "/api/stream" in asked.url and opened.append(asked.url))
        context.new_page().goto(f"{address}/trash?token={TOKEN}")
        tabs = [context.new_page() for _ in range(count)]
        for number, page in enumerate(tabs):
            page.goto(f"{address}/runs/{live.name if number % 2 else SESSION}/events")
        for page in tabs:
            page.get_by_text("5 events").wait_for()
        with (live / "events.jsonl").open("a") as log:
            log.write(json.dumps({"event": "log", "message": "news for all"}) + "\n")
        for page in tabs[1::2]:
            page.get_by_text("news for all", exact=True).wait_for()
        connections = tabs[0].evaluate(
            """() => performance.getEntriesByType('resource')
                .filter((entry) => entry.name.includes('/stream')).length"""
        )
        fast = tabs[0].evaluate("() => fetch('/api/about').then((answer) => answer.status)")
        context.close()
    assert fast == 200 and connections == 0  # the shared worker holds the only stream
    assert not any(f"artifact={SESSION}" in url for url in opened)


@pytest.mark.slow
def test_edited_criteria_survive_options_and_nonsense_cannot_be_started(browser, tmp_path):
    with serving(make_workspace(tmp_path)) as address:
        tab = Tab(browser, address)
        page = tab.page
        page.route("**/api/pictures/**", lambda route: route.abort())
        tab.open("/", "What should the robot do?")
        page.get_by_role("button", name="run forward fast").click()
        page.get_by_label("Target of averages at least 3 m/s forward").fill("2")
        page.get_by_text("averages at least 2 m/s forward").wait_for()
        page.get_by_text("Options and limits").click()
        page.get_by_label("Training seeds").fill("1-2")
        page.get_by_label("Steps per policy").fill("30k")
        page.get_by_text("--steps 30000").wait_for()
        page.get_by_text("averages at least 2 m/s forward").wait_for()
        assert "--seeds 1,2" in page.get_by_label("command").inner_text()
        page.get_by_label("Model", exact=True).fill("host")
        page.get_by_text("host reads the intent when the session starts").wait_for()
        assert not page.get_by_text("averages at least").count()
        page.get_by_label("Ask me to approve").check()
        page.get_by_text("--approve").wait_for()
        page.get_by_label("Model", exact=True).fill("")
        page.get_by_label("Intent").fill("asdf qwer")
        page.get_by_role("alert").wait_for()
        assert page.get_by_role("button", name="Start", exact=True).is_disabled()
        tab.context.close()


def test_a_judged_episode_has_its_verdict_and_marks_on_the_time_line(tab, furnished):
    tab.open(f"/runs/{furnished.failed}", "Failed criteria")
    tab.page.get_by_role("link", name="Show where it fails").first.click()
    tab.page.get_by_role("heading", name=re.compile("Verdict: [01]")).wait_for()
    marks = tab.page.get_by_role("group", name="Criteria on the timeline").get_by_role("button")
    marks.first.wait_for()
    tab.page.get_by_role("img", name="Credit per criterion so far").wait_for()
    tab.page.get_by_role("img", name="Reward terms over time").wait_for()
    tab.page.wait_for_url(re.compile(r"[?&]t=\d"))
    moment = tab.page.url
    tab.go("/trash")
    tab.go(moment.removeprefix(tab.address))  # a link carries episode and moment
    time = re.search(r"[?&]t=([\d.]+)", moment)[1]
    tab.page.get_by_text(f"{float(time):.2f} of").wait_for()


def test_the_address_carries_filter_order_and_tab(tab, furnished):
    tab.open("/runs?filter=kind%3Dsession&sort=score&order=up", "2 of 4 shown")
    head = tab.page.get_by_role("columnheader", name="Score")
    assert head.get_attribute("aria-sort") == "ascending"
    tab.page.get_by_role("button", name="Name").click()
    tab.page.wait_for_url("**sort=title**")
    tab.open("/robots?kind=hand", "Shadow hand")
    assert tab.page.get_by_text("Unitree Go1").count() == 0
    tab.page.locator("body").press("Control+k")
    tab.page.get_by_role("combobox", name="Search pages").fill("gallery")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="Gallery").wait_for()


@pytest.mark.parametrize(
    "width", [*(pytest.param(x, marks=pytest.mark.slow) for x in (1300, 768)), 390]
)
def test_no_page_is_cut_or_scrolls_sideways(tab, furnished, width):
    tab.page.set_viewport_size({"width": width, "height": 844})
    session = f"/runs/{furnished.failed}"
    paths = (session, f"{session}/evidence", f"{session}/candidates/2", "/runs", "/gallery")
    for path in (*paths, "/", "/machine", "/bench", f"/runs/{RUN}", f"/play/{furnished.failed}"):
        tab.go(path)
        tab.page.wait_for_timeout(400)
        wide = tab.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, path
        if path == "/runs":
            table = tab.page.get_by_role("table", name="Runs")
            assert table.evaluate("table => table.scrollWidth - table.clientWidth") <= 0
            tab.page.get_by_text("not passed").first.wait_for()  # state and score are in view
        narrow = tab.page.evaluate(
            """() => [...document.querySelectorAll('.criteria .title')]
                .filter((title) => title.getBoundingClientRect().width < 120).length
                + [...document.querySelectorAll('.cellbox')]
                .filter((cell) => cell.clientWidth < 30).length"""  # 1.00 fits
        )
        assert narrow == 0, path
    tab.page.set_viewport_size({"width": 1360, "height": 900})


def test_what_is_starting_stopping_and_screening_is_shown(browser, tmp_path):
    root = make_workspace(tmp_path)
    folder = root / "runs" / SESSION
    with serving(root) as address, RunLock(folder / "lock", SESSION):
        tab = Tab(browser, address)
        (folder / "iter_1" / "train").rename(folder / "iter_1" / "trial")
        shutil.rmtree(folder / "iter_2")
        write(folder / "iter_1" / "trial" / "status.json", {"status": "running"})
        with (folder / "events.jsonl").open("a") as log:
            for event in ("session.judged", "session.spent"):
                row = {"event": event, "number": 1, "passed": True, "score": 0.9, "tags": []}
                log.write(json.dumps(row | {"seconds": 1, "steps": 1, "calls": 0}) + "\n")
        with RunLock(folder / "iter_1" / "trial" / "lock", "trial"):
            tab.open(f"/runs/{SESSION}", "Screening runs")
            stages = tab.page.get_by_role("list", name="Stages")
            stages.get_by_text("screening, 50k of 50k steps").wait_for()
            tab.page.get_by_role("img", name="HalfCheetah-v5").wait_for()  # before any episode
        assert stages.locator("[aria-current=step]").inner_text().startswith("Decide")
        (folder / "stop").touch()
        tab.page.get_by_text("Stopping: saving").wait_for()
        tab.page.get_by_role("button", name="Stopping…").wait_for()
        tab.context.close()
    assert not tab.faults
