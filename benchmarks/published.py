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
import statistics
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
    facts["machine"] = (
        f"{os.cpu_count()} {platform.machine()} cores" if machine is None else machine
    )
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
    """Publish the outcomes of finished prompts, and the pass rate of every complete group.

    A campaign can take several runs: each replaces the rows of its own prompts.
    """
    from telic.bench.results import FINAL, PassRate, load_suite

    cases = {(row["suite"], row["id"]): row for row in published_rows("intent-cases")}
    rates = {row["suite"]: row for row in published_rows("intents")}
    conditions: set[str] = set()
    for folder in folders:
        config = json.loads((folder / "bench.json").read_text())
        options, suite = config["options"], config["suite"]
        rewards = f"at most {options['iterations']} rewards per prompt"
        conditions.add(
            f"{options['model'] or 'composer'}, {len(options['seeds'])} seeds, {rewards}"
        )
        for line in (folder / "results.jsonl").read_text().splitlines():
            result = json.loads(line)
            case = result["case"]
            if result["outcome"] not in FINAL:
                continue
            cases[suite, case["id"]] = (
                {"suite": suite, "id": case["id"], "difficulty": case["difficulty"]}
                | {"robot": Path(case["env"]).stem, "prompt": case["intent"], "machine": machine}
                | {name: result[name] for name in ("outcome", "score", "low")}
                | {name: result[name] for name in ("iterations", "seconds", "env_steps")}
            )
    ordered: list[dict[str, Any]] = []
    for name in sorted({suite for suite, _ in cases}):
        groups: dict[str, list[dict[str, Any] | None]] = {}
        for case in load_suite(name).case:
            title = f"{name}, {case.difficulty}" if name == "core" else name
            groups.setdefault(title, []).append(cases.get((name, case.id)))
            ordered += [row for row in groups[title][-1:] if row is not None]
        for title, rows in groups.items():
            complete = [row for row in rows if row is not None]
            if len(complete) == len(rows):
                passes = [row["seconds"] for row in complete if row["outcome"] == "passed"]
                rates[title] = PassRate.of(len(passes), len(rows)).model_dump() | {
                    "suite": title,
                    "seconds": statistics.median(passes) if passes else None,
                    "machine": ", ".join(sorted({row["machine"] for row in complete})),
                }
    publish("intents", rates.values(), "")
    publish("intent-cases", ordered, "", "; ".join(sorted(conditions)))


def published_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())["rows"]


if __name__ == "__main__":
    IS_WANTED = True
    intents(sys.argv[1], [Path(folder) for folder in sys.argv[2:]])
