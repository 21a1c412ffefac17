"""Score the repository scan against facts found by reading: python benchmarks/scan.py DIR.

`python benchmarks/scan.py --tree 2000` makes a tree of so many Python files out of the miniatures,
and says how long one audit of it takes.

DIR holds unpacked packages in the folders that tests/studies/scan/truth.toml names; what is not
there is left out. A case passes at 0.75, the suite at a mean of 0.85.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from telic.studies.scan.audit import audit_repository
from telic.studies.scan.records import RepositoryAudit

TRUTH = Path(__file__).parent.parent / "tests" / "studies" / "scan" / "truth.toml"
CASE, SUITE = 0.75, 0.85


def score(found: RepositoryAudit, truth: dict[str, Any]) -> dict[str, float]:
    """Return the score of each field, from 0 to 1."""
    hazards = {each.id for each in found.hazards}
    named = {*truth["present"], *truth["absent"]}
    right = len(set(truth["present"]) & hazards) + len(set(truth["absent"]) - hazards)
    seed = (found.seeds.flag or "").lstrip("-").rpartition(".")[2]
    return {
        "kind": float(found.archetype in truth["archetype"]),
        "train": score_train(found, truth["train"]),
        "config": score_config(found, *truth["config"]),
        "sinks": overlap({each.name for each in found.sinks if each.default}, set(truth["sinks"])),
        "reward": score_reward(found, truth["rewards"]),
        "eval": float(found.evaluation.style in truth["evaluation"]),
        "seed": float(not truth["seed"] or seed == truth["seed"]),
        "hazards": right / len(named) if named else 1.0,
    }


def score_train(found: RepositoryAudit, accepted: list[str]) -> float:
    """The first answer counts fully, one of the first five half."""
    if not accepted:
        return float(not found.train)
    hits = [any(part in entry.path for part in accepted) for entry in found.train[:5]]
    return 1.0 if hits[:1] == [True] else 0.5 if any(hits) else 0.0


def score_config(found: RepositoryAudit, primary: list[str], named: list[str]) -> float:
    """Two thirds for what a user changes, one third for where defaults live."""
    systems = {found.config.primary or "", *found.config.secondary}
    first = 1.0 if (found.config.primary or "") in primary else 0.5 * bool(systems & set(primary))
    rest = len(systems & set(named)) / len(named) if named else 1.0
    return 2 / 3 * first + 1 / 3 * rest


def score_reward(found: RepositoryAudit, truth: list[str]) -> float:
    """Whether rewards are here at all, and then whether a true file is among those named."""
    reward = found.sources.reward
    if reward.external != (truth[0] == "outside"):
        return 0.0
    return 1.0 if reward.external or any(truth[1] in path for path in reward.files) else 0.7


def overlap(found: set[str], truth: set[str]) -> float:
    """Return the shared part of two sets."""
    return len(found & truth) / len(found | truth) if found | truth else 1.0


def time_tree(files: int) -> int:
    """Print how long an audit of a tree of so many files takes."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.studies.scan.test_size import grow

    with tempfile.TemporaryDirectory() as folder:
        count = grow(Path(folder), files)
        wall, cpu = time.perf_counter(), time.process_time()
        audit_repository(Path(folder))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{count} Python files: {wall:.1f} s, {cpu:.1f} s of one core")
    return 0


def main(folder: Path) -> int:
    """Print a table; the exit code says whether the suite passes."""
    fields = ("kind", "train", "config", "sinks", "reward", "eval", "seed", "hazards")
    print(
        f"{'target':<44}{''.join(f'{name:>8}' for name in fields)}{'mean':>8}{'files':>7}{'s':>7}"
    )
    means: list[float] = []
    for truth in tomllib.loads(TRUTH.read_text())["target"]:
        for root in sorted(folder.glob(truth["path"]))[:1]:
            started = time.process_time()
            found = audit_repository(root)
            seconds = time.process_time() - started
            scores = score(found, truth)
            means.append(sum(scores.values()) / len(scores))
            cells = "".join(f"{scores[name]:8.2f}" for name in fields)
            mark = "" if means[-1] >= CASE else "  below"
            row = f"{truth['name']:<44}{cells}{means[-1]:8.2f}{found.python_files:7}{seconds:7.1f}"
            print(row + mark)
    if not means:
        print(f"none of the packages is in {folder}")
        return 2
    mean = sum(means) / len(means)
    print(f"{len(means)} targets, mean {mean:.3f}, {sum(m >= CASE for m in means)} pass at {CASE}")
    return 0 if mean >= SUITE else 1


if __name__ == "__main__":
    if sys.argv[1] == "--tree":
        sys.exit(time_tree(int(sys.argv[2])))
    sys.exit(main(Path(sys.argv[1])))
