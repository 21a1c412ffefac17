"""Answers of the dashboard's API for prepared folders."""

import hashlib
import io
import json
import os
import shutil
import zipfile

from telic.robots.catalogue import named_robot, robot_names
from telic.storage.files import write_json
from telic.storage.keys import user_key
from telic.storage.workspace import Artifact
from telic.verbs.artifacts import list_artifacts
from telic.verbs.background import JobFile
from telic.verbs.lines import read_line
from telic.web import _place
from telic.web._place import WebPlace
from tests.web.conftest import client_of
from tests.web.made import RUN, SEARCH, SESSION, VIDEO, make_run, write


def test_session_detail_contains_the_request_and_the_iterations(client):
    found = client.get(f"/api/artifacts/{SESSION}").json()
    assert found["damage"] == []
    session = found["session"]
    assert session["config"]["intent"] == "run forward fast"
    assert [line["number"] for line in session["iterations"]] == [1, 2]
    assert session["iterations"][0]["tags"] == ["too_slow"]
    assert session["iterations"][1]["parent"] == 1 and not session["iterations"][1]["is_judged"]


def test_curves_are_thinned_out_and_exact_where_zoomed(client):
    path = f"/api/artifacts/{RUN}/series"
    few = client.get(path, params={"points": 5}).json()
    assert {each["member"] for each in few["series"]} == {"own_seed_1", "own_seed_2"}
    assert all(len(each["steps"]) == 5 and each["points"] == 50 for each in few["series"])
    near = client.get(path, params={"start": 10_000, "end": 12_000, "member": "own_seed_1"}).json()
    assert near["series"][0]["values"] == [10.0, 11.0, 12.0]
    assert "policy_loss" in near["names"]


def test_a_video_is_served_whole_and_in_parts(client):
    files = client.get(f"/api/artifacts/{RUN}/files", params={"kind": "video"}).json()
    assert {file["member"] for file in files} == {"own_seed_1", "own_seed_2"}
    assert client.get(files[0]["url"]).content == VIDEO
    part = client.get(files[0]["url"], headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, VIDEO[100:200])


def test_a_line_follows_what_happens_to_its_thing(own):
    def state(artifact):
        found = client_of(own).get("/api/artifacts").json()["artifacts"]
        return [line["state"] for line in found if line["id"] == artifact]

    place = WebPlace(own / "runs", own)
    assert place.listed()[RUN].line.state == "completed"
    make_run(own / "runs" / RUN, status="failed")
    assert place.entry(RUN).line.state == "failed"
    assert state(RUN) == ["failed"]
    assert client_of(own).post(f"/api/artifacts/{RUN}/delete", json={}).status_code == 200
    assert state(RUN) == []
    client = client_of(own)
    assert [line["id"] for line in client.get("/api/trash").json()] == [RUN]
    assert client.post(f"/api/trash/{RUN}/restore", json={}).status_code == 200
    assert state(RUN) == ["failed"]


def compared(root, *names):
    return client_of(root).get("/api/compare", params={"artifact": names}).json()


def make_measured(root, run, returns, env="HalfCheetah-v5", reward="class Own: ...\n"):
    folder = make_run(root / "runs" / run, seeds=range(1, len(returns) + 1))
    write(folder / "config.json", {"env": env, "steps": 50_000, "members": []})
    for seed, value in enumerate(returns, start=1):
        best = {"global_step": 1, "mean_return": value, "env_return": value / 2}
        write(folder / f"own_seed_{seed}" / "summary.json", {"best": best})
        write(folder / f"own_seed_{seed}" / "reward_fn.py", reward)


def test_runs_are_compared_over_training_seeds_with_an_interval(own):
    make_measured(own, "a", [10.0, 11.0, 12.0])
    make_measured(own, "b", [20.0, 21.0, 23.0])
    make_measured(own, "close", [10.5, 10.4, 12.2])
    make_measured(own, "one", [30.0])
    found = compared(own, "a", "b", "close")
    first, second, third = found["rows"]
    assert found["obstacles"] == [] and first["difference"] is None and first["mean"] == 11.0
    far, near = second["difference"], third["difference"]
    # differences of equal seeds: 10, 10 and 11, 2 degrees of freedom; two tests share 5 %
    half = 6.205 * (1 / 3) ** 0.5 / 3**0.5
    assert abs(far["low"] - (31 / 3 - half)) < 0.01 and "higher" in far["words"]
    assert near["low"] < 0 < near["high"] and "No significant difference" in near["words"]
    alone = compared(own, "a", "one")["rows"][1]["difference"]
    assert alone["low"] is None and "more training seeds" in alone["words"]


