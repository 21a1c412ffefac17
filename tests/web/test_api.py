"""What the dashboard's API answers, over folders that were written for it."""

from telic.robots.catalogue import named_robot, robot_names
from telic.web.place import WebPlace
from tests.web.conftest import client_of
from tests.web.made import RUN, SEARCH, SESSION, VIDEO, make_run, write


def test_everything_is_listed_with_its_kind_and_state(client):
    page = client.get("/api/things").json()
    assert {line["id"]: line["kind"] for line in page["things"]} == {
        SESSION: "session",
        RUN: "run",
        SEARCH: "search",
    }
    assert page["kinds"] == {"session": 1, "run": 1, "search": 1}


def test_a_list_is_newest_first_cut_and_by_kind(client):
    page = client.get("/api/things", params={"limit": 2}).json()
    times = [line["updated"] for line in page["things"]]
    assert len(times) == 2 and times == sorted(times, reverse=True)
    runs = client.get("/api/things", params={"kind": "run"}).json()["things"]
    assert [line["id"] for line in runs] == [RUN]


def test_a_session_tells_what_was_asked_and_tried(client):
    found = client.get(f"/api/things/{SESSION}").json()
    assert found["damage"] == []
    session = found["session"]
    assert session["config"]["intent"] == "run forward fast"
    assert [line["number"] for line in session["iterations"]] == [1, 2]
    assert session["iterations"][0]["tags"] == ["too_slow"]
    assert session["iterations"][1]["parent"] == 1 and not session["iterations"][1]["is_judged"]


def test_curves_are_thinned_out_and_exact_where_zoomed(client):
    path = f"/api/things/{RUN}/series"
    few = client.get(path, params={"points": 5}).json()
    assert {each["member"] for each in few["series"]} == {"own_seed_1", "own_seed_2"}
    assert all(len(each["steps"]) == 5 and each["points"] == 50 for each in few["series"])
    near = client.get(path, params={"start": 10_000, "end": 12_000, "member": "own_seed_1"}).json()
    assert near["series"][0]["values"] == [10.0, 11.0, 12.0]
    assert "policy_loss" in near["names"]


def test_a_video_is_served_whole_and_in_parts(client):
    files = client.get(f"/api/things/{RUN}/files", params={"kind": "video"}).json()
    assert {file["member"] for file in files} == {"own_seed_1", "own_seed_2"}
    assert client.get(files[0]["url"]).content == VIDEO
    part = client.get(files[0]["url"], headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, VIDEO[100:200])


def test_a_try_shows_its_code_and_what_changed(client):
    found = client.get(f"/api/things/{SESSION}/iterations/2").json()
    assert found["damage"] == [] and "2.0" in found["code"]
    assert found["change"]["terms"] == [
        {"name": "speed", "change": "weight", "before": 1.0, "after": 2.0}
    ]
    assert 'weights = {"speed": 2}' in found["change"]["after"]
    assert client.get(f"/api/things/{SESSION}/iterations/9").status_code == 404


def test_a_line_follows_what_happens_to_its_thing(own):
    def state(thing):
        found = client_of(own).get("/api/things").json()["things"]
        return [line["state"] for line in found if line["id"] == thing]

    place = WebPlace(own / "runs", own)
    assert place.listed()[RUN].line.state == "completed"
    make_run(own / "runs" / RUN, status="failed")
    assert place.entry(RUN).line.state == "failed"
    assert state(RUN) == ["failed"]
    assert client_of(own).post(f"/api/things/{RUN}/delete", json={}).status_code == 200
    assert state(RUN) == []
    client = client_of(own)
    assert [line["id"] for line in client.get("/api/trash").json()] == [RUN]
    assert client.post(f"/api/trash/{RUN}/restore", json={}).status_code == 200
    assert state(RUN) == ["failed"]


def test_runs_are_compared_by_the_best_return_of_each_seed(own):
    for run, seeds in ((RUN, (1, 2)), ("other", (3, 4))):
        make_run(own / "runs" / run, seeds=seeds)
        for seed in seeds:
            best = {"best": {"global_step": 1, "mean_return": 10.0 * seed}}
            write(own / "runs" / run / f"own_seed_{seed}" / "summary.json", best)
    client = client_of(own)
    rows = client.get("/api/compare", params={"thing": [RUN, "other"]}).json()["rows"]
    assert [(row["mean"], row["count"]) for row in rows] == [(15.0, 2), (35.0, 2)]
    assert rows[0]["better_than_first"] is None and rows[1]["better_than_first"] == 1.0
    mixed = client.get("/api/compare", params={"thing": [RUN, SESSION]})
    assert mixed.status_code == 422


def test_every_environment_and_robot_has_a_picture_before_anything_is_fetched(
    client, tmp_path, monkeypatch
):
    monkeypatch.setenv("TELIC_CACHE_DIR", str(tmp_path))
    free = [name for name in robot_names() if "ND" not in named_robot(name).licence]
    assert len(free) == len(robot_names()) - 1  # a drawing of Talos may not be handed on
    for name in [*free, "Ant-v5"]:
        answer = client.get(f"/api/pictures/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"] == "image/jpeg" and answer.content[:2] == b"\xff\xd8"
    assert client.get("/api/pictures/talos").status_code == 422
