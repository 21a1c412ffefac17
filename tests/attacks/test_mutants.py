"""Files bent by a grammar of attacks: refused, stopped with a place, or without any effect."""

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from telic.errors import ResourceError, WorkerDied
from telic.sandbox.host import Worker
from telic.sandbox.limits import MEBIBYTE, Limits

ROOT = Path(__file__).parents[2]


def attack(folder: Path, seed: int, attempts: int, for_s: float, beat_s: float = 60.0) -> dict:
    outside = folder / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "canary").write_text("untouched")
    inside = folder / f"inside{seed}"
    inside.mkdir()
    worker = Worker(
        "tests.attacks.mutants",
        {"seed": seed, "attempts": attempts, "for_s": for_s, "beat_s": beat_s},
        writable=[inside],
        python_path=[ROOT],
        limits=Limits(memory_bytes=6000 * MEBIBYTE, disk_bytes=50 * MEBIBYTE),
    )
    result = worker.run()
    assert (outside / "canary").read_text() == "untouched"
    assert [each.name for each in outside.iterdir()] == ["canary"]
    return result


@pytest.mark.slow
def test_no_bent_file_has_an_effect(tmp_path):
    attempts = 400
    seed = int(os.environ.get("TELIC_ATTACK_SEED", "1"))
    result = attack(tmp_path, seed, attempts, for_s=90)
    counts = result["counts"]
    assert result["effects"] == [] and result["left"] == []
    assert counts["files"] >= 0.75 * attempts and counts["refused"] and counts["errors"], counts


@pytest.mark.long
def test_no_bent_file_has_an_effect_in_an_hour(tmp_path):
    """A silent or greedy worker is ended by the host, which is one of the ways to be stopped."""
    end = time.monotonic() + float(os.environ.get("TELIC_ATTACK_S", "3600"))
    seed, total, ended = 1000, Counter(), 0
    while (left_s := end - time.monotonic()) > 0:
        seed += 1
        try:
            result = attack(tmp_path, seed, attempts=5_000, for_s=min(left_s, 300))
        except (WorkerDied, ResourceError) as error:
            print(seed, error)
            ended += 1
            assert ended < 20, "hardly anything was tried"
            continue
        assert result["effects"] == [] and result["left"] == []
        total.update(result["counts"])
    print(dict(total), f"{ended} workers ended by the host")
    assert total["attempts"]
