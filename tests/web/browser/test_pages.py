"""Every page in a real browser: contents and accessibility."""

import pytest

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
