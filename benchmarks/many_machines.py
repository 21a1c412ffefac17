"""Simulate the load of 1,000 nodes and 1,000,000 runs on the job table and its driver.

    python benchmarks/many_machines.py                  measure the costs here, then simulate
    python benchmarks/many_machines.py --costs 3,2,4,1  simulate with given costs in milliseconds

First, the real code is timed on this disk: submitting, starting and settling a job, processing a
heartbeat, and reading a job for `telic jobs`. Then nodes, jobs and the driver are simulated, where
the driver is a server with a queue. The results are the utilization of nodes and driver, and the
delay of heartbeats. If the delay exceeds the timeout of a place, live jobs are considered dead.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from telic.jobs._ray_cluster import AttemptMessage, _deliver, _Task
from telic.jobs.board import JobBoard
from telic.jobs.process import HEARTBEAT_S
from telic.jobs.spec import JobAttempt, JobHeartbeat, JobSpec
from telic.storage.files import write_json

SILENCE_S = 60.0
SIMULATED_S = 300.0
COUNT = 200


class Costs(NamedTuple):
    """Costs of the driver in seconds."""

    submit: float
    start: float
    """cost of starting and settling a job"""
    beat: float
    read: float
    """cost of reading one job for a list"""
    bytes: float
    """bytes that a job leaves in the table"""


def measure() -> Costs:
    """Time the job table and the messages on this disk."""
    with tempfile.TemporaryDirectory() as path:
        board = JobBoard(Path(path))
        specs = [
            JobSpec(name=f"job_{n}", argv=("python", "-c", "pass"), cwd=path, key=f"{n:064d}")
            for n in range(COUNT)
        ]
        submit, taken = _timed(lambda: [board.take(spec, "ray") for spec in specs])
        attempt = JobAttempt(number=1, started=time.time())

        def settle() -> None:
            for _, record in taken:
                for state in ("running", "done"):
                    changed = record.model_copy(update={"state": state, "attempts": (attempt,)})
                    write_json(board.folder(record.name).record, changed)

        start, _ = _timed(settle)
        alive = JobHeartbeat(time=time.time(), node="node", pid=1).model_dump_json()

        def hear() -> None:
            for spec, record in taken:
                letter = AttemptMessage(record.name, 1, alive, b"a line\n", None)
                _deliver(letter, _Task(None, 1, board.folder(record.name), spec))

        beat, _ = _timed(hear)
        read, _ = _timed(board.lines)
        size = sum(file.stat().st_blocks * 512 for file in Path(path).rglob("*"))
    return Costs(*(each / COUNT for each in (submit, start, beat, read, size)))


def database(files: Costs) -> Costs:
    """Time the same writes as rows of SQLite, with a hundred jobs per transaction."""
    with tempfile.TemporaryDirectory() as path:
        base = sqlite3.connect(Path(path) / "jobs.sqlite", isolation_level=None)
        base.execute("pragma journal_mode=wal")
        base.execute("create table job (name text primary key, key text, record text)")
        text = JobAttempt(number=1, started=0.0).model_dump_json() * 4
        rows = [(f"job_{n}", f"{n:064d}", text) for n in range(100 * COUNT)]

        def write(statement: str, values: list[Any]) -> None:
            for first in range(0, len(values), 100):
                base.execute("begin")
                base.executemany(statement, values[first : first + 100])
                base.execute("commit")

        submit, _ = _timed(lambda: write("insert into job values (?, ?, ?)", rows))
        changed = [(text, name) for name, _, _ in rows]
        start, _ = _timed(lambda: write("update job set record = ? where name = ?", changed * 2))
        read, _ = _timed(lambda: base.execute("select * from job").fetchall())
        size = (Path(path) / "jobs.sqlite").stat().st_size
        base.close()
    count = len(rows)
    return Costs(submit / count, start / count, files.beat, read / count, size / count)


def _timed(work: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


class Simulated(NamedTuple):
    """Result for a number of nodes."""

    nodes: int
    job_s: float
    nodes_busy: float
    driver_busy: float
    beat_late_s: float
    """99th percentile of the heartbeat delay at the end"""
    taken_for_dead: bool


def simulate(nodes: int, job_s: float, costs: Costs) -> Simulated:
    """Simulate nodes with one job each and a single driver.

    Args:
        nodes: number of concurrent jobs.
        job_s: mean of the exponentially distributed job duration.
        costs: costs of the driver.
    """
    dice = random.Random(0)
    events: list[tuple[float, int, str]] = []  # time, node, what
    for node in range(nodes):
        heapq.heappush(events, (dice.random() * HEARTBEAT_S, node, "free"))
    driver_free, driver_s, worked_s, late = 0.0, 0.0, 0.0, list[float]()
    ends = [0.0] * nodes
    while events and events[0][0] < SIMULATED_S:
        now, node, what = heapq.heappop(events)
        if what == "beat" and now >= ends[node]:
            what = "free"
        # The driver takes it as soon as it has done what came before.
        begin = max(now, driver_free)
        is_beat = what == "beat"
        cost = costs.beat if is_beat else costs.start + costs.submit
        driver_free = begin + cost
        driver_s += cost
        if is_beat:
            late.append(driver_free - now)
            heapq.heappush(events, (min(now + HEARTBEAT_S, ends[node]), node, "beat"))
        else:
            length = dice.expovariate(1 / job_s)
            ends[node] = driver_free + length
            worked_s += max(0.0, min(length, SIMULATED_S - driver_free))
            heapq.heappush(events, (min(driver_free + HEARTBEAT_S, ends[node]), node, "beat"))
    last = sorted(late[-max(1, len(late) // 5) :]) or [0.0]
    delay = last[int(0.99 * (len(last) - 1))]
    return Simulated(
        nodes=nodes,
        job_s=job_s,
        nodes_busy=round(worked_s / (nodes * SIMULATED_S), 3),
        driver_busy=round(min(1.0, driver_s / SIMULATED_S), 3),
        beat_late_s=round(delay, 3),
        taken_for_dead=delay > SILENCE_S,
    )


def _shown(costs: Costs) -> dict[str, float]:
    times = {f"{name}_ms": round(1000 * value, 4) for name, value in costs._asdict().items()}
    del times["bytes_ms"]
    return {**times, "bytes": round(costs.bytes)}


def main() -> None:
    """Measure, simulate, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--costs", help="costs submit,start,beat,read in milliseconds (measured by default)"
    )
    asked = parser.parse_args()
    if asked.costs:
        given = [float(each) / 1000 for each in asked.costs.split(",")]
        costs = Costs(*given, bytes=0.0)
    else:
        costs = measure()
    rows = [
        simulate(nodes, job_s, costs)._asdict()
        for job_s in (60.0, 600.0)
        for nodes in (10, 100, 300, 1000, 3000)
    ]
    base = database(costs)
    others = [simulate(nodes, 60.0, base)._asdict() for nodes in (300, 1000, 3000, 10_000)]
    million = {
        "submitting_s": round(1e6 * costs.submit),
        "listing_s": round(1e6 * costs.read),
        "board_gb": round(1e6 * costs.bytes / 1e9, 1),
    }
    result = {
        "costs": _shown(costs),
        "one_driver": rows,
        "a_million_jobs": million,
        "database": _shown(base),
        "one_driver_with_a_database": others,
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
