"""Sessions in processes of their own: killed at random moments, and several at once."""

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from telic import llm
from telic.core.events import TrainStart
from telic.errors import Refused
from telic.llm import Models
from telic.session import loop
from telic.session.loop import run_session
from telic.storage.files import JsonLines, read_json_lines
from telic.storage.layout import SessionFolder, list_sessions
from telic.testing.models import Scripted
from telic.training.results import RunSummary
from tests.session.quick import PASSING, SMALL, VARYING, at_home, results

REQUEST = {**SMALL, "iterations": 2}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.session.test_kills", "telic.training._worker"])


class Noted(Scripted):
    """A scripted model that notes on disk what it was asked, as a bill would."""

    def __init__(self, script, bill: Path) -> None:
        super().__init__(script)
        self._bill = JsonLines(bill)

    async def complete(self, request, deadline_s):
        self._bill.append({"key": request.key(self.name)})
        return await super().complete(request, deadline_s)


def work(folder: Path, intent: str = "run") -> None:
    """Run a session in this process, and note what was asked and when it trained."""
    torch.set_num_threads(1)
    provider = Noted(VARYING, folder / f"bill_{os.getpid()}.jsonl")
    log = JsonLines(folder / "trainings.jsonl")

    def note(event):
        if isinstance(event, TrainStart | RunSummary):
            log.append({"pid": os.getpid(), "what": event.NAME})

    with at_home() as patch:
        patch.setattr(llm, "connect", lambda name, where, **o: Models(provider, where, **o))
        try:
            run_session(intent, runs_dir=folder / "runs", on_event=note, **REQUEST)
        except Refused as error:
            (folder / f"refused_{os.getpid()}").write_text(str(error))


@pytest.fixture
def start():
    """Start sessions in processes; none outlives the test."""
    started = []

    def one(folder, intent="run"):
        folder.mkdir(exist_ok=True)
        process = PROCESSES.Process(target=work, args=(folder, intent))
        process.start()
        started.append(process)
        return process

    yield one
    for process in started:
        process.kill()
        process.join()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Result of an undisturbed session."""
    folder = tmp_path_factory.mktemp("whole")
    process = PROCESSES.Process(target=work, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 0
    return folder


def only(folder: Path) -> SessionFolder:
    (session,) = list_sessions(folder / "runs")
    return session


def bill(folder: Path, process: int | str = "*") -> Counter:
    """Return how often each question was put to the model, by all processes or one."""
    rows = [row for path in folder.glob(f"bill_{process}.jsonl") for row in read_json_lines(path)]
    return Counter(each["key"] for each in rows)


def replies(folder: Path) -> set[str]:
    return {each.stem for each in (folder / "runs").glob("*/replies/[!.]*.json")}


def progress(folder: Path) -> int:
    """Count what was written so far, whatever it is."""
    events = files = 0
    for place, _, names in os.walk(folder):  # which folders come and go is nothing to it
        files += len(names)
        if "events.jsonl" in names:
            events += Path(place, "events.jsonl").read_bytes().count(b"\n")
    return events + files


@pytest.mark.parametrize(
    "wanted",
    [pytest.param(3, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.long)],
)
def test_kills_at_random_moments_change_nothing(start, whole, tmp_path, wanted):
    chance = random.Random(0)
    kills, finished = 0, []
    folder, lost = tmp_path / "0", Counter()
    while kills < wanted or not finished:
        process = start(folder)
        goal = progress(folder) + chance.randint(0, 40)
        while process.is_alive() and (progress(folder) < goal or kills == wanted):
            time.sleep(0.002)
        process.join(chance.uniform(0.0, 0.1))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
            # A question whose answer was not on disk yet has to be asked again.
            lost += Counter(bill(folder, process.pid).keys() - replies(folder))
        else:
            assert process.exitcode == 0
        if list(folder.glob("runs/*/summary.json")):  # also if it was killed on its way out
            finished.append((folder, lost))
            folder, lost = tmp_path / str(len(finished)), Counter()
    for folder, lost in finished:
        assert results(only(folder)) == results(only(whole))
        assert replies(folder) == replies(whole)
        assert bill(folder) == bill(whole) + lost
        assert (only(folder).path / "report.md").exists()


@pytest.mark.slow
def test_report_is_written_later_after_a_kill(asking, home):
    """The summary is the last word: with it, the same command would begin a new session."""

    def die(*_, **__):
        raise KeyboardInterrupt

    with home.context() as patch:
        patch.setattr(loop, "save_report", die)
        with pytest.raises(KeyboardInterrupt):
            asking.run(PASSING)
    session, asked = asking.run(PASSING)
    assert session.path == asking.folder.path and asked == [] and asking.folder.report.exists()


@pytest.mark.long
def test_two_sessions_at_once_take_turns_and_do_not_mix(start, whole, tmp_path):
    both = [start(tmp_path, "run"), start(tmp_path, "run far")]
    for process in both:
        process.join()
        assert process.exitcode == 0
    sessions = list_sessions(tmp_path / "runs")
    assert len(sessions) == 2
    expected = json.dumps(results(only(whole)))
    for session in sessions:
        intent = results(session)["summary"]["intent"]
        assert json.dumps(results(session)).replace(f'"{intent}"', '"run"') == expected
    rows = list(read_json_lines(tmp_path / "trainings.jsonl"))
    assert len(rows) == 2 * 2 * 3  # starts and ends of three trainings each
    for begun, ended in zip(rows[::2], rows[1::2], strict=True):
        assert (begun["what"], ended["what"]) == ("train.start", "train.end")
        assert begun["pid"] == ended["pid"]  # nobody else began meanwhile


@pytest.mark.long
def test_the_same_request_twice_at_once_is_refused_or_its_own_session(start, whole, tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    for process in both:
        process.join()
        assert process.exitcode == 0
    refused = list(tmp_path.glob("refused_*"))
    sessions = list_sessions(tmp_path / "runs")
    assert len(sessions) + len(refused) == 2 and sessions
    for session in sessions:
        assert results(session) == results(only(whole))
    assert all("is in use" in each.read_text() for each in refused)
    assert set(bill(tmp_path).values()) == {len(sessions)}
