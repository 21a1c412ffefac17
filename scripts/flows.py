"""Count the files between a command and its work, based on the call stack.

    python scripts/flows.py            four small flows: train, run, search, study run
    python scripts/flows.py train      one of them, with the files by name

The files of a flow are those of telic on the call stack at the moment when the work begins: the
gradient of a training, the training of a session, the rollouts of a search, or the process of a
study's run. Training uses a separate process, so its two halves are measured one after the other.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "telic"
WANTED = {"train": 8, "run": 15, "search": 10, "study run": 15}


class Arrived(BaseException):
    """Raised when the work has begun, with the files on the stack."""


def is_importing(frame: FrameType | None) -> bool:
    """Return whether a stack is only importing modules, which is not yet the work."""
    while frame is not None:
        if "importlib._bootstrap" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def telic_files(frame: FrameType | None) -> list[str]:
    """Return the files of telic on a stack without duplicates, outermost first."""
    names: list[str] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SOURCE):
            names.append(str(path.relative_to(SOURCE)))
        frame = frame.f_back
    return list(dict.fromkeys(reversed(names)))


def files_until(file: str, work: Callable[[], Any]) -> list[str]:
    """Run some work until a function in `file` is called, and return the files on the way."""
    way: list[str] = []
    target = str(SOURCE / file)

    def look(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        is_there = code.co_filename == target and not code.co_name.startswith("<")
        if event == "call" and is_there and not way and not is_importing(frame):
            way.extend(telic_files(frame))
            sys.setprofile(None)
            raise Arrived

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        work()
    except (Arrived, SystemExit):
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return way


def files_until_process(work: Callable[[], Any]) -> list[str]:
    """Run some work until it starts a Python process, and return the files on the way."""
    way: list[str] = []

    def look(event: str, details: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen" or way or "python" not in Path(str(details[0])).name:
            return
        frame = sys._getframe(1)
        if is_importing(frame):
            return
        way.extend(telic_files(frame))
        raise Arrived

    sys.addaudithook(look)
    with suppress(Arrived, SystemExit):
        work()
    return way


def command(*words: str) -> None:
    """Run a command of telic in this process."""
    from telic.__main__ import main

    sys.argv = ["telic", *words]
    main()


def train(folder: Path) -> list[str]:
    """Return the files from `telic train` to the gradient."""
    import telic

    words = ("InvertedPendulum-v5", "--steps", "2048", "--runs-dir", str(folder))
    outside = files_until_process(lambda: command("train", *words, "--videos", "none"))
    inside = files_until(
        "training/ppo.py",
        lambda: telic.train(
            "InvertedPendulum-v5", steps=2048, runs_dir=folder, confined=False, videos="none"
        ),
    )
    return list(dict.fromkeys([*outside, *inside[_where(inside, "training/run.py") :]]))


def run(folder: Path) -> list[str]:
    """Return the files from `telic run` to the start of its training."""
    words = ("keep the pole upright", "--env", "InvertedPendulum-v5", "--runs-dir", str(folder))
    return files_until("training/run.py", lambda: command("run", *words))


def search(folder: Path) -> list[str]:
    """Return the files from `telic search` to the rollouts."""
    words = ("--env", "CartPole-v1", "--method", "cma", "--runs", "1", "--runs-dir", str(folder))
    return files_until("search/task.py", lambda: command("search", *words))


def study_run(folder: Path) -> list[str]:
    """Return the files from `telic study run` to the process that it starts, in a toy study."""
    sys.path.insert(0, str(ROOT))
    os.environ["TELIC_CONFIG_DIR"] = str(folder / "config")
    from tests.studies.toy.driver import ToyStudy
    from tests.studies.toy.interfaces import CommandLine

    root = folder / "repository"
    study = ToyStudy(CommandLine(root), root)
    study.begin()
    study.door.agent("adapter", "--smoke", "--confirm", "RUN_CANDIDATE")
    words = ("study", "run", "--root", str(root), "--confirm", "RUN_CANDIDATE", "--json")
    return files_until_process(lambda: command(*words))


FLOWS = {"train": train, "run": run, "search": search, "study run": study_run}


def main() -> None:
    """Print the table, or the files of one flow."""
    wanted = sys.argv[1:]
    if wanted:
        _one(" ".join(wanted))
    print(f"{'flow':<12}{'files':>6}{'wanted':>8}")
    for name in FLOWS:
        # A process each: a flow ends in the middle of its work.
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(writer, 1)
            _one(name)
        os.close(writer)
        with os.fdopen(reader) as lines:
            files = [line.strip() for line in lines if line.startswith("  ")]
        os.waitpid(child, 0)
        print(f"{name:<12}{len(files) or '–':>6}{WANTED[name]:>8}")


def _one(name: str) -> NoReturn:
    folder = Path(tempfile.mkdtemp())
    screen = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    files: list[str] = []
    try:
        files = FLOWS[name](folder)
    except BaseException:  # a child must not return to the loop of its parent
        traceback.print_exc()
    shutil.rmtree(folder, ignore_errors=True)
    with os.fdopen(screen, "w") as out:
        out.write(f"{name}: {len(files)} files\n" + "".join(f"  {each}\n" for each in files))
    os._exit(0 if files else 1)


def _where(files: list[str], name: str) -> int:
    return files.index(name) if name in files else 0


if __name__ == "__main__":
    main()
