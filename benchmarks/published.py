"""Write measured rows to docs/results, from which scripts/results.py fills tables of the docs.

    python benchmarks/published.py "one NVIDIA H200" RUNS/bench_core_... [more folders]

publishes finished runs of `telic bench intents` with the machine that they ran on.

Benchmarks replace the rows of their tables if they are started with `--publish`, which is removed
from the command line. Run `python scripts/results.py` afterwards.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
IS_WANTED = "--publish" in sys.argv
sys.argv = [word for word in sys.argv if word != "--publish"]


def publish(
    name: str, rows: Iterable[dict[str, Any]], machine: str | None = None, condition: str = ""
) -> None:
    """Replace the rows of a table, with the machine, the date and the commit."""
    if not IS_WANTED:
        return
    path = ROOT / "docs" / "results" / f"{name}.json"
    facts = json.loads(path.read_text())
    facts["machine"] = machine or f"{os.cpu_count()} {platform.machine()} cores"
    facts["condition"] = condition or facts["condition"]
    facts["date"] = datetime.now(UTC).date().isoformat()
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    facts["commit"] = subprocess.run(git, capture_output=True, text=True).stdout.strip() or None
    facts["rows"] = None
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(text.replace('"rows": null', f'"rows": [\n  {lines}\n ]') + "\n")
    print(f"wrote {path.relative_to(ROOT)}")


def gpu() -> str:
    """Return the name of the GPU."""
    import torch

    return f"one {torch.cuda.get_device_name(0)}"


def intents(machine: str, folders: list[Path]) -> None:
    """Publish pass rates by suite and difficulty, and the outcome of every prompt."""
    rates, cases, times, options = [], [], [], dict[str, Any]()
    for folder in folders:
        found = json.loads((folder / "results.json").read_text())
        options = found["config"]["options"]
        waiting = len(found["waiting"])
        assert not waiting, f"{folder} has {waiting} unfinished cases; run the benchmark again"
        if found["median_seconds_to_pass"] is not None:
            times.append(f"{found['suite']} {found['median_seconds_to_pass']:.0f} s")
        for group in found["by_difficulty"]:
            rate = {
                name: group["rate"][name] for name in ("passed", "total", "share", "low", "high")
            }
            rates.append({"suite": f"{found['suite']}, {group['name']}", **rate})
        cases += [
            {"suite": found["suite"], "robot": Path(row["case"]["env"]).stem}
            | {"prompt": row["case"]["intent"], "outcome": row["outcome"]}
            | {name: row[name] for name in ("score", "low", "iterations", "seconds", "env_steps")}
            for row in found["results"]
        ]
    rewards = f"at most {options['iterations']} rewards per prompt"
    condition = f"{options['model'] or 'composer'}, {len(options['seeds'])} seeds, {rewards}"
    timed = f"{condition}; median time to a pass: {', '.join(times) or 'none'}"
    publish("intents", rates, machine, timed)
    publish("intent-cases", cases, machine, condition)


if __name__ == "__main__":
    IS_WANTED = True
    intents(sys.argv[1], [Path(folder) for folder in sys.argv[2:]])
