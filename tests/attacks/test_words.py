"""Hostile command lines: a documented exit code, one paragraph, and work that is as it was."""

import os
import random
import re
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.errors import Refused, TelicError
from tests.attacks.files import digest, unpack
from tests.attacks.test_files import SEED, Hang, limited
from tests.attacks.words import all_verbs, command_line, odd_files

EXIT_CODES = set(range(9))
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
WORKS = (
    *(
        "telic.training.run.execute",
        "telic.training.policy.commanded_episode",
        "telic.training.videos.play_run",
    ),
    *(
        "telic.session.loop.run_session",
        "telic.session.loop.resume_session",
        "telic.search.runner.run_search",
    ),
    "telic.bench.intents.bench_intents",
    *("telic.studies.launch.launch.launch", "telic.training.export.bundle.export_run"),
    *("telic.verbs.study.prove_adapter", "telic.tracking.train.train_tracker"),
)
CHANGES = ("delete", "restore", "stop", "pause", "note", "approve", "branch", "report")
"""verbs that are asked to change something, so that a good line may"""


def stub(*given, **named):
    raise Refused("The work itself is not done in this test.")


@pytest.fixture
def stubbed(monkeypatch):
    import importlib

    for path in WORKS:
        module, _, name = path.rpartition(".")
        if hasattr(importlib.import_module(module), name):
            monkeypatch.setattr(path, stub)
    monkeypatch.setattr("telic.sandbox.host.Worker.run", stub)


def attack(home: Path, count: int, seed: int) -> tuple[Counter, list[str]]:
    unpack(home)
    odd = odd_files(home / "odd")
    broken = home / "runs" / "damaged"
    broken.mkdir()
    (broken / "config.json").write_text("[]")
    rng, runner, verbs = random.Random(seed), CliRunner(), all_verbs()
    place = ["--runs-dir", "runs", "--root", "repository"]
    os.environ["TELIC_CONFIG_DIR"] = str(home / "config")
    summary, faults = Counter(), []
    there = psutil.Process().children(recursive=True)
    before = _kept(home)
    for _ in range(count):
        words = command_line(rng, verbs, odd, place)
        try:
            with limited():
                done = runner.invoke(app, words)
        except Hang:
            faults.append(f"{words!r:.300}: hangs")
            continue
        summary[done.exit_code] += 1
        error = done.exception
        if error is not None and not isinstance(error, SystemExit | TelicError):
            trace = error.__traceback__
            while (
                trace and trace.tb_next and "/telic/" in trace.tb_next.tb_frame.f_code.co_filename
            ):
                trace = trace.tb_next
            at = trace and f"{trace.tb_frame.f_code.co_filename[-40:]}:{trace.tb_lineno}"
            faults.append(f"{words!r:.300}: {type(error).__name__} {error!s:.120} at {at}")
        elif done.exit_code not in EXIT_CODES:
            faults.append(f"{words!r:.300}: exit code {done.exit_code}")
        if "Traceback" in done.output or UNSEEN.search(done.output):
            faults.append(f"{words!r:.300}: shows {UNSEEN.findall(done.output)[:3]}")
        if words[0] not in CHANGES and words[0] != "study":
            now = _kept(home)
            if any(now.get(name) != value for name, value in before.items()):
                faults.append(f"{words!r:.300}: changed work")
            before = now
        else:
            before = _kept(home)
    here = psutil.Process().children(recursive=True)
    left = [each for each in here if each not in there and each.is_running()]
    faults += [f"left running: {each}" for each in left if each.status() != psutil.STATUS_ZOMBIE]
    return summary, faults


def _kept(home: Path) -> dict[str, str]:
    """Return the files of runs, but for locks, which tell who looked."""
    return {name: value for name, value in digest(home / "runs").items() if "lock" not in name}


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("TERM", "dumb")
    before = signal.getsignal(signal.SIGINT)
    yield tmp_path
    signal.signal(signal.SIGINT, before)


def test_a_hostile_command_line_ends_in_a_sentence(at_home, stubbed):
    summary, faults = attack(at_home, 150, SEED)
    assert not faults, "\n".join(faults[:20])
    assert summary[2], summary


@pytest.mark.long
def test_five_thousand_hostile_command_lines_end_in_sentences(at_home, stubbed):
    summary, faults = attack(at_home, 5_000, 1000 + SEED)
    print(dict(summary))
    assert not faults, f"{len(faults)} of {dict(summary)}:\n" + "\n".join(faults[:40])
