"""Access control of the server: tokens, hosts, origins, keys and headers."""

import os
import socket
import time
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from starlette.testclient import TestClient

from telic.errors import Refused, UsageError
from telic.web import app, serve
from telic.web._connections import addresses_of, find_token, listen
from telic.web._place import WebPlace
from telic.web.app import gated
from tests.web.conftest import HOST, TOKEN, client_of
from tests.web.made import RUN, SESSION

FULL = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def stranger(made):
    return client_of(made, token=None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer " + "x" * 32},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer ümlaut"},
        {"cookie": "telic_token=wrong"},
        {"cookie": "\x7f=;;;"},
    ],
)
def test_without_the_token_nothing_is_answered(stranger, headers):
    encoded = {name: value.encode("utf-8") for name, value in headers.items()}
    for path in ("/api/artifacts", f"/api/artifacts/{RUN}", "/api/nothing", "/api/openapi.json"):
        answer = stranger.get(path, headers=encoded)
        assert answer.status_code == 401 and "artifacts" not in answer.json()
    page = stranger.get("/", headers=encoded)
    assert page.status_code == 401 and "Log in again" in page.text


def test_the_printed_address_becomes_a_cookie_and_the_token_leaves_the_address(stranger):
    answer = stranger.get(f"/runs?token={TOKEN}&tab=2", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?tab=2")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert stranger.get("/api/artifacts").status_code == 200
    local = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}  # from a file
    page = stranger.get(f"/runs?token={TOKEN}&tab=2", headers=local, follow_redirects=False)
    assert page.status_code == 200 and 'content="0;url=/runs?tab=2"' in page.text
    elsewhere = stranger.get(f"{HOST}//evil.example/?token={TOKEN}", follow_redirects=False)
    assert elsewhere.headers["location"].startswith("/evil.example")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8764", 200),
        ("localhost:9999", 200),
        ("[::1]:8764", 200),
        ("evil.example:8764", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8764", 421),
        ("192.168.0.5:8764", 421),
        ("", 421),
    ],
)
def test_a_name_of_elsewhere_that_leads_here_is_refused(client, host, status):
    assert client.get("/api/about", headers={"host": host}).status_code == status


def test_other_machines_reach_only_the_requested_addresses_and_allowed_hosts(made):
    with socket.socket() as everywhere, socket.socket() as here:
        everywhere.bind(("0.0.0.0", 0))  # without listening
        here.bind(("127.0.0.1", 0))
        assert addresses_of(here) == []
        reached = addresses_of(everywhere)
    assert not any(each.startswith("127.") for each in reached)
    open_gate = gated(WebPlace(made / "runs", made), TOKEN, [*reached, "Policies.example"])
    client = TestClient(open_gate, base_url=HOST)
    hosts = [f"{each}:8764" for each in reached]
    for host in (*hosts, "policies.example"):
        assert client.get("/api/about", headers={**FULL, "host": host}).status_code == 200
        assert client.get("/api/about", headers={"host": host}).status_code == 401
    assert client.get("/api/about", headers={**FULL, "host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": HOST}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_origins_get_nothing(client, headers, status):
    assert client.get("/api/about", headers=headers).status_code == status


def test_a_cookie_alone_changes_nothing_without_an_origin(made, stranger):
    cookie = {"cookie": f"telic_token={TOKEN}"}
    path, asked = "/api/preview/run", {"intent": "run forward"}
    assert stranger.post(path, json=asked, headers=cookie).status_code == 403
    assert stranger.post(path, json=asked, headers=cookie | {"origin": HOST}).status_code == 200


def test_no_key_of_a_provider_ever_leaves(own, monkeypatch):
    key = "sk-secret-0123456789abcdef"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    config = own / "runs" / SESSION / "session.json"
    config.write_text(config.read_text().replace("run forward", f"run with {key}"))
    (own / "runs" / RUN / "own_seed_1" / "reward_fn.py").write_text(f'"""{key}"""\n')
    client = client_of(own)
    files = client.get(f"/api/artifacts/{RUN}/files", params={"kind": "code"}).json()
    paths = [f"/api/artifacts/{SESSION}", "/api/artifacts"]
    for path in [*paths, *(file["url"] for file in files)]:
        answer = client.get(path)
        assert answer.status_code == 200 and key not in answer.text
        assert "json" not in answer.headers["content-type"] or answer.json()
    assert "key removed" in client.get(paths[0]).text


def test_a_report_that_a_run_made_can_reach_nothing(own):
    page = own / "runs" / SESSION / "report.html"
    page.write_text("<script>fetch('/api/artifacts')</script>")
    client = client_of(own)
    files = client.get(f"/api/artifacts/{SESSION}/files", params={"kind": "report"}).json()
    [url] = [file["url"] for file in files if file["name"] == "report.html"]
    policy = client.get(url).headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy


def test_a_body_without_an_end_is_refused(client):
    huge = client.post("/api/preview/run", content=b"x" * (5 << 20), headers=FULL)
    assert huge.status_code == 413
    assert client.post("/api/preview/run", content=iter([b"{}"])).status_code == 411


def test_the_token_is_kept_until_it_is_rotated_and_only_its_user_can_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("TELIC_WEB_TOKEN", raising=False)
    first = find_token()
    file = tmp_path / "telic" / "web-token"
    assert len(first) > 30 and file.read_text() == first and file.stat().st_mode & 0o777 == 0o600
    assert find_token() == first
    rotated = find_token(rotate=True)
    assert rotated != first and find_token() == rotated
    file.chmod(0o644)  # others may have read it
    assert find_token() != rotated
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert len(find_token()) > 30 and not file.is_symlink()
    monkeypatch.setenv("TELIC_WEB_TOKEN", "short")
    with pytest.raises(UsageError):
        find_token()


def test_pages_may_load_nothing_from_elsewhere(client):
    headers = client.get("/api/about").headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("is_own", [True, False])
def test_the_token_is_offered_to_no_other_users_server(tmp_path, monkeypatch, is_own):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        token = find_token()
        if not is_own:
            monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(UsageError) as caught:
            serve(port=port, opens=False, runs_dir=tmp_path)
    assert (token in caught.value.hint) is ("token=" in caught.value.hint) is is_own


def test_the_browser_is_opened_without_the_token_on_its_command_line(tmp_path, monkeypatch):
    found, address = [], f"{HOST}/?token={TOKEN}"
    monkeypatch.setattr(app, "answer_until_stopped", lambda *_: time.sleep(1.0))

    def look(url):
        page = Path(unquote(urlsplit(url).path))
        found.append((page.stat().st_mode & 0o777, TOKEN in url, address in page.read_text()))

    monkeypatch.setattr(webbrowser, "open", look)

    with listen("127.0.0.1", 0) as listening:
        app.serve_until_stopped(tmp_path, tmp_path, listening, TOKEN, address)
    assert found == [(0o600, False, True)] and not list(tmp_path.iterdir())


def test_loop_of_links_is_not_a_file_of_the_workspace(tmp_path):
    loop = tmp_path / "policy.pt"
    loop.symlink_to(loop.name)
    with pytest.raises(Refused):
        WebPlace(tmp_path, tmp_path).inside(loop)
