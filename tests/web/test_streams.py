"""Events as they happen, from a real server on this machine."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn

from telic.storage.locks import RunLock
from telic.web._connections import BoundedConnection, listen
from telic.web._curves import read_lines
from telic.web.app import address_of
from tests.web.conftest import TOKEN, application, client_of
from tests.web.made import RUN, SESSION, make_session, make_workspace

FULL = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def serving(root):
    """Serve a folder on a free port of this machine; yields the address."""
    client_of(root)
    app, _ = application()
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, http=BoundedConnection, ws="none", log_level="error")
    server = uvicorn.Server(config)
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join(timeout=120)


def read(address, count, name=SESSION, after=0):
    """Return so many events of one artifact from a stream, and the position after them."""
    found, end = [], after
    path = f"{address}/api/stream?artifact={name}&after={after}"
    with httpx2.stream("GET", path, headers=FULL, timeout=120) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            message = json.loads(line[6:]) if line.startswith("data: ") else {}
            if "page" in message:
                found, end = found + message["page"]["events"], message["page"]["end"]
            if len(found) >= count:
                return found, end


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = make_workspace(tmp_path_factory.mktemp("streams"))
    with serving(root) as address:
        yield root, address


def test_a_stream_continues_where_a_page_ended(served):
    root, address = served
    client = client_of(root)
    page = client.get(f"/api/artifacts/{SESSION}/events").json()
    names = [event["event"] for event in page["events"]]
    log = root / "runs" / SESSION / "events.jsonl"
    assert names[:2] == ["session.start", "session.asked"] and page["end"] == log.stat().st_size

    def append():
        time.sleep(0.5)
        with log.open("a") as file:
            file.write('{"event":"log","message":"half')
            file.flush()
            time.sleep(0.5)
            file.write(' a line"}\n')

    threading.Thread(target=append).start()
    [event], end = read(address, 1, after=page["end"])
    assert event["message"] == "half a line" and end == log.stat().st_size


def test_one_stream_follows_many_and_the_workspace(served):
    root, address = served
    with RunLock(root / "runs" / RUN / "lock", RUN):
        names = [SESSION, RUN, "session_that_is_gone"]
        query = "&".join(f"artifact={name}&after=999999999" for name in names)
        states, running = {}, None
        with httpx2.stream(
            "GET", f"{address}/api/stream?{query}", headers=FULL, timeout=120
        ) as got:
            for line in got.iter_lines():
                message = json.loads(line[6:]) if line.startswith("data: ") else {}
                running = message.get("running", running)
                if "status" in message:
                    states[message["artifact"]] = message["status"]["is_running"]
                if running and len(states) == 2:
                    break
    assert states == {SESSION: False, RUN: True}
    assert [line["id"] for line in running] == [RUN]


def test_restarted_log_is_streamed_from_its_start(tmp_path):
    log = tmp_path / "events.jsonl"
    log.write_bytes(b"one\ntwo\nthr")
    assert [line.text for line in read_lines(log, 0)] == [b"one", b"two"]
    assert [line.text for line in read_lines(log, 2)] == [b"two"]
    assert [line.text for line in read_lines(log, 4)] == [b"two"]
    assert read_lines(log, 8) == []
    assert [line.text for line in read_lines(log, 1000)] == [b"one", b"two"]
    log.write_bytes(b"x" * 3_000_000 + b"\n")
    assert len(read_lines(log, 0, 100)[0].text) == 3_000_000


def test_a_hostile_log_ends_no_stream_and_fills_no_memory(served):
    root, address = served
    names = []
    for name, line in (("a", '{"message":"\\ud800"}'), ("b", '{"a":' * 900 + "1" + "}" * 900)):
        made = make_session(root / "runs" / f"session_20260101_000000_0000000{name}")
        with (made / "events.jsonl").open("a") as file:
            file.write(line + '\n{"event":"log","message":"after"}\n')
        names.append(made.name)
        events, _ = read(address, 5, made.name)
        assert events[-1]["message"] == "after"
    client = client_of(root)
    for name in names:
        page = client.get(f"/api/artifacts/{name}/events")
        assert page.status_code == 200 and page.json()["events"][-1]["message"] == "after"


def test_stalled_reader_does_not_block_others(served):
    root, address = served
    big = make_session(root / "runs" / "session_20260101_000000_cccc3333")
    with (big / "events.jsonl").open("a") as file:
        for number in range(2000):
            file.write(json.dumps({"event": "log", "message": "x" * 5000, "n": number}) + "\n")
    path = f"{address}/api/stream?artifact={big.name}"
    with httpx2.stream("GET", path, headers=FULL, timeout=120):
        events, _ = read(address, 2005, big.name)
        assert [event["n"] for event in events[5:]] == list(range(2000))
        assert httpx2.get(f"{address}/api/about", headers=FULL).status_code == 200


_READERS = """
import json, sys, threading
sys.path.insert(0, sys.argv[3])
from tests.web.test_streams import read
address, count = sys.argv[1], int(sys.argv[2])
told, threads = [None] * 50, []
def follow(number):
    told[number] = [event.get("n") for event in read(address, count)[0]]
for number in range(50):
    threads.append(threading.Thread(target=follow, args=(number,)))
    threads[-1].start()
for thread in threads:
    thread.join()
print(json.dumps([each == told[0] for each in told] + [told[0][-1]]))
"""


def test_invalid_log_reads_as_empty(tmp_path):
    log = tmp_path / "events.jsonl"
    (tmp_path / "secret").write_text("mine\n")
    log.symlink_to(tmp_path / "secret")
    assert read_lines(log, 0) == []
    log.unlink()
    log.write_bytes(b"one\n")
    os.truncate(log, 40 << 30)
    assert [line.text for line in read_lines(log, 0)] == [b"one"]
    began = time.monotonic()
    assert read_lines(log, 4) == [] and time.monotonic() - began < 5.0


@pytest.mark.long
def test_fifty_readers_lose_no_event_and_get_them_in_order(tmp_path):
    root = make_workspace(tmp_path)
    log = root / "runs" / SESSION / "events.jsonl"
    with serving(root) as address:
        readers = subprocess.Popen(
            [sys.executable, "-c", _READERS, address, "1005", os.getcwd()], stdout=subprocess.PIPE
        )
        with log.open("a") as file:
            for number in range(1000):
                file.write(json.dumps({"event": "log", "message": "", "n": number}) + "\n")
                file.flush()
                time.sleep(0.01)
        reported = json.loads(readers.communicate(timeout=300)[0])
    assert reported == [True] * 50 + [999]
