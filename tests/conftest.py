"""Shared by all tests: fixed random seeds and separate CPU cores."""

import gc
import os
import random

import numpy as np
import pytest
import torch

from telic.sandbox import fork_server
from telic.sandbox.fork_server import prewarmed
from telic.session import WORKERS


def pytest_configure():
    """Assign separate cores to each test process, so that none waits for another."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number and hasattr(os, "sched_setaffinity"):
        everyone = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        own = sorted(os.sched_getaffinity(0))[int(number) :: everyone]
        os.sched_setaffinity(0, own or os.sched_getaffinity(0))
    gc.disable()  # until all tests are collected: a million objects come, and none of them goes


def pytest_collection_finish():
    """Never look again at what importing and collecting made, whenever garbage is collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def same_random_numbers():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def quick_workers():
    """Have one process import for all workers that the tests start in this one."""
    with prewarmed(WORKERS):
        yield


@pytest.fixture(autouse=True, scope="session")
def quick_disk():
    """Wait for no disk: no test cuts the power, and there are ten thousands of small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def no_fork_server(monkeypatch):
    """Start workers as everybody does who is alone."""
    monkeypatch.setattr(fork_server, "_shared", type(fork_server._shared)())


@pytest.fixture(autouse=True, scope="session")
def own_cores(tmp_path_factory):
    """Prevent sessions in tests from waiting for other sessions on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        # Nor sign with the user's own key.
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        # Work ahead of need pays when processors idle, which they do not while tests run.
        patch.setattr("telic.session._training.choose_backend", lambda: None)
        yield
