"""Every page in a real browser: contents and accessibility."""

import shutil

import pytest

from tests.web.browser.conftest import ENDED, Tab, serving, video_plays
from tests.web.made import make_run, make_workspace

PAGES = {
    "start": ("/", "What should the robot do?"),
    "runs": ("/runs", "shown"),
    "session": ("/runs/{failed}", "Reward by term"),
    "candidate": ("/runs/{failed}/candidates/2", "Reward terms"),
    "trace": ("/runs/{failed}/trace", "Prompt"),
    "events": ("/runs/{failed}/events", "session.judged"),
    "about": ("/runs/{failed}/about", "Request"),
    "run": ("/runs/{run}", "Summary"),
    "live": ("/live/{failed}", "Agreement with telic"),
    "search": ("/runs/search_20260101_000000_bbbb2222", "Map of policies"),
    "evidence": ("/runs/{failed}/evidence", "reference episodes"),
    "gallery": ("/gallery", "Trained policies, newest first"),
    "player": ("/play/{failed}", "synchronized in time"),
    "compare": ("/compare?id={written}&id={failed}", "Different settings"),
    "studies": ("/studies", "No studies yet"),
    "benchmarks": ("/bench", "No benchmarks yet"),
    "robots": ("/robots", "joints"),
    "machine": ("/machine", "Jobs started from the dashboard"),
    "trash": ("/trash", "The trash is empty"),
}


def place_of(furnished, name: str) -> tuple[str, str]:
    path, shows = PAGES[name]
    return path.format(**vars(furnished)), shows


def test_a_full_page_can_be_used_by_everybody_in_both_themes(tab, furnished):
    path, shows = place_of(furnished, "candidate")
    tab.open(f"{path}?diff=1", shows)
    tab.page.locator(".cm-deletedText").first.wait_for()
    tab.theme("light")
    assert not tab.findings()
    tab.theme("dark")
    assert not tab.findings("color-contrast")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_used_by_everybody_and_is_kept_as_a_picture(
    tab, furnished, name, tmp_path
):
    tab.open(*place_of(furnished, name))
    tab.page.wait_for_load_state("domcontentloaded")
    for theme in ("light", "dark"):
        tab.theme(theme)
        tab.page.wait_for_timeout(300)
        tab.picture(tmp_path, f"{name}-{theme}")
        assert not tab.findings()


