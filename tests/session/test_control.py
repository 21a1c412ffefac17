"""Stop, pause, notes and approval, as a session meets them while it really trains."""

import multiprocessing
import threading
import time

import pytest

from telic.authors.request import parse_criteria
from telic.envs import make
from telic.errors import UsageError
from telic.session._training import run_job
from telic.session.budget import BudgetUsedUp, SessionAccount, steps_taken
from telic.session.control import (
    CriteriaApproval,
    CriteriaProposal,
    Note,
    SessionControl,
    SessionStopped,
    add_note,
    approve_criteria,
)
from telic.session.records import is_running, session_state
from telic.storage.files import read_json, write_json
from telic.storage.layout import RunFolder
from telic.storage.locks import RunLock
from telic.storage.resources import Admission
from telic.training.folder import status_of
from tests.event_list import EventList
from tests.session.sessions import CRITERIA, asked, begun, make_session, until
from tests.training.small import small_job


class Sitting:
    """A session's process, played by a thread."""

    def __init__(self, folder, work, runtime, **limits):
        self.folder = folder
        self.events = EventList()
        self.result = None
        self.error = None
        account = SessionAccount(folder, asked(**limits))
        door = Admission(runtime, cores=[0, 1])
        self.control = SessionControl(folder, self.events, lambda: False, account, door)
        self._work = work
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            with RunLock(self.folder.lock):
                self.result = self._work(self.control)
        except (SessionStopped, BudgetUsedUp) as error:
            self.error = error

    def saw(self, name):
        return any(each["event"] == name for each in self.events)

    def end(self):
        self.thread.join(240)
        assert not self.thread.is_alive()
        return self.result


@pytest.fixture
def sit(tmp_path):
    """Start a session's thread; whatever happens, it is stopped in the end."""
    made = []

    def start(work, folder=None, **allowance):
        folder = folder or make_session(tmp_path)
        made.append(Sitting(folder, work, tmp_path / "runtime", **allowance))
        return made[-1]

    yield start
    for each in made:
        each.folder.stop.touch()
        each.folder.pause.unlink(missing_ok=True)
        each.thread.join(240)


@pytest.fixture(scope="module")
def spec():
    env = make("HalfCheetah-v5", num_envs=1)
    env.close()
    return env.spec


def training(spec, **changes):
    def work(control):
        folder = control.folder.iteration(1).path
        return run_job(control, small_job(**changes), spec, folder, "train", control._emit)

    return work


@pytest.mark.slow
def test_paused_training_stops_stepping_and_then_completes(sit, spec):
    sitting = sit(training(spec, steps=8_192, save_every_s=5.0))
    folder = sitting.folder
    until(lambda: sitting.saw("train.progress"))
    folder.pause.touch()
    until(lambda: session_state(folder) == "paused")
    run = RunFolder(folder.iteration(1).path / "train")
    assert status_of(run) == "stopped" and run.state.exists()
    assert not is_running(run), "a paused session burns nothing"
    steps, seconds = steps_taken(folder), sitting.control.account.seconds
    time.sleep(0.5)
    assert steps_taken(folder) == steps
    assert sitting.control.account.seconds - seconds < 0.2
    assert f"telic resume {folder.path}" in read_json(folder.waiting)["message"]
    folder.pause.unlink()
    assert sitting.end().status == "completed"
    assert sitting.saw("session.resumed") and steps_taken(folder) == 8_192
    assert not folder.waiting.exists()


def test_stop_does_not_wait_for_the_end_of_a_long_update(sit, spec):
    large = {"num_envs": 64, "horizon": 1024, "minibatch_size": 64, "epochs": 20}
    sitting = sit(training(spec, steps=1_000_000, settings=large))
    until(lambda: sitting.saw("train.start"))
    time.sleep(0.5)
    sitting.folder.stop.touch()
    sitting.end()
    assert isinstance(sitting.error, SessionStopped)
    run = RunFolder(sitting.folder.iteration(1).path / "train")
    assert status_of(run) == "interrupted", "not even the update was waited for"
    assert sitting.control._admission.leases() == []


def test_waiting_for_cores_is_reported_and_not_charged(sit, spec, tmp_path):
    door = Admission(tmp_path / "runtime", cores=[0, 1])
    from telic.storage.resources import ResourceNeed

    with door.admit(ResourceNeed(2, None), "session_other"):
        sitting = sit(training(spec, steps=512))
        until(lambda: session_state(sitting.folder) == "waiting for cores")
        seconds = sitting.control.account.seconds
        time.sleep(0.3)
        assert sitting.control.account.seconds == seconds
    assert sitting.end().status == "completed"
    (waiting,) = [each for each in sitting.events if each["event"] == "session.waiting"]
    assert "held by session_other" in waiting["message"]


def test_a_run_that_is_complete_is_not_trained_again(sit, spec):
    """Killed between training and judging, a session must find what it has."""
    sitting = sit(training(spec, steps=512), max_steps=512)
    first = sitting.end()
    again = sit(training(spec, steps=512), sitting.folder, steps=512)
    assert again.end() == first and again.events == []


# ---------------------------------------------------------------------------- notes


