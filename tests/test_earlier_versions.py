"""What earlier versions left on a disk is read, gone on with and reported.

The archive was written by telic before its packages were put in order: a training, a session and a
search that were killed in the middle, and a study whose baseline waits for a decision. With it
comes the key that signed the study's approvals, which was made for this and is used nowhere else.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parent / "earlier" / "written_before.tar.xz"

pytestmark = pytest.mark.slow


@pytest.fixture
def earlier(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def telic(folder: Path, *words: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "telic", *words, "--json"],
        cwd=folder,
        env={**os.environ, "TELIC_CONFIG_DIR": str(folder / "config")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


def test_a_training_goes_on_from_its_last_save(earlier):
    scalars = earlier / "runs/halted/default_seed_1/metrics/scalars.jsonl"
    rows = scalars.read_text().splitlines()
    found = telic(earlier, "resume", "halted")
    assert (found["status"], found["total_timesteps"]) == ("completed", 40_960)
    assert scalars.read_text().splitlines()[:10] == rows[:10]
    assert telic(earlier, "show", "halted")["status"] == "completed"


def test_a_session_goes_on_is_judged_and_reported(earlier):
    name = only(earlier, "runs/session_*").name
    assert telic(earlier, "show", name)["intent"] == "keep the pole upright"
    telic(earlier, "resume", name)
    summary = json.loads((earlier / "runs" / name / "summary.json").read_text())
    assert summary["outcome"] == "passed"
    assert "keep the pole upright" in (earlier / "runs" / name / "report.html").read_text()


def test_a_search_goes_on_with_what_it_had_tried(earlier):
    folder = only(earlier, "runs/search_*")
    tried = (folder / "run_01/iterations.jsonl").read_text().splitlines()
    telic(earlier, "resume", folder.name)
    assert (folder / "run_01/iterations.jsonl").read_text().splitlines()[: len(tried)] == tried
    assert (folder / "summary.json").exists()


def test_a_study_verifies_says_what_is_next_and_reports(earlier):
    root = ("--root", "repository")
    check = telic(earlier, "study", "ledger", "verify", *root)
    assert (check["ok"], check["anchors_of_other_keys"]) == (True, 0)
    following = telic(earlier, "study", "next", *root)
    assert (following["action"], following["args"]["candidate"]) == ("decide", "c-0001-baseline")
    contract = telic(earlier, "study", "contract", "check", *root)
    assert {found["status"] for found in contract["approvals"]} >= {"approved"}
    report = telic(earlier, "study", "report", *root)
    assert "c-0001-baseline" in (earlier / report["markdown"]).read_text()
