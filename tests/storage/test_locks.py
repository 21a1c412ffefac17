"""One process at a time writes to a run."""

import os
import shutil
import subprocess
import sys

import pytest

from telic.errors import Refused
from telic.storage.locks import RunLock, lock_holder


def test_a_lock_is_refused_with_the_number_of_its_holder_and_dies_with_it(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from telic.storage.locks import RunLock\n"
        "RunLock(Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        assert lock_holder(path) == holder.pid
        with pytest.raises(Refused, match=f"run 1 is in use: process {holder.pid}"):
            RunLock(path, name="run 1").acquire()
        holder.kill()
        holder.wait()
    assert lock_holder(path) is None
    with RunLock(path):
        assert lock_holder(path) == os.getpid()
    assert lock_holder(path) is None
    assert lock_holder(tmp_path / "never") is None


def test_a_lock_that_went_with_its_folder_is_not_held(tmp_path):
    """A waiter must lock the new file if the holder removes the folder."""
    folder = tmp_path / "run"
    first = RunLock(folder / "lock")
    first.acquire()
    shutil.rmtree(folder)
    with RunLock(folder / "lock"), pytest.raises(Refused, match="in use"):
        RunLock(folder / "lock").acquire()
    first.release()