def test_only_results_that_were_measured_alike_are_compared(own):
    make_measured(own, "a", [10.0, 11.0])
    make_measured(own, "elsewhere", [20.0, 21.0], env="Ant-v5")
    make_measured(own, "paid", [200.0, 210.0], reward="class Other: ...\n")
    other = compared(own, "a", "elsewhere")
    assert "environments differ" in other["obstacles"][0]
    assert other["rows"][1]["difference"] is None
    assert {"name": "env", "values": ["HalfCheetah-v5", "Ant-v5"]} in other["settings"]
    task = compared(own, "a", "paid")
    assert "task return" in task["measure"] and task["rows"][0]["mean"] == 5.25
    assert compared(own, "a", SESSION)["obstacles"]


def test_names_tags_and_notes_are_kept_with_the_run_and_found(own):
    client = client_of(own)
    about = {"name": "my baseline", "tags": ["go1"], "note": "first try with a low body"}
    line = client.post(f"/api/artifacts/{RUN}/about", json=about).json()
    assert (line["name"], line["tags"], line["note"]) == tuple(about.values())
    [listed] = [x for x in client.get("/api/artifacts").json()["artifacts"] if x["id"] == RUN]
    assert listed["name"] == "my baseline"
    found = client.get("/api/find", params={"words": "LOW BODY"}).json()
    assert [(each["line"]["id"], each["where"]) for each in found] == [(RUN, "intent")]
    code = client.get("/api/find", params={"words": "weights ="}).json()
    assert {each["where"] for each in code} == {"iter_1/reward_fn.py", "iter_2/reward_fn.py"}
    assert client.post(f"/api/artifacts/{RUN}/about", json={"tags": [""]}).status_code == 422


def test_words_without_meaning_are_refused_before_anything_starts(own):
    client = client_of(own)
    nonsense = {"intent": "asdf qwer"}
    for path in ("/api/preview/run", "/api/start/run"):
        answer = client.post(path, json=nonsense)
        assert answer.status_code == 422 and answer.json()["message"], path
    assert not (own / "runs" / "started").exists()
    asked = client.post("/api/preview/run", json=nonsense | {"model": "host"}).json()
    assert (
        asked["criteria"] == [] and asked["forecast"] is None and "--model host" in asked["command"]
    )
    text = {"intent": "run forward fast", "seeds": "1-2", "steps": "30k", "max_steps": "5M"}
    config = client.post("/api/preview/run", json=text).json()["config"]
    assert (config["seeds"], config["steps"], config["max_steps"]) == ([1, 2], 30_000, 5_000_000)


def test_an_export_is_downloaded_as_one_archive(own):
    client = client_of(own)
    assert client.get(f"/api/artifacts/{RUN}/bundle").status_code == 404
    write(own / "runs" / RUN / "export" / "policy.onnx", b"network")
    write(own / "runs" / RUN / "export" / "bundle.json", b'{"files": {}}')
    assert client.get(f"/api/artifacts/{RUN}/bundle").status_code == 409, "of another user"
    file = {"bytes": 7, "sha256": hashlib.sha256(b"network").hexdigest()}
    listed = {"files": {"policy.onnx": file}}
    signature = user_key().sign(json.dumps(listed, sort_keys=True).encode())
    write_json(own / "runs" / RUN / "export" / "bundle.json", {**listed, "signature": signature})
    write(own / "runs" / RUN / "export" / "run.py", b"added by another user")
    assert client.get(f"/api/artifacts/{RUN}/bundle").status_code == 409
    (own / "runs" / RUN / "export" / "run.py").unlink()
    (own / "runs" / RUN / "export" / "secret.md").symlink_to(own / "secret.txt")
    assert client.get(f"/api/artifacts/{RUN}/bundle").status_code == 409
    (own / "runs" / RUN / "export" / "secret.md").unlink()
    packed = client.get(f"/api/artifacts/{RUN}/bundle")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.read("policy.onnx") == b"network"
    (own / "runs" / RUN).rename(own / "runs" / 'run";x=☃')
    packed = client.get('/api/artifacts/run";x=☃/bundle')
    assert packed.headers["content-disposition"] == 'attachment; filename="run-x.zip"'


