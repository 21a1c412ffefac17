"""One browser for all, and a server over a runs folder that was made in a second or two."""

import os
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from telic.web._connections import listen
from tests.session.quick import FAILING, Asking, at_home
from tests.web.conftest import TOKEN
from tests.web.made import RUN, SESSION, make_workspace

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
AXE = Path(__file__).parent / "axe.min.js"
"""axe-core 4, as published (MPL-2.0): finds what a person with a screen reader could not use"""
ENDED = re.compile("passed|unproven|unconfirmed")
"""what the last stage of a session says once it is over"""
PICTURES = os.environ.get("TELIC_SCREENSHOTS")
"""a folder that keeps the pictures of the pages; else they are in the test's own"""


def chromium() -> str | None:
    """Return the program of the browser, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="package")
def browser(furnished):
    """A browser without a window; what needs one is skipped where there is none.

    Not for the whole session: while it is open this thread has a running event loop, in which other
    tests could not ask models. For the same reason the workspace is furnished first.
    """
    playwright = pytest.importorskip("playwright.sync_api").sync_playwright().start()
    made = playwright.chromium.launch(
        executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
    )
    yield made
    made.close()
    playwright.stop()


@pytest.fixture(scope="session")
def furnished(tmp_path_factory):
    """A workspace with artifacts that were written, and a real session that was revised once.

    It is made once for all worker processes of a run of the tests.
    """
    if chromium() is None:
        pytest.skip("no Chromium here: sh scripts/setup-system installs it where it may")
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "furnished"
    with FileLock(f"{root}.lock"):
        if not (root / "failed").exists():
            make_workspace(root)
            with at_home() as patch:
                failed, _ = Asking(patch, root / "runs").run(FAILING, iterations=2)
            (root / "failed").write_text(failed.path.name)
    return Furnished(root, SESSION, (root / "failed").read_text())


class Furnished:
    """Workspace with artifacts to display."""

    def __init__(self, root: Path, written: str, failed: str) -> None:
        self.root, self.written, self.failed, self.run = root, written, failed, RUN


@pytest.fixture(scope="package")
def address(furnished):
    """Address of the server of the furnished workspace."""
    with serving(furnished.root) as found:
        yield found


class serving:  # noqa: N801 - reads as a phrase
    """A server in a thread of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> str:
        import uvicorn

        from telic.web._place import WebPlace
        from telic.web.app import address_of, gated

        listening = listen("127.0.0.1", 0)
        app = gated(WebPlace(self._root / "runs", self._root), TOKEN)
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return address_of(listening)

    def __exit__(self, *_) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=120)


class Tab:
    """Browser tab that records its errors."""

    def __init__(self, browser, address: str, **options) -> None:
        self.context = browser.new_context(reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("response", self._receive)
        self.address = address
        # Not the start page: it asks for pictures of robots, and each takes a process that draws.
        self.page.goto(f"{address}/trash?token={TOKEN}")

    def _receive(self, response) -> None:
        is_picture = "/api/pictures/" in response.url  # of robots that are not fetched
        if response.status >= 400 and not is_picture:
            self.faults.append(f"{response.status} {response.url}")

    def open(self, path: str, shows: str) -> None:
        """Go to a page as a link does, without loading the program again; wait for its words."""
        self.go(path)
        self.page.get_by_text(shows).first.wait_for()

    def go(self, path: str) -> None:
        """Go to a page as a link does."""
        self.page.evaluate("path => history.pushState(null, '', path)", path)

    def findings(self, *rules: str) -> list[str]:
        """Return what axe finds serious or worse."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found = self.page.evaluate("options => axe.run(document, options)", only)
        return [
            f"{each['id']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def theme(self, name: str) -> None:
        """Set the system's color scheme, which is the default of the page."""
        self.page.emulate_media(color_scheme=name)

    def picture(self, folder: Path, name: str) -> None:
        """Keep how the page looks."""
        place = Path(PICTURES) if PICTURES else folder
        self.page.screenshot(path=place / f"{name}.png", full_page=True)


@pytest.fixture(scope="package")
def _tab(browser, address):
    made = Tab(browser, address, viewport={"width": 1360, "height": 900})
    yield made
    made.context.close()


@pytest.fixture
def tab(_tab):
    """A tab on the furnished workspace; nothing may go wrong in it.

    One tab serves all tests, because loading the program costs more than most of them. Afterwards
    it shows a page at rest: one that draws a robot would keep a processor busy.
    """
    _tab.faults.clear()
    yield _tab
    _tab.theme("light")
    _tab.go("/trash")
    assert not _tab.faults


@pytest.fixture
def fresh(browser, tmp_path, monkeypatch):
    """A tab over an empty workspace, which shares no queue with other work of this machine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with serving(tmp_path) as address:
        tab = Tab(browser, address, viewport={"width": 1360, "height": 900})
        tab.page.set_default_timeout(300_000)
        yield tab
        tab.context.close()


def video_plays(page) -> None:
    """Open the video of a session, and see that time passes in it."""
    page.get_by_text(re.compile("^(Video|[0-9]+ videos)$")).click()
    video = page.get_by_label("Video of an episode")
    video.evaluate("""video => new Promise((done) => {
        video.addEventListener('timeupdate', () => video.currentTime > 0.2 && done());
        void video.play();
    })""")
