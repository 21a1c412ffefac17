"""Print the time of each stage of a session, from the prompt to the report.

    python benchmarks/words_to_pass.py             run the command of `make run`, and measure it
    python benchmarks/words_to_pass.py SESSION     measure a finished session

The times are read from the events of a session and from the files that it writes after the verdict.
The time before the first event is known only for a session that was started here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = ("run", "run forward fast", "--env", "HalfCheetah-v5")
TRAINING = "training"


class Span(NamedTuple):
    """Stage of a session, in seconds."""

    what: str
    seconds: float


def spans(session: Path, began: float | None = None, ended: float | None = None) -> list[Span]:
    """Return the stages of a session in order."""
    events = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    first = {event["event"]: event["time"] for event in reversed(events)}
    last = {event["event"]: event["time"] for event in events}
    whole = last["train.end"] - first["train.start"]
    evaluated, judged = _evaluated(events), _judged(events)
    parts = [
        ("Python and its packages", began, first["session.start"]),
        ("the words are read", first["session.start"], first["session.asked"]),
        ("judge and reward are tried", first["session.asked"], first["session.tried"]),
        ("the worker starts, the reward is probed", first["session.tried"], first["train.start"]),
        (TRAINING, 0.0, whole - evaluated - judged),
        ("evaluations during training", 0.0, evaluated),
        ("the last judging, which training waits for", 0.0, judged),
        ("the verdict is written", last["train.end"], last["session.judged"]),
        *_after(session, last["session.judged"], ended),
    ]
    return [Span(what, end - begin) for what, begin, end in parts if begin is not None]


def _evaluated(events: list[dict[str, Any]]) -> float:
    return sum(event["seconds"] for event in events if event["event"] == "eval.done")


def _judged(events: list[dict[str, Any]]) -> float:
    """Return the seconds from the last scores to the end of the training that they ended."""
    times = [event["time"] for event in events if event["event"] == "session.checkpoint"]
    end = max(event["time"] for event in events if event["event"] == "train.end")
    return end - times[-1] if times else 0.0


def _after(
    session: Path, judged: float, ended: float | None
) -> list[tuple[str, float | None, float]]:
    """Return the stages after the verdict, based on the files that they write."""
    films = [path.stat().st_mtime for path in session.glob("report/*")]
    files = {
        "a certificate is written": session / "certificate.json",
        "the robustness card is measured": session / "robustness.json",
    }
    times = {what: path.stat().st_mtime for what, path in files.items() if path.exists()}
    if films:
        times["videos and strips of pictures"] = max(films)
    times["report, seal, summary"] = (session / "summary.json").stat().st_mtime
    if ended is not None:
        times["the command leaves"] = ended
    rows: list[tuple[str, float | None, float]] = []
    before = judged
    for what, end in sorted(times.items(), key=lambda item: item[1]):
        rows.append((what, before, end))
        before = end
    return rows


def started() -> list[Span]:
    """Run the command of `make run` in a separate folder, and return its stages."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        program = [sys.executable, "-m", "telic", *COMMAND, "--runs-dir", folder]
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
        (session,) = Path(folder).glob("session_*")
        return spans(session, began, time.time())


def main() -> None:
    """Print the table."""
    parts = spans(Path(sys.argv[1])) if len(sys.argv) > 1 else started()
    whole = sum(part.seconds for part in parts)
    for part in parts:
        print(f"  {part.what:<44} {part.seconds:7.1f} s {part.seconds / whole:5.0%}")
    rest = sum(part.seconds for part in parts if part.what != TRAINING)
    print(f"  {'in all':<44} {whole:7.1f} s, {rest:.1f} s of it not training")


if __name__ == "__main__":
    main()
