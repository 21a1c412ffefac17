"""Conclusions of the benchmark scripts from measured numbers."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.0, 1.1, 0.9], [1.01, 1.09, 0.92], "no change beyond noise"),
        ([1.0, 1.1, 0.9], [1.5, 1.66, 1.35], "50% slower"),
        ([2.0, 2.2, 1.8], [1.0, 1.1, 0.91], "50% faster"),
        ([1.0, 1.0, 1.0], [0.5, 2.0, 1.0], "no change beyond noise"),
        ([1.0, 1.0, 1.0], [1.01, 1.01, 1.01], "no change beyond noise"),
        ([1.0], [3.0], "no change beyond noise"),
    ],
)
def test_only_what_exceeds_noise_and_matters_has_changed(before, after, verdict):
    assert script("compare").change(before, after).verdict == verdict


def test_every_second_of_a_session_is_counted_once(tmp_path):
    times = {
        "session.start": 10.0,
        "session.asked": 10.5,
        "session.tried": 13.0,
        "train.start": 14.0,
        "eval.done": 20.0,
        "session.checkpoint": 21.0,
        "train.end": 25.0,
        "session.judged": 25.5,
    }
    rows = [{"event": name, "time": when} for name, when in times.items()]
    rows[4]["seconds"] = 0.5
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, when in (("certificate.json", 29.0), ("robustness.json", 33.0), ("summary.json", 40)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (when, when))
    found = script("words_to_pass").spans(tmp_path, began=8.0, ended=41.0)
    assert sum(part.seconds for part in found) == pytest.approx(33.0)
    parts = dict(found)
    assert parts["training"] == pytest.approx(11 - 0.5 - 4)
    assert parts["the robustness card is measured"] == pytest.approx(4)
