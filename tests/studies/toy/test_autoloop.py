"""Autonomous mode: a proposer and a killed loop, until a stop rule ends the study."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from telic.studies.documents.candidate import CLOSED_STATUSES
from telic.studies.launch.process import RunProcess
from telic.studies.study import Study
from tests.studies.toy.driver import ToyStudy
from tests.studies.toy.interfaces import CommandLine
from tests.studies.toy.making import CONTRACT

CANDIDATES = 30
PHASES = ["smoke", "short_trial", "promotion"]
AUTONOMY = {
    "automation.autoloop": True,
    "automation.proposer": "numeric",
    "automation.launch": "pre_approved",
    "automation.decide": "auto",
    "automation.pre_approved": [{"kind": "config", "phases": PHASES}],
    "stop_rules": [{"rule": "max_candidates", "value": CANDIDATES}],
    "scope.kinds": ["config"],
    "budget.launches": 2_000,
    "budget.wall_clock_h": 20,
    "baseline.steps": 57_600,
    "seeds.validation": "900-999",
}


def go(root):
    words = ["study", "run", "--confirm", "RUN_CANDIDATE", "--root", str(root), "--json"]
    return subprocess.Popen([sys.executable, "-m", "telic", *words], stdout=subprocess.PIPE)


def kill_at(root, count, *, with_supervisors):
    """Kill the loop once it has proposed some candidates, as a crash of the machine would."""
    process = go(root)
    while len(Study.find(root).state.candidates) <= count:
        assert process.poll() is None, "the loop ended early"
        time.sleep(0.2)
    process.kill()
    process.communicate()
    study = Study.find(root)
    for run in study.state.active_runs if with_supervisors else ():
        claim = RunProcess(study.folder.run(run)).claim
        if claim is not None:
            os.kill(claim["pid"], signal.SIGKILL)


@pytest.mark.long
def test_thirty_candidates_are_tried_although_the_loop_is_killed_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("TELIC_ACTOR", raising=False)
    monkeypatch.setattr("tests.studies.toy.driver.CONTRACT", {**CONTRACT, **AUTONOMY})
    root = tmp_path / "repository"
    ToyStudy(CommandLine(root), root).begin()
    kill_at(root, 8, with_supervisors=False)
    kill_at(root, 19, with_supervisors=True)
    process = go(root)
    printed, _ = process.communicate()
    assert process.returncode == 0
    step = json.loads(printed)["next"]
    assert (step["action"], step["args"]["rule"]) == ("stop", "max_candidates")
    study = Study.find(root)
    tried = [x for x in study.state.candidates.values() if x.kind != "baseline"]
    assert len(tried) == CANDIDATES
    assert all(each.status in CLOSED_STATUSES for each in tried)
    finished = Counter(
        (run.candidate, run.phase, run.seed)
        for run in study.state.runs.values()
        if run.status == "finished" and run.phase != "smoke"
    )
    assert set(finished.values()) == {1}, "no run was repeated"
    assert study.state.incumbent is not None and study.ledger.verify().ok
    print(Counter(each.status.value for each in tried), study.state.incumbent)