def test_a_change_of_any_file_is_listed_at_once(own, monkeypatch):
    """The verdict of a session that ended depends on files in its subfolders."""
    place, read = WebPlace(own / "runs", own), []
    line = read_line(Artifact("session", own / "runs" / SESSION))
    monkeypatch.setattr(_place, "read_line", lambda found: read.append(found.name) or line)
    place._known = {SESSION: place.entry(SESSION)}
    place.entry(SESSION)
    assert read == [SESSION], "nothing has changed since"
    for file in [each for each in (own / "runs" / SESSION).rglob("*") if each.is_file()][:20]:
        place._known = {SESSION: place.entry(SESSION)}
        read.clear()
        times = file.stat()
        with file.open("r+b") as changed:
            changed.write(b"x")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        place.entry(SESSION)
        assert read == [SESSION], file


def test_an_event_without_a_name_reaches_no_page(own):
    with (own / "runs" / SESSION / "events.jsonl").open("a") as log:
        log.write('{"name": "log"}\n{"event": 5}\n{"event": "log", "message": "last"}\n')
    found = client_of(own).get(f"/api/artifacts/{SESSION}/events").json()["events"]
    assert found[-1]["message"] == "last" and all(isinstance(x["event"], str) for x in found)


def test_a_folder_whose_name_is_not_text_hides_no_other(own):
    runs = own / "runs"
    for name in (b"\xff", b"run\nsession passed", b"bench_\xff"):
        shutil.copytree(runs / RUN, runs / os.fsdecode(name))
    write_json(runs / os.fsdecode(b"bench_\xff/bench.json"), {})
    started = JobFile(job="a", verb="search:search", values={}, command="telic search")
    write_json(runs / "started" / os.fsdecode(b"\xff.json"), started)
    write_json(own / ".telic/tasks" / os.fsdecode(b"\xff/studies/a/ledger.jsonl"), {})
    for kind in ("jobs", "benchmarks"):
        assert client_of(own).get(f"/api/{kind}").json() == []
    known = {line["id"] for line in client_of(own).get("/api/artifacts").json()["artifacts"]}
    assert known == {SESSION, RUN, SEARCH}
    assert {line.id for line in list_artifacts(runs_dir=runs).data} == known
    (runs / RUN / os.fsdecode(b"\xff_seed_1")).mkdir()
    assert client_of(own).get(f"/api/artifacts/{RUN}").status_code == 200


def test_every_environment_and_robot_has_a_picture_before_anything_is_fetched(
    client, tmp_path, monkeypatch
):
    monkeypatch.setenv("TELIC_CACHE_DIR", str(tmp_path))
    free = [name for name in robot_names() if "ND" not in named_robot(name).license]
    assert len(free) == len(robot_names()) - 1  # a drawing of Talos may not be handed on
    for name in [*free, "Ant-v5"]:
        answer = client.get(f"/api/pictures/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == "image/jpeg" and answer.content[:2] == b"\xff\xd8"
    assert client.get("/api/pictures/talos").status_code == 422


def test_a_branch_that_trained_nothing_has_no_result_of_its_own(own):
    copy = own / "runs" / SESSION.replace("aaaa", "bbbb")
    shutil.copytree(own / "runs" / SESSION, copy)
    shutil.rmtree(copy / "iter_2")
    (copy / "iter_1").rename(copy / "iter_0")
    judged = json.loads((copy / "iter_0" / "judgment.json").read_text())
    write(copy / "iter_0" / "judgment.json", judged | {"number": 0})
    rows = compared(own, SESSION, copy.name)["rows"]
    assert rows[1]["mean"] is None and rows[1]["difference"] is None
    assert rows[1]["line"]["score"] is None and rows[0]["line"]["score"] == 0.9
