"""What every test shares: the same random numbers each time, and processors of its own."""

import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from telic.sandbox import host
from tests.zygote import Zygote


@pytest.fixture(autouse=True)
def same_random_numbers():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def zygote():
    forking = Zygote()
    yield forking
    forking.close()


@pytest.fixture(autouse=True)
def quick_workers(request, zygote, monkeypatch):
    """Fork the workers that a test starts in this process, but for tests of the sandbox itself."""
    if "tests/sandbox" not in request.node.path.as_posix() and not any(
        request.node.iter_markers("gpu")
    ):
        monkeypatch.setattr(host, "start_interpreter", zygote.start)


@pytest.fixture(autouse=True, scope="session")
def own_processors(tmp_path_factory):
    """Let no session in a test wait for one that somebody else runs on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        # Work ahead of need pays when processors idle, which they do not while tests run.
        patch.setattr("telic.session.loop.prewarmed", lambda modules: nullcontext())
        patch.setattr("telic.session.training.choose_backend", lambda: None)
        yield