def test_every_note_is_answered_by_exactly_one_iteration(tmp_path):
    folder = make_session(tmp_path)
    first = add_note(folder, " less bouncing please ", author="ada")
    assert (first.text, first.author) == ("less bouncing please", "ada")
    control = SessionControl(folder, EventList(), lambda: False, None)
    assert control.notes(2) == (first,)
    second = add_note(folder, "and faster")
    assert control.notes(2) == (first,), "asked again after a crash"
    assert control.notes(3) == (second,)
    assert control.notes(4) == ()


# ---------------------------------------------------------------------------- approval


def proposed(records, folder):
    records.step(
        folder.criteria, CriteriaProposal, lambda: CriteriaProposal(time="now", criteria=CRITERIA)
    )


def test_only_what_was_proposed_is_approved(tmp_path):
    folder = make_session(tmp_path)
    proposed(begun(folder), folder)
    lax = read_json(folder.criteria)
    lax["criteria"][0]["goal"] = 0.0
    write_json(folder.criteria, lax)
    with pytest.raises(UsageError, match="changed after the session proposed"):
        approve_criteria(folder)
    assert not folder.approval.exists()


def test_unapproved_file_is_not_an_approval(sit, tmp_path):
    folder = make_session(tmp_path)
    records = begun(folder)
    lax = CriteriaApproval(time="now", criteria=CRITERIA[:1], author="mallory", edited=True)
    write_json(folder.approval, lax)
    sitting = sit(lambda control: control.approved(CRITERIA, records), folder)
    until(lambda: session_state(folder) == "waiting for approval")
    folder.approval.unlink()
    approve_criteria(folder)
    assert sitting.end() == CRITERIA


def test_a_session_waits_for_agreement_and_takes_the_edit(sit, tmp_path):
    folder = make_session(tmp_path, model="host")
    sitting = sit(lambda control: control.approved(CRITERIA, begun(folder)), folder)
    until(lambda: session_state(folder) == "waiting for approval")
    shown = read_json(folder.criteria)
    shown["criteria"] = shown["criteria"][:1]
    approve_criteria(folder, parse_criteria(shown), author="ada")
    assert sitting.end() == CRITERIA[:1]
    assert read_json(folder.approval)["edited"] and sitting.saw("session.waiting")
    with pytest.raises(UsageError, match="already approved by ada"):
        approve_criteria(folder)


def test_what_was_agreed_is_not_asked_again(sit, tmp_path):
    folder = make_session(tmp_path)
    write_json(folder.criteria, {"time": "now", "criteria": list(CRITERIA)})
    with pytest.raises(UsageError, match="nothing to approve"):
        approve_criteria(folder)  # its journal was never begun: the file is somebody's
    records = begun(folder)
    with pytest.raises(UsageError, match="nothing to approve"):
        approve_criteria(folder)
    proposed(records, folder)
    assert not approve_criteria(folder).edited
    sitting = sit(lambda control: control.approved(CRITERIA, records), folder)
    assert sitting.end() == CRITERIA and not sitting.events


def test_the_composer_takes_no_criteria_that_it_has_no_code_for(tmp_path):
    strange = (CRITERIA[0].model_copy(update={"title": "dances"}),)
    for model, folder in ((None, make_session(tmp_path / "a")), ("host", None)):
        folder = folder or make_session(tmp_path / "b", model=model)
        proposed(begun(folder), folder)
        if model is None:
            with pytest.raises(UsageError, match='No criterion named "dances"'):
                approve_criteria(folder, strange)
            assert not folder.approval.exists()
        else:
            assert approve_criteria(folder, strange).edited


PROCESSES = multiprocessing.get_context("fork")


def write_notes(folder, name):
    for number in range(20):
        add_note(folder, f"{name} {number} " + "x" * 5000, author=name)


def test_a_training_that_is_stopped_by_itself_ends_the_session(sit, spec):
    sitting = sit(training(spec, steps=10_000_000, save_every_s=5.0))
    until(lambda: sitting.saw("train.progress"))
    RunFolder(sitting.folder.iteration(1).path / "train").stop.touch()
    sitting.end()
    assert isinstance(sitting.error, SessionStopped)


@pytest.mark.slow
def test_time_that_is_up_ends_training_with_its_reason(sit, spec):
    sitting = sit(training(spec, steps=10_000_000), max_hours=4 / 3600)
    sitting.end()
    assert isinstance(sitting.error, BudgetUsedUp) and sitting.error.kind == "hours"
    run = RunFolder(sitting.folder.iteration(1).path / "train")
    assert status_of(run) == "stopped"  # saved, not killed


def test_notes_of_several_people_at_once_are_all_kept(tmp_path):
    folder = make_session(tmp_path)
    people = [PROCESSES.Process(target=write_notes, args=(folder, name)) for name in "abcd"]
    for each in people:
        each.start()
    for each in people:
        each.join(60)
    assert len(Note.read(folder.notes)) == 80


@pytest.mark.parametrize("data", [[], {"criteria": "fast"}, [{"title": ""}], 3])
def test_criteria_that_cannot_be_read_are_refused(data):
    with pytest.raises(UsageError, match="criteri"):
        parse_criteria(data)
