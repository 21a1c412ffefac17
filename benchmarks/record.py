"""Record the answers of a model in a benchmark, so that it can be repeated without the model.

    python benchmarks/record.py RUNS/bench_core_... [more folders]
    python benchmarks/record.py --publish "two x86 cores" RUNS/bench_core_... [more folders]

For every case that was run, this writes `benchmarks/recordings/CASE/replies`, from which
`telic.testing.models.Replay` answers, and `result.json` with the outcome. With `--publish`, it
records only the sessions that passed, and writes the outcomes of all of them to
docs/results/model-sessions.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from published import IS_WANTED, publish

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


def record(bench: Path) -> list[dict[str, Any]]:
    """Copy the replies and the result of every case of a benchmark, and return the results.

    Of a benchmark that is published, only sessions that passed are copied.
    """
    results = {}
    if (bench / "results.json").exists():
        rows = json.loads((bench / "results.json").read_text(encoding="utf-8"))["results"]
        results = {row["case"]["id"]: row for row in rows}
    made = []
    for session in sorted(bench.glob("cases/*/session_*")):
        if any(session.glob("replies/*.json")):
            result = _result(session, results.get(session.parent.name))
            made.append(result)
            if not IS_WANTED or result["outcome"] == "passed":
                _copy(session, result)
    return made


def _copy(session: Path, result: dict[str, Any]) -> None:
    folder = RECORDINGS / session.parent.name
    shutil.rmtree(folder, ignore_errors=True)
    replies = folder / "replies"
    replies.mkdir(parents=True)
    for path in sorted(session.glob("replies/*.json")):
        shutil.copyfile(path, replies / path.name)
    text = json.dumps(result, indent=2) + "\n"
    (folder / "result.json").write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder.name}: {size / 1000:.0f} kB")


def _result(session: Path, row: dict[str, Any] | None) -> dict[str, Any]:
    replies = [json.loads(x.read_text(encoding="utf-8")) for x in session.glob("replies/*.json")]
    roles = Counter[str](reply["role"] for reply in replies)
    orders = [path.read_text(encoding="utf-8") for path in session.glob("orders/*.md")]
    config = json.loads((session / "session.json").read_text(encoding="utf-8"))
    return {
        "case": session.parent.name,
        "env": Path(config["env"]).name,  # of a file, wherever it lies
        "intent": config["intent"],
        **_ended(session / "summary.json"),
        **({"checks": None} if row is None else {key: row[key] for key in ("outcome", "checks")}),
        "orders": dict(sorted(roles.items())),
        "tokens": sum(map(len, orders)) // 4 or None,  # four characters of text are about a token
        "commit": _commit(session),
    }


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
    machine, *folders = sys.argv[1:] if IS_WANTED else ["", *sys.argv[1:]]
    rows = [result for folder in folders for result in record(Path(folder))]
    publish("model-sessions", rows, machine)
