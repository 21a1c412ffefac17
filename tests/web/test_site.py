"""Pages that open from disk: the application's own answers, and nothing of others."""

import json

import pytest

from telic.errors import Refused, UsageError
from telic.storage.keys import sign_folder
from telic.web import _static_site as site_module
from telic.web._place import WebPlace
from telic.web._static_site import write_site
from telic.web.app import make_app
from tests.web.made import RUN, SEARCH, SESSION


@pytest.fixture(scope="module")
def app(made):
    return make_app(WebPlace(made / "runs", made))


@pytest.fixture(autouse=True)
def one_application(app, monkeypatch):
    """Making one takes most of a second."""
    monkeypatch.setattr(site_module, "make_app", lambda place: app)


def saved(root, name, folder):
    place = WebPlace(root / "runs", root)
    reported = write_site(place.artifact(name), root / "runs", root, folder)
    text = (folder / "data.js").read_text()
    return reported, json.loads(text.removeprefix("window.TELIC_SITE=").rstrip(";\n"))


@pytest.mark.parametrize("name", [SESSION, RUN, SEARCH])
def test_a_saved_page_has_what_the_server_answers(made, client, name, tmp_path):
    reported, site = saved(made, name, tmp_path / "site")
    home = f"/api/artifacts/{name}"
    assert site["artifact"] == name and site["answers"][home] == client.get(home).json()
    log = (made / "runs" / name / "events.jsonl").read_text()
    events = site["answers"][f"{home}/events"]["events"]
    assert [json.dumps(event) for event in events] == log.splitlines()
    assert {card["line"]["id"] for card in site["answers"]["/api/gallery"]} <= {site["artifact"]}
    names = {path.name for path in (tmp_path / "site").iterdir()}
    assert {"index.html", "data.js", "site.js", "site.css"} <= names and reported.files >= 5


def test_pages_of_another_user_are_not_published(own, tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    session, app = own / "runs" / SESSION, make_app(WebPlace(own / "runs", own))
    monkeypatch.setattr(site_module, "make_app", lambda place: app)
    (session / "report").mkdir(exist_ok=True)
    for name in ("report.html", "report/strip.svg"):
        (session / name).write_text("<script>alert(document.cookie)</script>")
    for is_own in (False, True):
        folder = tmp_path / f"site_{is_own}"
        saved(own, SESSION, folder)
        scripted = [path for path in folder.rglob("files/*") if path.suffix in (".html", ".svg")]
        assert len(scripted) == 2 * is_own
        sign_folder(session)
    link = tmp_path / "site_True" / "site.css"
    link.unlink()
    link.symlink_to(tmp_path / "mine")
    with pytest.raises(Refused, match="contains the link"):
        saved(own, SESSION, tmp_path / "site_True")


def test_site_is_rewritten_but_never_over_other_files(made, tmp_path):
    saved(made, RUN, tmp_path / "site")
    saved(made, RUN, tmp_path / "site")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="nor a previous export"):
        saved(made, RUN, tmp_path / "mine")
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"
