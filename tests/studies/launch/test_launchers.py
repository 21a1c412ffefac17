"""Runs on other launchers: the supervisor stays here, a job takes the command there and back."""

import json
import os
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from telic.core import plugins
from telic.studies.documents.adapter import LauncherSpec
from telic.studies.documents.base import update_yaml
from telic.studies.launch import attempt
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch, look
from tests.jobs.slurm import pretend
from tests.studies.launch.toy_study import AGENT, change_contract, make_baseline, starts

SLURM = {"kind": "slurm", "options": {"grace_s": 0.5}}


@pytest.fixture
def on(study):
    """Have runs started by another launcher; returns a baseline."""

    def choose(**launcher):
        update_yaml(study.folder.adapter, {"launcher": launcher})
        change_contract(study, {"hardware": {"launcher": launcher["kind"]}})
        return make_baseline(study, (4,))

    return choose


def start(study, name):
    return launch(study, LaunchRequest(name, "smoke", 4, confirm=TOKEN), AGENT)


def test_a_run_on_slurm_is_supervised_sealed_and_charged(study, on, until_over, slurm, monkeypatch):
    name = on(**SLURM)
    monkeypatch.setenv("MY_API_KEY", "planted-secret-1")
    shown = look(study, LaunchRequest(name, "smoke", 4)).start
    assert shown["job"]["place"]["kind"] == "slurm" and shown["job"]["place"]["attempts"] == 1
    done = start(study, name)
    run = until_over(study, 60).runs[done.run]
    assert run.status == "finished" and run.is_sealed, (done.folder / "stderr.log").read_text()
    assert starts(study) == [(done.nonce, 4)] and 0 < run.actual.wall_clock_h < 0.01
    assert run.actual.cpu_core_h is None
    written = b"".join(p.read_bytes() for p in done.folder.rglob("*") if p.is_file())
    assert b"planted-secret-1" not in written
    (job,) = (done.folder / "jobs").glob("*/job_spec.json")
    assert json.loads(job.read_text())["env"]["WANDB_MODE"] == "disabled"


@pytest.mark.slow  # the limit of local runs is in test_supervisor
def test_a_run_on_slurm_has_a_time_limit(study, on, until_over, slurm, monkeypatch):
    monkeypatch.setattr(attempt, "SMOKE_TIMEOUT_S", 1.0)
    monkeypatch.setenv("TOY_SLEEP", "60")
    done = start(study, on(**SLURM))
    run = until_over(study, 60).runs[done.run]
    assert (run.status, run.killed_by, run.why) == ("killed", "budget", "it reached its time limit")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Programs that act like Slurm."""
    home = pretend(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    return home


def test_slurm_gets_the_directives_and_a_lost_node_is_a_preemption(study, on, until_over, slurm):
    (slurm / "lost").touch()
    sbatch = {"partition": "gpu", "mem": "16G", "exclusive": True}
    done = start(study, on(kind="slurm", options={"sbatch": sbatch, "grace_s": 0.5}))
    run = until_over(study, 60).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "preempted") and run.may_be_retried
    words = (slurm / "queue" / "1" / "words").read_text().splitlines()
    for directive in ("partition=gpu", "mem=16G", "exclusive", "no-requeue", "time=8"):
        assert f"--{directive}" in words, words


def test_a_missing_scheduler_fails_the_run_and_says_so(study, on, until_over, monkeypatch):
    done = start(study, on(kind="slurm", options={"grace_s": 0.5}))
    run = until_over(study, 60).runs[done.run]
    assert run.status == "killed" and run.may_be_retried
    assert "failed to start" in (done.folder / "stderr.log").read_text()


def test_package_may_provide_a_launcher_and_an_unknown_kind_is_explained(
    study, on, until_over, tmp_path, monkeypatch
):
    with pytest.raises(ValidationError, match="unknown launcher polite; known: local, ray"):
        LauncherSpec(kind="polite")
    home = tmp_path / "home"
    folder = home / "courtesy-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: courtesy\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[telic.launchers]\npolite = courtesy:Polite\n")
    source = Path(__file__).parents[3] / "examples/third_party_package/src/telic_bounce"
    (home / "courtesy.py").write_text((source / "launcher.py").read_text())
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", str(home))
    plugins._entry_points.cache_clear()
    try:
        done = start(study, on(kind="polite", options={"niceness": 5}))
        assert until_over(study, 60).runs[done.run].status == "finished"
    finally:
        plugins._entry_points.cache_clear()
        sys.modules.pop("courtesy", None)
