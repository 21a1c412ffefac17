"""Measure the response times of the dashboard's server over real HTTP on this machine.

    python benchmarks/web.py                  5,000 runs, 50 viewers
    python benchmarks/web.py --runs 500 --viewers 10 --seconds 5

This writes a folder of runs without training, starts `telic serve` on it, and prints a row per
request: the time of the first request, which reads files, and the median and the 95th percentile of
the others. Then viewers follow one live log, and the number of events that each receives and the
CPU time of the server are reported.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2
import psutil

HERE = Path(__file__).parent.parent
sys.path.insert(0, str(HERE))
from tests.web.made import lines, make_session, write  # noqa: E402

ENVS = ("HalfCheetah-v5", "Ant-v5", "Hopper-v5", "Walker2d-v5", "Humanoid-v5")
STATES = ("completed", "completed", "completed", "failed", "interrupted")


def write_runs(folder: Path, count: int) -> None:
    """Write runs as a trainer writes them, without curves."""
    for number in range(count):
        env, state = ENVS[number % 5], STATES[number * 7 % 5]
        run = folder / f"run_20260101_{number:06d}_{number % 65536:04x}"
        for seed in (1, 2):
            facts = {"env": env, "seed": seed, "reward": f"own{number % 40}", "settings": {}}
            write(run / f"own{number % 40}_seed_{seed}/config.json", facts)
        write(run / "manifest.json", {"command": f"telic train {env}", "key": str(number)})
        write(run / "status.json", {"status": state})
        result = {"status": state, "best_return": number * 37 % 1000 / 1.0, "training_time_s": 9.0}
        write(run / "summary.json", result | {"total_timesteps": 1_000_000, "best_member": None})
        write(run / "events.jsonl", lines([{"event": "log", "message": "made"}]))
        write(run / "config.json", {"env": env, "steps": 1_000_000, "members": []})


def write_session(folder: Path, iterations: int, points: int) -> Path:
    """Write a session of many iterations, the first of which has a long curve."""
    session = make_session(folder / "session_20260101_000000_aaaa1111")
    for number in range(3, iterations + 1):
        candidate = json.loads((session / "iter_2/candidate.json").read_text())
        write(session / f"iter_{number}/candidate.json", candidate | {"parent": number - 1})
        judged = json.loads((session / "iter_1/judgment.json").read_text())
        write(session / f"iter_{number}/judgment.json", judged | {"number": number})
    rows = ({"global_step": n, "episodic_return": n % 977 * 1.0} for n in range(points))
    write(session / "iter_1/train/own_seed_1/metrics/scalars.jsonl", lines(rows))
    return session


def started(runs_dir: Path) -> tuple[subprocess.Popen[str], str, str]:
    """Start a server, and return its process, address and token."""
    command = [sys.executable, "-m", "telic", "serve", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--runs-dir", str(runs_dir)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    match = re.search(r"(http://\S+?)/\?token=(\S+)", process.stdout.readline())
    assert match is not None
    return process, match[1], match[2]


def row(name: str, client: httpx2.Client, path: str, query: dict, count: int = 60) -> None:
    """Repeat a request, and print the durations."""
    taken, size = [], 0.0
    for _ in range(count):
        start = time.perf_counter()
        answer = client.get(path, params=query)
        taken.append((time.perf_counter() - start) * 1000)
        assert answer.status_code == 200, answer.text
        size = len(answer.content) / 1000
    first, *later = taken
    middle, worst = statistics.median(later), statistics.quantiles(later, n=20)[-1]
    print(f"| {name} | {first:.0f} | {middle:.0f} | {worst:.0f} | {size:.0f} |", flush=True)


def follow(
    address: str, token: str, artifact: str, received: list[int], until: threading.Event
) -> None:
    """Record the numbers of the events in a stream."""
    headers = {"authorization": f"Bearer {token}"}
    path = f"{address}/api/stream?artifact={artifact}"
    with httpx2.stream("GET", path, headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and '"n":' in line:
                events = json.loads(line[6:])["page"]["events"]
                received += [event["n"] for event in events if "n" in event]
            if until.is_set():
                return


def viewers(
    process: subprocess.Popen[str], address: str, token: str, session: Path, many: int, seconds: int
) -> None:
    """Let many viewers follow one growing log, and print the cost and the received events."""
    received: list[list[int]] = [[] for _ in range(many)]
    until = threading.Event()
    threads = [
        threading.Thread(
            target=follow, args=(address, token, session.name, each, until), daemon=True
        )
        for each in received
    ]
    for thread in threads:
        thread.start()
    time.sleep(2)
    server = psutil.Process(process.pid)
    before = sum(server.cpu_times()[:2])
    start = time.monotonic()
    written = 0
    with (session / "events.jsonl").open("a") as log:
        while time.monotonic() - start < seconds:
            log.write(json.dumps({"event": "log", "message": "x" * 200, "n": written}) + "\n")
            log.flush()
            written += 1
            time.sleep(0.1)
    spent = sum(server.cpu_times()[:2]) - before
    time.sleep(3)
    until.set()
    whole = sum(each == list(range(written)) for each in received)
    share = spent / seconds
    print(f"\n{many} viewers, {written} events in {seconds} s: {whole} received all in order;")
    print(f"the server took {spent:.2f} s of CPU time, {share:.1%} of one core.")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs_dir = Path(place) / "runs"
        write_runs(runs_dir, asked.runs)
        session = write_session(runs_dir, iterations=20, points=100_000)
        process, address, token = started(runs_dir)
        try:
            headers = {"authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=address, headers=headers, timeout=120) as client:
                start = time.perf_counter()
                found = client.get("/api/artifacts").json()
                cold = time.perf_counter() - start
                print(f"{len(found['artifacts']):,} artifacts; the first look took {cold:.1f} s\n")
                print("| question | first ms | median ms | 95 % ms | kB |\n|---|--:|--:|--:|--:|")
                row("list", client, "/api/artifacts", {})
                row("a session of 20 tries", client, f"/api/artifacts/{session.name}", {}, 20)
                series = f"/api/artifacts/{session.name}/series"
                query = {"iteration": 1, "member": "own_seed_1"}
                row("a curve of 100,000 points", client, series, query, 20)
                near = {"start": 40_000, "end": 40_900}
                row("the same, zoomed", client, series, query | near, 20)
            viewers(process, address, token, session, asked.viewers, asked.seconds)
        finally:
            process.terminate()
            process.wait(timeout=10)


if __name__ == "__main__":
    main()