def test_a_session_shows_its_verdict_and_a_reload_shows_the_same(tab, furnished):
    tab.open(f"/runs/{furnished.failed}", "Criteria")
    seen: list[str] = []
    for _ in range(2):
        strip = tab.page.get_by_role("list", name="Stages")
        strip.get_by_text("iteration 2").wait_for()
        strip.get_by_text("score").wait_for()  # of the second iteration
        tab.page.get_by_role("img", name="Training curve").wait_for()
        seen.append(strip.inner_text())
        tab.page.reload()
    assert seen[0] == seen[1] and "not passed" in seen[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_a_phone(browser, address, furnished, name, tmp_path):
    tab = Tab(browser, address, viewport={"width": 390, "height": 844})
    tab.open(*place_of(furnished, name))
    tab.page.wait_for_timeout(300)
    tab.picture(tmp_path, f"{name}-phone")
    wide = tab.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    tab.context.close()
    assert wide <= 0 and not tab.faults


@pytest.mark.slow
def test_an_episode_is_labeled_with_one_key(tab, furnished):
    tab.open(f"/runs/{furnished.failed}/candidates/1", "Verdict")
    tab.page.get_by_role("button", name="episode 1, score").click()
    tab.page.get_by_text("Episode 1:").wait_for()
    tab.page.locator("body").press("n")
    tab.page.get_by_text("Labeled as not wanted").first.wait_for()
    labels = (furnished.root / "runs" / furnished.failed / "labels.jsonl").read_text()
    assert '"is_wanted":false' in labels.replace(" ", "")


@pytest.mark.slow
def test_words_on_the_page_become_a_judged_policy_and_its_video(fresh):
    page = fresh.page
    page.route("**/api/pictures/**", lambda route: route.abort())  # each takes a process that draws
    fresh.open("/", "What should the robot do?")
    page.get_by_role("button", name="keep the pole upright").click()
    page.get_by_role("checkbox", name="Use criterion: ").first.wait_for()
    page.get_by_text("Options and limits").click()
    for name, value in {"Steps per policy": "2k", "Maximum iterations": "1", "seeds": "1"}.items():
        page.get_by_label(name).fill(value)
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("img", name="Training curve").wait_for()
    page.get_by_role("list", name="Stages").get_by_text(ENDED).wait_for()
    video_plays(page)
    page.get_by_text("Result").wait_for()


def test_keys_lead_to_every_page_and_say_which_there_are(tab):
    tab.open("/runs", "shown")
    tab.page.locator("body").press("?")
    tab.page.get_by_role("dialog", name="Shortcuts").get_by_text("go to machine").wait_for()
    tab.page.keyboard.press("Escape")
    tab.page.locator("body").press("g")
    tab.page.locator("body").press("t")
    tab.page.get_by_role("heading", name="Trash").wait_for()
    assert tab.page.url.endswith("/trash")


@pytest.mark.slow
def test_what_is_deleted_on_a_page_is_restored_from_the_trash(browser, tmp_path):
    root = make_workspace(tmp_path)
    with serving(root) as address:
        tab = Tab(browser, address)
        tab.open("/runs?filter=kind=run", "shown")
        [run] = [path.name for path in (root / "runs").glob("run_*")]
        tab.open(f"/runs/{run}", "Summary")
        tab.page.get_by_role("button", name="Delete").click()
        tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        tab.page.get_by_role("button", name="Restore").click()
        tab.page.get_by_text("Restored.").wait_for()
        tab.context.close()
    assert (root / "runs" / run).is_dir() and not tab.faults


@pytest.mark.slow
def test_a_filter_finds_what_it_says_and_two_are_compared(tab, furnished):
    tab.open("/runs?filter=", "shown")
    tab.page.get_by_role("searchbox", name="Filter").fill(f"kind=session id~{furnished.failed}")
    tab.page.get_by_text("1 of 4 shown").wait_for()
    tab.page.get_by_role("searchbox", name="Filter").fill("kind=session iterations>0")
    tab.page.get_by_text("2 of 4 shown").wait_for()
    for name in (furnished.written, furnished.failed):
        tab.page.get_by_role("checkbox", name=name.rpartition("_")[2]).click()
    tab.page.get_by_role("button", name="Compare 2").click()
    tab.page.get_by_text("score, mean over training seeds").first.wait_for()


@pytest.mark.slow
def test_of_five_thousand_runs_only_those_exist_that_are_seen(browser, tmp_path):
    root = tmp_path
    first = make_run(root / "runs" / "run_20260101_000000_0000", seeds=(1,), count=1)
    for number in range(1, 5000):
        shutil.copytree(first, root / "runs" / f"run_20260101_000000_{number:04x}")
    with serving(root) as address:
        tab = Tab(browser, address)
        tab.open("/runs?filter=", "5,000")
        frames = tab.page.evaluate(
            """() => new Promise((done) => {
                const place = document.querySelector('[role=table]');
                const began = performance.now();
                let frames = 0;
                const step = () => {
                    place.scrollTop += 120;
                    frames += 1;
                    if (performance.now() - began < 2000) requestAnimationFrame(step);
                    else done(frames / 2);
                };
                requestAnimationFrame(step);
            })"""
        )
        table = tab.page.get_by_role("table", name="Runs")
        rows, known = table.get_by_role("row").count(), table.get_attribute("aria-rowcount")
        tab.context.close()
    print(f"\n{frames:.0f} frames/s while 5,000 runs are scrolled")
    assert rows < 80 and int(known or 0) > 400
