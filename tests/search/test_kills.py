"""A search of several processes that is killed again and again comes to the same bytes."""

import subprocess
import sys
import time

import pytest

from tests.search.kills import is_alive, run_kills

_FAMILY = """
import os, time
from telic.search.runner import _belong_to
parent = os.getpid()
if not os.fork():
    _belong_to(parent)
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_worker_ends_with_the_process_that_started_it():
    parent = subprocess.Popen([sys.executable, "-c", _FAMILY], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    assert is_alive(worker)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while is_alive(worker):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.stdout.close()


@pytest.mark.slow
def test_three_kills_change_no_byte(tmp_path):
    assert run_kills(3, 3, tmp_path, episodes=400)["kills"] == 3


@pytest.mark.long
def test_fifty_kills_change_no_byte(tmp_path):
    seen = run_kills(50, 17, tmp_path, episodes=2000)
    print(dict(seen))
    assert seen["kills"] == 50 and seen["kills with work done"] > 10
