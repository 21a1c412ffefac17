"""Report changes in speed between two commits that exceed the noise.

    python benchmarks/compare.py REF [OTHER] [--rounds 6]      make bench-compare REF=main~5

REF is measured against OTHER, or against the working tree. Both are measured in turn, each time in
separate processes, so that other load on the machine affects both alike. The measure is CPU time,
because wall time on a shared machine depends on other users. A value has changed if the 95 %
interval of the ratio excludes 1 and the ratio differs from 1 by more than two percent.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SMALLEST = 0.02
"""smallest relevant change of a ratio"""
_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""two-sided quantiles of Student's distribution, starting with one degree of freedom"""

# What is measured, by name: a program that prints how much it did, and the processor time of which
# counts. Only what every commit of the last months has: the command line, `make` and `train`.
_ENV = """
import sys, time, torch, telic
torch.set_num_threads(1)
env = telic.make(sys.argv[1], num_envs=64, seed=0)
env.reset()
luck = torch.Generator().manual_seed(0)
actions = torch.zeros(64, env.act_dim).uniform_(-0.5, 0.5, generator=luck)
for _ in range(20):
    env.step(actions)
began = time.process_time()
for _ in range(int(sys.argv[2])):
    env.step(actions)
print(time.process_time() - began)
"""
_TRAIN = """
import sys, tempfile, time, telic
with tempfile.TemporaryDirectory() as folder:
    marks = []
    def listen(event):
        if type(event).__name__ == "TrainProgress":
            marks.append((time.process_time(), event.step))
    telic.train(sys.argv[1], steps=int(sys.argv[2]), evaluations=1, videos="none", confined=False,
                runs_dir=folder, on_event=listen)
(first, before), (last, after) = marks[0], marks[-1]
print((last - first) / (after - before))
"""
_START = "import sys; sys.argv[1:] = ['--help']; from telic.__main__ import main; main()"
MEASURES: dict[str, tuple[str, ...]] = {
    "telic --help": (_START,),
    "HalfCheetah, 300 steps of 64": (_ENV, "HalfCheetah-v5", "300"),
    "Humanoid, 100 steps of 64": (_ENV, "Humanoid-v5", "100"),
    "training HalfCheetah, per step": (_TRAIN, "HalfCheetah-v5", "40000"),
}


class Change(NamedTuple):
    """Ratio of two durations, where 1 means no change."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Conclusion about the ratio."""
        if self.low <= 1 <= self.high or abs(self.ratio - 1) < SMALLEST:
            return "no change beyond noise"
        return f"{abs(self.ratio - 1):.0%} {'slower' if self.ratio > 1 else 'faster'}"


def change(before: list[float], after: list[float]) -> Change:
    """Return the ratio of two series that were measured in turn, with its 95 % interval."""
    logs = [math.log(b / a) for a, b in zip(before, after, strict=True)]
    middle, count = statistics.mean(logs), len(logs)
    if count < 2:
        return Change(math.exp(middle), 0.0, math.inf)
    quantile = _T_95[min(count - 2, len(_T_95) - 1)]
    half = quantile * statistics.stdev(logs) / math.sqrt(count)
    return Change(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def seconds(program: tuple[str, ...], tree: Path) -> float:
    """Return the CPU seconds that a program took or reported, run with the code of a tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", *program],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{tree}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent if program[0] is _START else float(done.stdout.splitlines()[-1])


@contextmanager
def tree_of(reference: str | None) -> Generator[Path]:
    """Return the tree of a commit, or the working tree."""
    if reference is None:
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "add", "-q", "--detach", str(tree), reference], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def compare(before: Path, after: Path, rounds: int) -> dict[str, Change]:
    """Measure two trees in turn. The first round is a warm-up."""
    for tree in (before, after):
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "src")], check=True)
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in MEASURES}
    for number in range(rounds + 1):
        for name, program in MEASURES.items():
            pair = [(0, before), (1, after)]
            for which, tree in pair if number % 2 else reversed(pair):
                value = seconds(program, tree)
                if number:
                    took[name][which].append(value)
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
    return {name: change(*pair) for name, pair in took.items()}


def main() -> None:
    """Compare the commits given on the command line."""
    words = sys.argv[1:]
    rounds = 6
    if "--rounds" in words:
        place = words.index("--rounds")
        rounds = int(words[place + 1])
        del words[place : place + 2]
    if len(words) not in (1, 2):
        sys.exit(__doc__)
    with tree_of(words[0]) as before, tree_of(words[1] if len(words) == 2 else None) as after:
        changes = compare(before, after, rounds)
    print(f"processor time, {rounds} rounds in turns; load {os.getloadavg()[0]:.1f}")
    for name, found in changes.items():
        span = f"{found.ratio:.3f} of before ({found.low:.3f} to {found.high:.3f})"
        print(f"  {name:<32} {span:<36} {found.verdict}")
    out = Path(__file__).parent / "results" / "compare.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({name: found._asdict() for name, found in changes.items()}) + "\n")


if __name__ == "__main__":
    main()
