"""Experiment trackers get every metric row once, the request, the result and its videos."""

import json
import math
from pathlib import Path
from typing import ClassVar

import pytest

from telic.errors import UnknownName
from telic.report import sinks
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_rows
from telic.verbs.train import train
from tests.event_list import EventList
from tests.training.small import SETTINGS


class Kept:
    """A tracker in memory."""

    made: ClassVar[list] = []

    def __init__(self, name, folder, config):
        self.name, self.config, self.rows, self.result = name, config, [], None
        self.made.append(self)

    def log(self, step, values):
        json.dumps(values, allow_nan=False)
        self.rows.append((step, dict(values)))

    def finish(self, result, videos):
        self.result, self.videos = result, videos


class Broken(Kept):
    def log(self, step, values):
        raise ConnectionError("no route to the service")


def trained(tmp_path, *log, **options):
    given = {"settings": SETTINGS, "steps": 1024, "evaluations": 2, "eval_episodes": 2, **options}
    where = {"videos": "none", "runs_dir": tmp_path, "confined": False}
    return train("InvertedPendulum-v5", seeds=(1, 2), log=log, **where, **given)


def written(run):
    """Return the finite numbers in the metric files by step, member and name."""
    return {
        (row["global_step"], member.name, name): value
        for member in RunFolder(run.path).members()
        for row in read_rows(member.scalars, "train")
        for name, value in row.items()
        if isinstance(value, int | float) and math.isfinite(value)
        if name not in ("global_step", "iteration")
    }


def test_every_metric_arrives_once_although_another_tracker_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "_SINKS", {"broken": Broken, "kept": Kept})
    monkeypatch.setattr(sinks, "find_spec", lambda name: name)
    monkeypatch.setattr(Kept, "made", [])
    received = EventList()
    run = trained(tmp_path, "broken", "kept", on_event=received)
    kept = next(each for each in Kept.made if type(each) is Kept)
    steps = [step for step, _ in kept.rows]
    assert steps == sorted(steps)
    sent = {(step, name): value for step, row in kept.rows for name, value in row.items()}
    for (step, member, name), value in written(run).items():
        ends = (step, f"{member}/{sinks._tag(name)}")
        assert sent.pop(ends) == value
    assert {name.split("/")[1] for _, name in sent} == {"eval"}
    assert any(name.endswith("eval/mean_return") for _, name in sent)
    assert kept.name == run.path.name and kept.config["env"] == "InvertedPendulum-v5"
    assert kept.result["status"] == "completed" and kept.result["best_return"] == run.best_return
    messages = [each["message"] for each in received if each["event"] == "log"]
    assert any("broken" in text and "no route" in text for text in messages)


def test_an_unknown_tracker_is_refused_before_the_work(tmp_path):
    with pytest.raises(UnknownName, match="wandbb"):
        trained(tmp_path, "wandbb")
    assert not list(tmp_path.iterdir())


def test_tensorboard_reads_the_curves_back(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    run = trained(tmp_path, "tensorboard")
    (file,) = (run.path / "tb_logs").glob("events.out.tfevents.*")
    events = list(loader.LegacyEventFileLoader(str(file)).Load())
    tags = {
        value.tag for event in events if event.HasField("summary") for value in event.summary.value
    }
    assert any(tag.endswith("loss/policy_loss") for tag in tags)
    assert any(tag.endswith("eval/mean_return") for tag in tags)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the trackers
@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_the_trackers_themselves_read_the_run_back(tmp_path, monkeypatch, name):
    package = pytest.importorskip(name)
    for variable, value in {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    run = trained(tmp_path / "runs", name)
    if name == "wandb":
        (file,) = Path(tmp_path).glob("**/run-*.wandb")
        assert file.stat().st_size > 1000
    elif name == "mlflow":
        client = package.MlflowClient()
        (found,) = client.search_runs([client.get_experiment_by_name("telic").experiment_id])
        curves = [key for key in found.data.metrics if key.endswith("loss/policy_loss")]
        assert len(client.get_metric_history(found.info.run_id, curves[0])) > 2
        assert found.info.run_name == run.path.name
