"""Time the commands of a study whose ledger is long; the index is what makes them quick.

    python benchmarks/study_size.py [EVENTS] [--without-index]

Two ledgers: one of notes, and one as a long study writes it (candidates, runs, looks, evidence,
decisions). Each command is a process of its own, as people start it; the first one after the ledger
was written makes the index and is told apart.
"""

from __future__ import annotations

import compileall
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.studies.core.long_ledger import Line, lengthen, life, notes
from tests.studies.launch.toy_study import make_study

import telic
from telic.studies.index import index_file

COMMANDS = (("state",), ("next", "--json"), ("queue", "step", "--json"), ("state", "--json"))
"""the last writes down every run and every piece of evidence, which are tens of megabytes"""
REPEATS = 5


class Took(NamedTuple):
    """Seconds of a command: by the clock, and of a processor where others keep it busy."""

    clock: float
    processor: float


def timed(words: tuple[str, ...], root: Path | None) -> Took:
    """Return how long a command takes as a process."""
    where = () if root is None else ("--root", str(root))
    program = [sys.executable, "-m", "telic", "study", *words, *where]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 5):
        sys.exit(f"{' '.join(words)}: {done.stderr[-1000:]}{done.stdout[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(time.perf_counter() - began, spent)


def measure(kind: Callable[[int], Iterator[Line]], events: int, home: Path) -> None:
    """Make a study with a long ledger and print how long its commands take."""
    root = home / kind.__name__
    study = make_study(root)
    lengthen(study.ledger, kind(events))
    index_file(study.folder).unlink(missing_ok=True)
    megabytes = study.folder.ledger.stat().st_size / 1e6
    print(f"{kind.__name__}: {events:,} events, {megabytes:.1f} MB")
    _say("first command (state)", timed(("state",), root))
    for words in COMMANDS:
        times = []
        for _ in range(REPEATS):
            if "--without-index" in sys.argv:
                index_file(study.folder).unlink(missing_ok=True)
            times.append(timed(words, root))
        _say(" ".join(words), min(times, key=lambda took: took.processor))
    _say("ledger verify", timed(("ledger", "verify"), root))
    _say("telic study --help", timed(("--help",), None))


def _say(what: str, took: Took) -> None:
    print(f"  {what:<24} {took.clock:6.2f} s, {took.processor:6.2f} s of a processor", flush=True)


def main() -> int:
    """Measure both ledgers."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    events = numbers[0] if numbers else 100_000
    home = Path(tempfile.mkdtemp(prefix="telic-size-"))
    os.environ["TELIC_CONFIG_DIR"] = str(home / "config")
    # as installed: else a Python that may write no bytecode would compile telic every time
    compileall.compile_dir(Path(telic.__file__).parent, quiet=1)
    try:
        for kind in (notes, life):
            measure(kind, events, home)
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
