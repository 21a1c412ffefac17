"""One writer at a time: threads, processes, and disks without kernel locks."""

import json
import os
import threading
import time

import pytest

from telic.studies import lock as leases
from telic.studies import lock as locking
from telic.studies.errors import LockTimeout
from telic.studies.ledger import Ledger
from telic.studies.lock import LockLease, has_kernel_locks, study_lock
from tests.studies.core.small import AGENT


@pytest.fixture(params=["kernel lock", "lease"])
def kind(request, monkeypatch):
    if request.param == "lease":
        monkeypatch.setattr(locking, "has_kernel_locks", lambda _: False)


def test_the_holder_may_take_it_again(tmp_path, kind):
    taken = []
    with study_lock(tmp_path / "lock"), study_lock(tmp_path / "lock", patience_s=0.1):
        taken.append("again, while it is held")
    with study_lock(tmp_path / "lock", patience_s=0.1):
        taken.append("after both were given back")
    assert len(taken) == 2


def test_another_thread_waits_and_gives_up(tmp_path, kind):
    refused = []

    def other():
        try:
            with study_lock(tmp_path / "lock", patience_s=0.1):
                pass
        except LockTimeout as error:
            refused.append(error)

    with study_lock(tmp_path / "lock"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    (error,) = refused
    assert (error.code, error.exit_code) == ("E_LOCK", 6)


def test_a_lock_is_given_back_after_an_error(tmp_path, kind):
    with pytest.raises(ZeroDivisionError), study_lock(tmp_path / "lock"):
        raise ZeroDivisionError
    with study_lock(tmp_path / "lock", patience_s=0.1):
        pass


def test_threads_never_hold_it_together(tmp_path, kind):
    inside, most = [], []

    def work():
        for _ in range(10):
            with study_lock(tmp_path / "lock", patience_s=60):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(most) == {1}
    assert len(most) == 40


def dead_lease(path, **changes):
    owner = {
        "host": os.uname().nodename,
        "pid": 2**22 + 1,
        "boot_id": leases.boot_id(),
        "start_time": 1.0,
        "expires": time.time() + 60,
        "token": "old",
    }
    beside = path.with_name("beside")
    beside.write_text(json.dumps({**owner, **changes}))
    beside.replace(path)


@pytest.mark.parametrize(
    "changes",
    [{}, {"boot_id": "another", "pid": os.getpid()}, {"host": "far", "expires": time.time() - 1}],
    ids=["no such process", "machine restarted", "expired"],
)
def test_a_dead_owners_lease_is_broken_and_noted(study, monkeypatch, changes):
    monkeypatch.setattr(locking, "has_kernel_locks", lambda _: False)
    dead_lease(study.folder.lock.with_name(study.folder.lock.name + ".lease"), **changes)
    Ledger(study.folder).append("note.added", None, {"text": "mine"}, AGENT)
    texts = [each.data["text"] for each in Ledger(study.folder).events()[-2:]]
    assert texts[0].startswith("broke the lock of process")
    assert texts[1] == "mine"


def test_a_living_owners_lease_is_respected(tmp_path):
    path = tmp_path / "lock.lease"
    dead_lease(path, host="far")
    lease = LockLease(path)
    assert not lease.try_take()
    assert lease.break_if_dead() is None
    assert path.exists()


def test_a_lease_is_renewed_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "RENEW_S", 0.02)
    lease = LockLease(tmp_path / "lock.lease")
    assert lease.try_take()
    first = json.loads(lease.path.read_text())["expires"]
    deadline = time.monotonic() + 5
    while json.loads(lease.path.read_text())["expires"] == first:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lease.give_back()
    assert list(tmp_path.iterdir()) == []


def test_local_disks_have_kernel_locks(tmp_path):
    assert has_kernel_locks(tmp_path)


def test_a_lease_that_somebody_else_took_over_stays_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "RENEW_S", 0.01)
    lease = LockLease(tmp_path / "lock.lease")
    assert lease.try_take()
    dead_lease(lease.path, host="far")
    time.sleep(0.1)
    lease.give_back()
    assert json.loads(lease.path.read_text())["host"] == "far"
