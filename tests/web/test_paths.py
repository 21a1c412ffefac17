"""No address leads out of the workspace: every route, with every name that might."""

import os
import re

import pytest

from tests.web.conftest import application, client_of
from tests.web.made import RUN, SESSION

NAMES = (
    "..",
    "../..",
    "../secret.txt",
    "..%2f..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "..\\secret.txt",
    ".trash",
    ".",
    "latest",
    SESSION[:12],
    "%00",
    "a%00b",
    "%ff%fe",
    "%ed%a0%80",
    "~",
    "~root",
    "x" * 10_000,
    "{}",
    "*",
    "con:",
    "\u202e",
)


def routes():
    app, _ = application()
    for path, ways in app._app.openapi()["paths"].items():
        for method in ways:
            if "{" in path:
                yield method, path


def fill(path, name, real=None):
    filled = path.replace("{artifact}", real) if real else path
    return re.sub(r"{\w+}", lambda _: name, filled)


def attempts(stride: int):
    """Yield addresses that lead out if any does, and whether nothing can be at them.

    A stride leaves out names; those with dots are shortened by clients before they are sent.
    """
    for number, (method, path) in enumerate(routes()):
        for name in NAMES[number % stride :: stride]:
            for real in (None, SESSION, RUN) if "{artifact}" in path else (None,):
                if real and path.endswith("/stream"):
                    continue  # a real stream never ends
                if real and method == "post" and "{" not in path.replace("{artifact}", ""):
                    continue  # that is a request for the artifact itself
                yield method, fill(path, name, real), real is None and not name.startswith(".")


def attack(made, stride: int) -> int:
    client, secret = client_of(made), (made / "secret.txt").read_text()
    tried = 0
    for method, path, is_nothing in attempts(stride):
        body = {"json": {}} if method == "post" else {}
        answer = client.request(method.upper(), path, **body)
        tried += 1
        assert answer.status_code < 500, (method, path[:100], answer.text)
        assert secret not in answer.text and "root:" not in answer.text
        if is_nothing:
            assert answer.status_code in (404, 405, 409, 422), (path[:100], answer.text)
    return tried


def test_no_route_follows_a_name_out(made):
    assert attack(made, stride=7) > 200


@pytest.mark.slow
def test_no_route_follows_any_name_out(made):
    assert attack(made, stride=1) > 1500


@pytest.mark.parametrize("link", ["file", "folder", "artifact"])
def test_links_that_lead_out_are_not_followed(own, link):
    run = own / "runs" / RUN
    if link == "file":
        video = run / "own_seed_1" / "videos" / "eval_20000_p10.mp4"
        os.symlink(own / "secret.txt", video)
        os.remove(run / "own_seed_2" / "metrics" / "scalars.jsonl")
        os.symlink(own / "secret.txt", run / "own_seed_2" / "metrics" / "scalars.jsonl")
    elif link == "folder":
        (own / "elsewhere").mkdir()
        (own / "elsewhere" / "eval_30000_p10.mp4").write_text("outside of the workspace")
        os.rename(run / "own_seed_1" / "videos", own / "moved")
        os.symlink(own / "elsewhere", run / "own_seed_1" / "videos")
    else:
        os.rename(run, own / "moved")
        os.symlink(own / "moved", run)
    client = client_of(own)
    if link == "artifact":
        assert client.get(f"/api/artifacts/{RUN}").status_code == 404
        return
    for file in client.get(f"/api/artifacts/{RUN}/files").json():
        assert "outside of the workspace" not in client.get(file["url"]).text
    series = client.get(f"/api/artifacts/{RUN}/series", params={"member": "own_seed_2"})
    assert series.status_code == (409 if link == "file" else 200)


def test_an_environment_is_never_a_file_or_code(client):
    for env in ("/etc/passwd", "../secret.xml", "os:system", "my.xml", "x.py:Env", "a/b/C-v1"):
        for path in ("/api/start/run", "/api/start/train", "/api/preview/run"):
            answer = client.post(path, json={"intent": "run", "env": env})
            assert answer.status_code in (409, 422), (env, path, answer.text)


def test_an_argument_of_an_environment_is_never_a_file_of_elsewhere(client):
    for file in ("/etc/passwd", "../secret.xml", "~/x.xml", "a/b.xml", "\x00"):
        asked = {"env": "Ant-v5", "env_args": {"xml_file": file}}
        answer = client.post("/api/start/train", json=asked)
        assert answer.status_code in (409, 422), (file, answer.text)
