"""Record the answers of a model in a benchmark, so that it can be repeated without the model.

    python benchmarks/record.py RUNS/bench_core_... [more folders]

For every case that was run, this writes `benchmarks/recordings/CASE/replies`, from which
`telic.testing.models.Replay` answers, and `result.json` with the outcome.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent / "recordings"
_KEPT = (
    "reason",
    "reasons",
    "score",
    "low",
    "passing",
    "episodes",
    "iterations",
    "steps",
    "seconds",
)


def record(bench: Path) -> list[Path]:
    """Copy the replies and the result of every case of a benchmark, and return the folders."""
    results = {}
    if (bench / "results.json").exists():
        rows = json.loads((bench / "results.json").read_text(encoding="utf-8"))["results"]
        results = {row["case"]["id"]: row for row in rows}
    made = [
        _record(session, results.get(session.parent.name))
        for session in sorted(bench.glob("cases/*/session_*"))
        if any(session.glob("replies/*.json"))
    ]
    return made


def _record(session: Path, row: dict[str, Any] | None) -> Path:
    folder = RECORDINGS / session.parent.name
    shutil.rmtree(folder, ignore_errors=True)
    replies = folder / "replies"
    replies.mkdir(parents=True)
    roles = Counter[str]()
    for path in sorted(session.glob("replies/*.json")):
        reply = json.loads(path.read_text(encoding="utf-8"))
        roles[reply["role"]] += 1
        shutil.copyfile(path, replies / path.name)
    config = json.loads((session / "session.json").read_text(encoding="utf-8"))
    result = {
        "case": session.parent.name,
        "env": Path(config["env"]).name,  # of a file, wherever it lies
        "intent": config["intent"],
        **_ended(session / "summary.json"),
        "checks": None if row is None else row["checks"],
        "orders": dict(sorted(roles.items())),
        "commit": _commit(session),
    }
    text = json.dumps(result, indent=2) + "\n"
    (folder / "result.json").write_text(text, encoding="utf-8")
    return folder


def _ended(summary: Path) -> dict[str, Any]:
    """Return the outcome of a session. A session without a judged policy is not finished."""
    if not summary.exists():
        return {"outcome": "not_finished", **dict.fromkeys(_KEPT)}
    found = json.loads(summary.read_text(encoding="utf-8"))
    outcome = found["outcome"]
    if outcome == "stopped":
        outcome = "not_passed" if found["iterations"] else "not_finished"
    return {"outcome": outcome, **{key: found.get(key) for key in _KEPT}}


def _commit(session: Path) -> str | None:
    """Return the commit that trained the first policies, which may differ from the current one."""
    for path in sorted(session.glob("iter_*/train/manifest.json")):
        return json.loads(path.read_text(encoding="utf-8")).get("commit")
    return None


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for folder in record(Path(argument)):
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            print(f"{folder.name}: {size / 1000:.0f} kB")
