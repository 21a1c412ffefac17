"""Saved pages open from disk with curves and episodes, without requests."""

import pytest

from telic.web._place import WebPlace
from telic.web._static_site import write_site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(furnished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "site"
    runs = furnished.root / "runs"
    artifact = WebPlace(runs, furnished.root).artifact(furnished.failed)
    write_site(artifact, runs, furnished.root, folder)
    return folder / "index.html"


def test_a_saved_session_opens_from_disk_with_curves_code_and_an_episode(browser, site, tmp_path):
    context = browser.new_context(reduced_motion="reduce", offline=True)
    page, faults, asked = context.new_page(), list[str](), list[str]()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.as_uri())
    page.get_by_role("list", name="Stages").get_by_text("iteration 2").wait_for()
    page.get_by_role("img", name="Training curve").wait_for()
    page.get_by_role("img", name="3-D playback").first.wait_for()
    page.get_by_role("button", name="Play").first.wait_for()
    page.screenshot(path=tmp_path / "saved.png", full_page=True)
    page.get_by_role("link", name="Iterations", exact=True).click()
    page.get_by_text("Reward by term").first.wait_for()
    page.get_by_role("link", name="Log", exact=True).click()
    page.get_by_text("session.judged").first.wait_for()
    page.reload()  # its address says where one was
    page.get_by_text("session.judged").first.wait_for()
    assert page.get_by_role("button", name="Delete").count() == 0
    context.close()
    assert not faults
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
