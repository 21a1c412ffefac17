"""The adversarial suite: nothing gets out, and each attempt is stopped with a clear reason.

Attempts in Python take the path of an untrusted reward: allow-list, sandboxed worker, call. Those
against the kernel run in the sandboxed worker without the allow-list, as if they had bypassed it.
"""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from telic.errors import TelicError
from telic.sandbox.host import Worker, available
from telic.sandbox.limits import MEBIBYTE, Limits
from telic.sim.simulation import why_no_gpu
from telic.training.machine import device_files
from tests.sandbox import escapes_in_kernel as in_kernel
from tests.sandbox import escapes_in_python as in_python

HERE = Path(__file__).parent
SECRET = "sk-planted-in-the-host"
# Where there is a GPU, the whole suite runs with it open, as in training on it.
GPU = device_files() if why_no_gpu() is None else []
LIMITS = Limits(
    memory_bytes=(4000 if GPU else 800) * MEBIBYTE,
    disk_bytes=100 * MEBIBYTE,
    file_bytes=60 * MEBIBYTE,
    open_files=256,
    threads=300,
)


class Canary:
    """Targets that must be unchanged: a file, listening sockets, this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outside = folder / "outside.txt"
        self.outside.write_text("untouched")
        self.readable = folder / "readable.txt"
        self.readable.write_text("readable")
        self.before = self.state()
        self.visitors: list[str] = []
        self.sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self.sockets[1].bind(str(folder / "unix.sock"))
        self.sockets[1].listen()
        for each in self.sockets:
            threading.Thread(target=self._wait, args=(each,), daemon=True).start()

    def _wait(self, listening: socket.socket) -> None:
        try:
            while True:
                self.visitors.append(str(listening.accept()[1]))
        except OSError:
            return

    def facts(self) -> dict:
        return {
            "outside": str(self.outside),
            "readable": str(self.readable),
            "folder": str(self.folder),
            "home": str(Path.home()),
            "port": self.sockets[0].getsockname()[1],
            "unix": str(self.folder / "unix.sock"),
            "secret": SECRET,
        }

    def state(self) -> list:
        files = (self.outside, self.readable)
        found = [(each.read_text(), each.stat()) for each in files]
        return [(text, now.st_mode, now.st_uid, now.st_mtime) for text, now in found]

    def assert_untouched(self) -> None:
        assert self.state() == self.before
        names = {each.name for each in self.folder.iterdir()}
        assert names == {"outside.txt", "readable.txt", "unix.sock", "run"}
        assert self.visitors == []

    def close(self) -> None:
        for each in self.sockets:
            each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("canary")
    (folder / "run").mkdir()
    os.environ["TELIC_TEST_API_KEY"] = SECRET
    made = Canary(folder)
    yield made
    del os.environ["TELIC_TEST_API_KEY"]
    made.close()


def worker(
    canary: Canary, name: str, mode: str, attempts: dict[str, str], beat_s: float = 60.0
) -> Worker:
    folder = canary.folder / "run" / name
    folder.mkdir(parents=True)
    facts = {**canary.facts(), "alone": len(attempts) == 1}
    payload = {"mode": mode, "attempts": attempts, "facts": facts, "beat_s": beat_s}
    return Worker(
        "escape_harness",
        {**payload, "gpu": bool(GPU)},
        writable=[folder],
        devices=GPU,
        python_path=[HERE],
        limits=LIMITS,
    )


@pytest.fixture(scope="module")
def in_python_outcomes(canary):
    attempts = {each.name: each.source for each in in_python.ATTEMPTS}
    attempts |= dict(in_python.WITHOUT_EFFECT)
    assert len(attempts) == len(in_python.ATTEMPTS) + len(in_python.WITHOUT_EFFECT)
    run = worker(canary, "python", "allowed", attempts)
    return run.run()["outcomes"], run


@pytest.fixture(scope="module")
def confined():
    report = available()
    if {"files", "system calls"} & {part.name for part in report.missing}:
        reasons = "; ".join(f"{each.name}: {each.message}" for each in report.missing)
        pytest.skip(f"this kernel cannot confine a process: {reasons}")


@pytest.fixture(scope="module")
def in_kernel_outcomes(canary, confined):
    attempts = {each.name: each.source for each in in_kernel.ATTEMPTS}
    assert len(attempts) == len(in_kernel.ATTEMPTS)
    return worker(canary, "kernel", "raw", attempts).run()["outcomes"]


def end_of(canary: Canary, killer: tuple, mode: str) -> TelicError | None:
    name, source, _, reason = killer
    patience_s = 1.5 if "no heartbeat" in reason else 60.0
    try:
        worker(canary, f"{mode}-{name}", mode, {name: source}, patience_s).run()
    except TelicError as error:
        return error
    return None


def all_ends(canary: Canary, killers: list, mode: str) -> dict[str, TelicError | None]:
    # Each thread waits for the worker it started, so two at a time is safe.
    with ThreadPoolExecutor(2) as pool:
        ends = pool.map(lambda killer: end_of(canary, killer, mode), killers)
        return {killer[0]: end for killer, end in zip(killers, ends, strict=True)}


@pytest.fixture(scope="module")
def in_python_ends(canary):
    return all_ends(canary, in_python.KILLERS, "allowed")


@pytest.fixture(scope="module")
def in_kernel_ends(canary, confined):
    return all_ends(canary, in_kernel.KILLERS, "raw")


@pytest.mark.parametrize("attempt", in_python.ATTEMPTS, ids=lambda each: each.name)
def test_an_attempt_in_python_is_stopped_with_a_reason(attempt, in_python_outcomes, canary):
    outcome = in_python_outcomes[0][attempt.name]
    assert outcome["stage"] == attempt.stage, outcome
    assert attempt.reason in outcome["reason"], outcome
    canary.assert_untouched()


@pytest.mark.parametrize("name", [name for name, _ in in_python.WITHOUT_EFFECT])
def test_mischief_that_may_run_has_no_effect(name, in_python_outcomes):
    outcomes, run = in_python_outcomes
    assert outcomes[name]["stage"] == "ran"
    assert outcomes[name]["untouched"]
    assert run.log.stat().st_size < 2 * MEBIBYTE


@pytest.mark.parametrize("attempt", in_kernel.ATTEMPTS, ids=lambda each: each.name)
def test_an_attempt_past_the_allow_list_is_stopped_by_the_kernel(
    attempt, in_kernel_outcomes, canary
):
    outcome = in_kernel_outcomes[attempt.name]
    assert outcome["stage"] == "stopped", outcome
    assert any(reason in outcome["reason"] for reason in attempt.reasons), outcome
    canary.assert_untouched()


@pytest.mark.parametrize("killer", in_python.KILLERS, ids=lambda each: each[0])
def test_a_reward_that_never_ends_is_ended(killer, in_python_ends, canary):
    assert_end(killer, in_python_ends, canary)


@pytest.mark.parametrize("killer", in_kernel.KILLERS, ids=lambda each: each[0])
def test_an_attack_on_the_worker_itself_ends_it_with_a_reason(killer, in_kernel_ends, canary):
    assert_end(killer, in_kernel_ends, canary)


def assert_end(killer: tuple, ends: dict, canary: Canary) -> None:
    name, _, classes, reasons = killer
    end = ends[name]
    assert end is not None, "it ran to the end"
    assert type(end).__name__ in classes.split("|"), repr(end)
    assert any(reason in str(end) for reason in reasons.split("|")), str(end)
    assert SECRET not in str(end)
    canary.assert_untouched()


def test_the_suite_is_large_enough():
    stopped = (in_python.ATTEMPTS, in_python.KILLERS, in_kernel.ATTEMPTS, in_kernel.KILLERS)
    assert sum(map(len, stopped)) >= 60
