"""Whatever untrusted code can reach by asking and calling, nothing outside its numbers changes."""

from pathlib import Path

import pytest

from telic.sandbox._offered import OFFERED
from telic.sandbox.host import Worker
from telic.sandbox.limits import MEBIBYTE, Limits

HERE = Path(__file__).parents[2]


def walk(folder: Path, seed: int, calls: int) -> dict:
    worker = Worker(
        "tests.attacks.reach",
        {"seed": seed, "folder": str(folder), "beat_s": 120.0, "calls": calls},
        writable=[folder],
        python_path=[HERE],
        limits=Limits(memory_bytes=6000 * MEBIBYTE, disk_bytes=10 * MEBIBYTE),
    )
    return worker.run()


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    return walk(tmp_path_factory.mktemp("reach"), seed=0, calls=6)


def test_nothing_outside_the_returned_numbers_changes(walked):
    assert walked["changed"] == [] and walked["planted"] == []
    counts = walked["counts"]
    assert counts["asked"] > 5_000 and counts["called"] > 2_000, counts


def test_most_of_what_objects_have_is_refused(walked):
    counts = walked["counts"]
    assert counts["refused"] > 0.7 * counts["asked"], counts


def test_only_listed_names_are_given(walked):
    offered = frozenset().union(*OFFERED.values())
    given = {name for names in walked["kinds"].values() for name in names}
    assert given <= offered
