"""What the dashboard's API answers, over folders that were written for it."""

import json

from telic.robots.catalogue import named_robot, robot_names
from telic.web.index import ThingIndex
from tests.web.conftest import client_of
from tests.web.made import RUN, SEARCH, SESSION, VIDEO, make_run


def test_everything_is_listed_with_its_kind_and_state(client):
    page = client.get("/api/things").json()
    assert {line["id"]: line["kind"] for line in page["things"]} == {
        SESSION: "session",
        RUN: "run",
        SEARCH: "search",
    }
    assert page["kinds"] == {"session": 1, "run": 1, "search": 1}


def test_a_list_is_sorted_cut_and_counted(client):
    page = client.get("/api/things", params={"limit": 2, "sort": "id"}).json()
    assert [line["id"] for line in page["things"]] == sorted([SESSION, RUN, SEARCH])[:0:-1]
    assert page["total"] == 3


def test_conditions_filter_lines(client):
    def ids(**query):
        return {line["id"] for line in client.get("/api/things", params=query).json()["things"]}

    assert ids(where="best_return>10") == {RUN}
    assert ids(where="score>=0.9") == {SESSION}
    assert ids(kind="run", text="halfcheetah") == {RUN}
    assert ids(text="forward fast") == {SESSION}
    assert client.get("/api/things", params={"where": "nothing like it"}).status_code == 422


def test_a_session_tells_what_was_asked_and_tried(client):
    found = client.get(f"/api/things/{SESSION}").json()
    assert found["damage"] == []
    session = found["session"]
    assert session["config"]["intent"] == "run forward fast"
    assert [line["number"] for line in session["iterations"]] == [1, 2]
    assert session["iterations"][0]["tags"] == ["too_slow"]
    assert session["iterations"][1]["parent"] == 1 and not session["iterations"][1]["is_judged"]
    assert session["asked"]["doubts"] == ["how fast"]


def test_curves_are_thinned_out_and_exact_where_zoomed(client):
    path = f"/api/things/{RUN}/series"
    few = client.get(path, params={"points": 5}).json()
    assert {each["member"] for each in few["series"]} == {"own_seed_1", "own_seed_2"}
    assert all(len(each["steps"]) == 5 and each["points"] == 50 for each in few["series"])
    near = client.get(path, params={"start": 10_000, "end": 12_000, "member": "own_seed_1"}).json()
    assert near["series"][0]["values"] == [10.0, 11.0, 12.0]
    assert "policy_loss" in near["names"] and near["last_step"] == 50_000


def test_a_video_is_served_whole_and_in_parts(client):
    files = client.get(f"/api/things/{RUN}/files", params={"kind": "video"}).json()
    assert {file["member"] for file in files} == {"own_seed_1", "own_seed_2"}
    assert client.get(files[0]["url"]).content == VIDEO
    part = client.get(files[0]["url"], headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, VIDEO[100:200])


def test_events_come_a_page_at_a_time(client):
    path = f"/api/things/{SESSION}/events"
    first = client.get(path, params={"limit": 2}).json()
    rest = client.get(path, params={"after": first["next"]}).json()
    names = [row["data"]["event"] for row in (*first["events"], *rest["events"])]
    assert names == [
        "session.start",
        "session.asked",
        "model.sent",
        "model.reply",
        "session.iteration",
    ]
    assert not first["is_all"] and rest["is_all"]
    assert json.dumps(rest)


def test_a_try_shows_its_code_and_what_changed(client):
    found = client.get(f"/api/things/{SESSION}/iterations/2").json()
    assert found["damage"] == [] and "2.0" in found["code"]
    assert found["change"]["terms"] == [
        {"name": "speed", "change": "weight", "before": 1.0, "after": 2.0}
    ]
    assert '+    weights = {"speed": 2}' in found["change"]["unified"]
    assert client.get(f"/api/things/{SESSION}/iterations/9").status_code == 404


def test_questions_to_models_have_words_tokens_and_price(client):
    trace = client.get(f"/api/things/{SESSION}/trace").json()
    [call] = trace["calls"]
    assert (call["state"], call["price_usd"], call["tokens_in"]) == ("answered", 0.25, 10)
    assert (trace["price_usd"], trace["unpriced"]) == (0.25, 0)
    assert client.get(f"/api/things/{SESSION}/trace/1").json()["system"] == "be an author"
    assert client.get(f"/api/things/{SESSION}/trace/2").status_code == 404


def test_a_line_follows_what_happens_to_its_thing(own):
    def state(thing):
        found = client_of(own).get("/api/things", params={"text": thing}).json()["things"]
        return [line["state"] for line in found]

    table = ThingIndex(own / "runs", own)
    assert table.entry(RUN).line.state == "completed"
    table.table()
    make_run(own / "runs" / RUN, status="failed")
    assert table.entry(RUN).line.state == "failed"
    assert state(RUN) == ["failed"]
    assert client_of(own).post(f"/api/things/{RUN}/delete", json={}).status_code == 200
    assert state(RUN) == []
    client = client_of(own)
    assert [line["id"] for line in client.get("/api/trash").json()] == [RUN]
    assert client.post(f"/api/trash/{RUN}/restore", json={}).status_code == 200
    assert state(RUN) == ["failed"]


def test_bands_are_means_over_seeds_with_their_interval(client):
    found = client.get("/api/bands", params={"thing": [RUN]}).json()
    [thing] = found["things"]
    band = thing["band"]
    place = band["steps"].index(10_000.0)
    # seeds 1 and 2 give 10 and 20: mean 15, and t(1) x s / sqrt(2) = 12.706 x 7.0711 / 1.4142
    assert band["mean"][place] == 15.0 and band["seeds"][place] == 2
    assert abs(band["high"][place] - (15.0 + 12.706 * 5.0)) < 0.01


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
