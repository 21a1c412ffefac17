"""Sharing policies: the library's own client against a loopback server of the hub's routes."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from telic.errors import Refused, TelicError, UsageError
from telic.storage.layout import RunFolder
from telic.training.policy import load_policy
from telic.verbs.artifacts import export, pull, show
from telic.verbs.compare import judge
from tests.training.small import SPEED, small_job, train_here

hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("safetensors")

JUDGE = """
from telic import score

def judge(episode):
    return [score("lasts", float(len(episode["step"])), zero=0.0, goal=10.0)]
"""


class Hub(BaseHTTPRequestHandler):
    """The few routes that a push and a pull use. Files are kept in memory."""

    files: ClassVar[dict[str, bytes]] = {}
    sha = "c" * 40

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/api/repos/create":
            return self.answer({"url": f"http://{self.headers['host']}/user/name"})
        if self.path.endswith("/preupload/main"):
            named = [{"path": x["path"]} for x in json.loads(body)["files"]]
            how = {"uploadMode": "regular", "shouldIgnore": False}
            return self.answer({"files": [x | how for x in named]})
        if self.path.endswith("/commit/main"):
            for row in map(json.loads, body.splitlines()):
                value = row["value"]
                if row["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif row["key"] == "deletedFile":
                    self.files.pop(value["path"], None)
            page = f"http://{self.headers['host']}/user/name/commit/{self.sha}"
            made = {"commitUrl": page, "commitOid": self.sha}
            return self.answer(made | {"pullRequestUrl": None})
        return self.answer({"errors": [], "warnings": []})  # of the card's front matter

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/user/name/tree/"):
            rows = [
                {"type": "file", "path": x, "size": len(y), "oid": hashlib.sha1(y).hexdigest()}
                for x, y in self.files.items()
            ]
            return self.answer(rows)
        if path.startswith("/api/models/user/name"):
            names = [{"rfilename": name} for name in self.files]
            return self.answer({"id": "user/name", "sha": self.sha, "siblings": names})
        name = path.partition(f"/user/name/resolve/{self.sha}/")[2]
        if name not in self.files:
            return self.answer({"error": "Repository not found"}, 404)
        return self.answer(self.files[name])

    do_HEAD = do_GET  # noqa: N815

    def answer(self, body, status=200):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("x-repo-commit", self.sha)
        if status == 404:
            self.send_header("x-error-code", "RepoNotFound")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def files(monkeypatch):
    """Serve a hub, and return its files."""
    monkeypatch.setattr(Hub, "files", {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    yield Hub.files
    server.shutdown()
    server.server_close()


def test_a_policy_is_pushed_pulled_judged_and_exported_again(files, tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    run = train_here(small_job(reward=[SPEED]), own)
    made = export(run.name, push="hf://user/name", runs_dir=own, out=tmp_path / "bundle")
    assert made["page"].endswith("/user/name")
    assert {"policy.safetensors", "policy.onnx", "README.md", "bundle.json"} <= set(files)
    assert "policy.pt" not in files and b"library_name: telic" in files["README.md"]

    pulled = pull("hf://user/name", runs_dir=other).data
    folder = RunFolder(other / pulled["run"])
    first, same = load_policy(run.path), load_policy(folder.path)
    assert first.facts["step"] == same.facts["step"] and (first.flat == same.flat).all()
    assert not (folder.path / "trajectories").exists() and "claimed by the publisher" in str(pulled)
    assert "claimed by the publisher" in show(pulled["run"], runs_dir=other).facts["verdict"]

    file = tmp_path / "judge.py"
    file.write_text(JUDGE)
    found = judge(pulled["run"], judge=file, episodes=2, runs_dir=other)
    assert found.score == 1.0
    assert "judged on this machine" in show(pulled["run"], runs_dir=other).facts["verdict"]
    again = export(pulled["run"], runs_dir=other)
    assert again["member"] == made["member"] and again["step"] == made["step"]
    with pytest.raises(UsageError, match="already exists"):
        pull("hf://user/name", runs_dir=other)


def change(files, name, change):
    listed = json.loads(files["bundle.json"])
    files[name] = change(files[name])
    listed["files"][name] = {
        "sha256": hashlib.sha256(files[name]).hexdigest(),
        "bytes": len(files[name]),
    }
    files["bundle.json"] = json.dumps(listed).encode()


def test_changed_files_and_code_of_the_publisher_are_refused(files, tmp_path):
    run = train_here(small_job(reward=[SPEED]), tmp_path / "own")
    export(run.name, push="hf://user/name", runs_dir=tmp_path / "own", out=tmp_path / "bundle")
    kept = dict(files)

    files["reward_fn.py"] += b"\n"
    with pytest.raises(Refused, match=r"reward_fn.py is missing or was modified"):
        pull("hf://user/name", runs_dir=tmp_path / "other")
    files.update(kept)
    files["extra.py"] = b"print()"
    with pytest.raises(Refused, match="added after the export"):
        pull("hf://user/name", runs_dir=tmp_path / "other")

    del files["extra.py"]
    env = b'\\"env\\": \\"HalfCheetah-v5\\"'
    for named in (b'\\"env\\": \\"/tmp/evil.py:E\\"', b'\\"env\\": \\"/etc/robot.xml\\"'):
        files.update(kept)
        change(files, "policy.safetensors", lambda x, to=named: _renamed(x, env, to))
        with pytest.raises(Refused, match="requires files of its publisher"):
            pull("hf://user/name", runs_dir=tmp_path / "other")
    files.update(kept)
    endless = b'\\"env_args\\": {\\"max_episode_steps\\": 1000000000000}'
    old = b'\\"env_args\\": {\\"max_episode_steps\\": 40}'
    change(files, "policy.safetensors", lambda x: _renamed(x, old, endless))
    with pytest.raises(Refused, match=r"has the argument 1e\+12"):
        pull("hf://user/name", runs_dir=tmp_path / "other")
    files.update(kept)
    change(files, "policy.safetensors", lambda x: x[:-100])
    with pytest.raises(TelicError):
        pull("hf://user/name", runs_dir=tmp_path / "other")
    assert not list((tmp_path / "other").glob("*/config.json"))
    for address in ("user/name", "hf://user", "hf://user/name/../x"):
        with pytest.raises(UsageError, match="not an address"):
            pull(address, runs_dir=tmp_path / "other")
    with pytest.raises(TelicError, match="hf://user/other"):
        pull("hf://user/other", runs_dir=tmp_path / "other")


def _renamed(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return safetensors with a changed header."""
    size = int.from_bytes(content[:8], "little")
    head = content[8 : 8 + size]
    assert old in head
    head = head.replace(old, new)
    return len(head).to_bytes(8, "little") + head + content[8 + size :]


def test_outcomes_are_those_of_a_session(files, tmp_path):
    run = train_here(small_job(reward=[SPEED]), tmp_path / "own")
    export(run.name, push="hf://user/name", runs_dir=tmp_path / "own", out=tmp_path / "bundle")
    listed = json.loads(files["bundle.json"])
    files["bundle.json"] = json.dumps({**listed, "outcome": "passed on this machine"}).encode()
    with pytest.raises(Refused, match="no outcome"):
        pull("hf://user/name", runs_dir=tmp_path / "other")
    files["../escaped"] = b"x"
    with pytest.raises(TelicError, match="escaped"):
        pull("hf://user/name", runs_dir=tmp_path / "other")
