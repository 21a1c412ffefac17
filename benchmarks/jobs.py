"""Run many small jobs on a Ray cluster of two nodes, one of which is killed.

    python benchmarks/jobs.py                       1,000 jobs, node killed after half of them
    python benchmarks/jobs.py --count 100 --whole   no node is killed

Both nodes are processes of this machine on loopback and share nothing: each job receives a file and
returns one. Jobs that finish append to a log, which distinguishes jobs that ran twice from jobs
that counted twice. The same processes are also run without the cluster, two at a time. The
difference is the overhead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telic.core.events import Event, LogMessage
from telic.jobs.launcher import read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobRecord, JobSpec

STORE_BYTES = 80 * 2**20
LOOPBACK = "127.0.0.2"
"""address other than .1, which Ray would replace by an external address"""
JOB = """
import pathlib, sys, time
name, witness = sys.argv[1:]
time.sleep(0.1)
given = pathlib.Path("given.txt").read_text()
out = pathlib.Path("out") / f"{name}.txt"
out.parent.mkdir(exist_ok=True)
out.write_text(f"{given} {name}")
with open(witness, "a") as ends:
    ends.write(name + "\\n")
"""


@contextmanager
def two_nodes(client_port: int | None = None, *, spare: int = 0) -> Generator[Any]:
    """Yield a Ray cluster on loopback and its second node, with one CPU each.

    With spare nodes, the head runs no jobs, and that many further nodes do.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "node_ip_address": LOOPBACK}
    head = {**small, "include_dashboard": False, "num_cpus": 0 if spare else 1}
    if client_port is not None:
        head["ray_client_server_port"] = client_port
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [cluster.add_node(**small) for _ in range(1 + spare)]
        yield cluster, nodes[0]
    finally:
        cluster.shutdown()


def specs(count: int, folder: Path) -> list[JobSpec]:
    """Return jobs that each read one file and write one file."""
    (folder / "given.txt").write_text("given")
    names = [f"small_{index:04d}" for index in range(count)]
    return [
        JobSpec(
            name=name,
            argv=("python", "-c", JOB, name, str(folder / "witness")),
            cwd=str(folder),
            folder="out",
            sends=("given.txt",),
        )
        for name in names
    ]


def bare_seconds(count: int) -> float:
    """Return the duration of the same processes, two at a time and without jobs."""
    with tempfile.TemporaryDirectory() as path:
        every = specs(count, Path(path))
        began = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda spec: subprocess.run(spec.words(), cwd=path, check=True), every))
        return time.perf_counter() - began


def measure(count: int, *, kill: bool) -> dict[str, Any]:
    """Run the jobs, and return their outcomes."""
    told: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, LogMessage):
            told.append(event.message)

    with tempfile.TemporaryDirectory() as path, two_nodes() as (cluster, second):
        folder = Path(path)
        place = read_place("ray").replace(address=cluster.address)
        with JobPool(place, folder / "runs", on_event=hear) as pool:
            began = time.perf_counter()
            futures = [pool.submit(spec) for spec in specs(count, folder)]
            submitted_s = time.perf_counter() - began
            killed_at = _kill_in_the_middle(cluster, second, futures) if kill else None
            records = [future.result() for future in futures]
            seconds = time.perf_counter() - began
        ends = Counter((folder / "witness").read_text().split())
        home = {each.stem: each.read_text() for each in (folder / "out").iterdir()}
    return {
        "jobs": count,
        "settled_when_killed": killed_at,
        "done": sum(record.state == "done" and record.code == 0 for record in records),
        "lost": sum(record.state != "done" for record in records),
        "settled_twice": _settled_twice(records),
        "wrong_at_home": sum(home.get(each.name) != f"given {each.name}" for each in records),
        "tried_again": sum(len(record.attempts) > 1 for record in records),
        "ran_to_their_end_twice": sum(number > 1 for number in ends.values()),
        "reasons": dict(Counter(_reason(each) for each in told)),
        "by_node": dict(Counter(record.attempts[-1].node for record in records)),
        "submitted_s": round(submitted_s, 2),
        "seconds": round(seconds, 2),
    }


def _settled_twice(records: Sequence[JobRecord]) -> int:
    """Count the jobs with more than one accepted attempt."""
    return sum(
        sum((attempt.ended or "").startswith("code") for attempt in record.attempts) > 1
        for record in records
    )


def _kill_in_the_middle(cluster: Any, node: Any, futures: Sequence[Future[JobRecord]]) -> int:
    while (done := sum(future.done() for future in futures)) < len(futures) // 2:
        time.sleep(0.01)
    cluster.remove_node(node, allow_graceful=False)
    return done


def _reason(message: str) -> str:
    """Return a message without the job's name, shortened for a table."""
    return message.partition(": ")[2][:80]


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--whole", action="store_true", help="do not kill a node")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    bare_s = bare_seconds(asked.count)
    found = measure(asked.count, kill=not asked.whole)
    found |= {
        "bare_s": round(bare_s, 2),
        "overhead_ms_per_job": round(1000 * (found["seconds"] - bare_s) / asked.count, 1),
        "load_before": round(load, 2),
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
