"""Training trackers: exactly resumed, written as ONNX that acts the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from telic.core.events import ignore
from telic.envs import make
from telic.envs.tokens import write_decoder
from telic.errors import (
    BadFile,
    ConfigError,
    MissingFile,
    Refused,
    TelicError,
    UnknownName,
    UsageError,
)
from telic.storage.files import read_record
from telic.storage.journal import Journal
from telic.storage.keys import sign_folder
from telic.storage.layout import RunFolder
from telic.storage.scalars import read_rows
from telic.tracking import deploy, task, train
from telic.tracking._token_phases import settle, warm_up
from telic.tracking._tokens import guidance
from telic.tracking.config import TrackingConfig
from telic.tracking.deploy import deploy_tracker
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.reports import TrackingReport, TrackingVerdict, latest_reports, verdict_of
from telic.tracking.tracker import export_tracker, load_tracker
from telic.tracking.train import (
    TrackingOptions,
    check_schedules,
    resume_tracker,
    train_tracker,
)
from telic.training.folder import set_status
from telic.training.job import TrainJob
from telic.training.loop import collecting
from telic.training.rollout import by_member
from telic.verbs.track import eval as eval_tracker
from telic.verbs.track import export_tracking
from tests.tracking.constructed import library, tiny


def job_of(config, seeds):
    return train.tracking_job(config, TrackingOptions(seeds=seeds, threads=1))


STEPS = 5 * 48
CONFIG = (
    *("trainer.steps=240", "observations.history=2", "losses.cycle=0.1", "losses.rows=0.5"),
    "trainer.warm_up=1",
)


@pytest.fixture(autouse=True)
def motions(monkeypatch):
    for module in (task, train):
        monkeypatch.setattr(module, "open_motions", lambda config: library())


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "open_motions", lambda config: library())
        options = TrackingOptions(name="whole", evaluations=2, threads=1, seeds=(1,))
        return train_tracker(tiny(*CONFIG), folder, options).path


def test_a_run_keeps_its_resolved_configuration_and_numbers_of_tokens(trained):
    run = RunFolder(trained)
    assert train.read_config(run) == tiny(*CONFIG)
    rows = [json.loads(line) for line in run.members()[0].scalars.read_text().splitlines()]
    training = [row for row in rows if row.get("type") != "eval"]
    assert len(training) == 5
    for name in ("loss_alignment", "loss_reconstruction", "loss_cycle", "start_coverage"):
        assert all(row[name] is not None for row in training)


def test_stopped_training_resumes_exactly(trained, tmp_path):
    calls = iter([False, True])
    options = TrackingOptions(
        name="parts", evaluations=2, threads=1, seeds=(1,), should_stop=lambda: next(calls, False)
    )
    first = train_tracker(tiny(*CONFIG), tmp_path, options)
    assert first.status == "stopped"
    assert [entry.kind for entry in journal_of(RunFolder(first.path)).entries()] == ["candidate"]
    second = resume_tracker(RunFolder(first.path), ignore, lambda: False)
    assert second.status == "completed" and second.path == first.path
    member = "tracker_seed_1"
    whole, parts = (
        load_tracker(path / member / "checkpoints" / f"tracker_{STEPS}.pt")
        for path in (trained, second.path)
    )
    for a, b in zip(whole.actor.views.actor, parts.actor.views.actor, strict=True):
        assert torch.equal(a.weight, b.weight)
    assert all(map(torch.equal, whole.actor.scaling, parts.actor.scaling))
    reports = [
        json.loads((path / member / "evaluations" / f"report_{STEPS}.json").read_text())
        for path in (trained, second.path)
    ]
    assert reports[0] == reports[1]


def journal_of(run: RunFolder) -> Journal:
    return Journal(run.path / train.JOURNAL, f"tracking {read_record(run.config, TrainJob).key}")


def test_a_training_is_a_loop_whose_journal_ends_with_the_verdict(trained, tmp_path, monkeypatch):
    copy = RunFolder(tmp_path / trained.name)
    shutil.copytree(trained, copy.path)
    journal = journal_of(copy)
    assert journal.verify().ok
    assert [entry.kind for entry in journal.entries()] == ["candidate", "verdict"]
    assert journal.recorded("candidate", TrackingConfig, "1") == tiny(*CONFIG)
    verdict = journal.recorded("verdict", TrackingVerdict, "1")
    assert verdict == verdict_of(latest_reports(copy))
    low, high = verdict.interval
    assert 0.0 <= low <= verdict.success_rate <= high <= 1.0 and high - low > 0.1
    record = read_rows(copy.members()[0].scalars, "eval")[-1]
    assert record["interval"][0] <= record["mean_return"] <= record["interval"][1]
    assert record["interval"][1] - record["interval"][0] > 0.1  # three plays say little
    # Killed after the verdict: nothing is trained again.
    set_status(copy, "interrupted")
    sign_folder(copy.path)
    monkeypatch.setattr(train.loop, "run_training", None)
    again = resume_tracker(copy, ignore, lambda: False)
    assert again.status == "completed" and len(journal_of(copy).entries()) == 2


def test_a_tracker_that_is_loaded_is_measured_as_it_was(trained):
    player = ClipPlayer(tiny(*CONFIG), library(), [3], threads=1)
    report, _ = player.measure(load_tracker(checkpoint(trained)), "test")
    kept = trained / "tracker_seed_1" / "evaluations" / f"report_{STEPS}.json"
    assert TrackingReport.model_validate_json(kept.read_bytes()) == report
    assert {clip.encoder for clip in report.clips} == {"robot", "keypoint", "sparse"}
    resting = player.control()
    assert resting.clips == 1 and resting.encoder == "resting"


def checkpoint(run: Path) -> Path:
    return run / "tracker_seed_1" / "checkpoints" / f"tracker_{STEPS}.pt"


def test_onnx_files_act_as_the_tracker_does_and_follow_in_plain_mujoco(trained, tmp_path):
    tracker = load_tracker(checkpoint(trained))
    done = export_tracker(tracker, tmp_path)
    names = {each.name for each in done.files}
    encoders = ("robot", "keypoint", "sparse")
    assert names == {*(f"encoder_{e}.onnx" for e in encoders), "decoder.onnx", "tracker.onnx"}
    assert all(each.deviation <= 1e-5 and each.compared > 200 for each in done.files)
    facts = json.loads((tmp_path / "tracker.json").read_text())
    assert json.loads(facts["joint_names"])[0] == "left_hip"
    assert len(json.loads(facts["row_names"])) == tracker.shape.actor_inputs
    whole, folder = tmp_path / "tracker.onnx", tmp_path / "deploy"
    deployed = deploy_tracker(tracker, library(), "held", whole, folder)
    assert deployed.apart <= 1e-3 and deployed.steps == library().clips[3].frames - 1
    code = (folder / "run.py").read_text()
    assert "import telic" not in code and "from telic" not in code
    assert {path.name for path in folder.iterdir()} >= {"scene.xml", "LICENSE.txt"}


def test_a_robot_moved_by_tokens_moves_as_the_tracker_does(trained, tmp_path, monkeypatch):
    tracker = load_tracker(checkpoint(trained))
    file = deploy.write_token_robot(tracker, library(), tmp_path / "tokens")
    env = make(file, num_envs=2)
    assert env.act_dim == tracker.shape.width and bool((env.action_low < env.action_high).all())
    env.close()

    def off(path, facts, values):
        write_decoder(path, facts, {**values, "bias_0": values["bias_0"] + 0.5})

    monkeypatch.setattr(deploy, "write_decoder", off)
    used = np.random.default_rng(0).uniform(-1, 1, (9, tracker.shape.width))
    monkeypatch.setattr(deploy, "_used", lambda tracker, player: used)
    with pytest.raises(TelicError, match="from the tracker"):
        deploy.write_token_robot(tracker, library(), tmp_path / "other")


def test_file_without_a_tracker_is_refused(trained, tmp_path):
    good = checkpoint(trained).read_bytes()
    with pytest.raises(MissingFile):
        load_tracker(tmp_path / "none.pt")
    with pytest.raises(UsageError, match="telic track train"):
        train.read_config(RunFolder(tmp_path))
    path = tmp_path / "bad.pt"
    for damage in (b"", b"nonsense", good[: len(good) // 2], good[:-200] + b"x" * 200):
        path.write_bytes(damage)
        with pytest.raises(BadFile):
            load_tracker(path)
    saved = torch.load(checkpoint(trained), weights_only=True)
    bent = {"scale": torch.full_like(saved["scale"], np.nan)}
    for wrong in (bent, {"log_std": torch.zeros(1).expand(10**14)}):
        torch.save({**saved, **wrong}, path)
        with pytest.raises(BadFile):
            load_tracker(path)


def test_tolerances_of_another_user_do_not_count(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(ClipPlayer, "control", lambda player: None)
    theirs = Path(shutil.copytree(trained, tmp_path / "theirs"))
    config = json.loads((theirs / train.CONFIG).read_text())
    config["evaluation"] |= {"end_height_m": 1e9}
    for run in (theirs, trained):
        (run / train.CONFIG).write_text(json.dumps(config))
    found = [eval_tracker(x.name, runs_dir=x.parent) for x in (theirs, trained)]
    assert "0.25 m (height of left_foot and right_foot)" in found[0].report.conditions
    assert "1e+09 m (height of left_foot and right_foot)" in found[1].report.conditions
    page = Path(found[0].files[2]).read_text()
    assert "7 of 7 bodies" in page and "0.25 m" in page
    report = theirs / "tracker_seed_1" / "evaluations" / "report_x.json"
    report.write_text('{"step": 1}')
    with pytest.raises(BadFile):
        latest_reports(RunFolder(theirs))


def test_an_export_leaves_files_of_the_user_alone(trained, tmp_path, monkeypatch):
    mine = tmp_path / "deploy" / "assets" / "mine.stl"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    where = {"runs_dir": trained.parent, "output": str(tmp_path), "clip": "held"}
    with pytest.raises(UsageError, match="neither empty"):
        export_tracking(trained.name, **where)
    (tmp_path / "tracker.json").write_text("{}")
    (tmp_path / "onnx").symlink_to(mine.parent)
    with pytest.raises(Refused, match="contains the link"):
        export_tracking(trained.name, **where)
    assert mine.read_text() == "mine"


def test_a_schedule_of_the_curriculum_reaches_the_task_that_is_trained():
    line = {"kind": "linear", "start": 3.0, "end": 1.0, "ends": 0.5}
    config = tiny(f"trainer.schedules={json.dumps({'leniency': line})}")
    check_schedules(config)
    setup = train._build(job_of(config, [1]), config, library())
    following = task.tracking_task(setup.env)
    for progress, leniency in ((0.0, 3.0), (0.25, 2.0), (0.5, 1.0), (1.0, 1.0)):
        setup.population.anneal(progress)
        assert following.curriculum.tolist() == pytest.approx([leniency, 1.0, 1.0])


def test_a_warm_up_learns_the_guide_and_leaves_weights_of_losses_and_rates_alone():
    config = tiny(*CONFIG, "trainer.warm_up=3", "trainer.ppo.minibatch_size=48")
    setup = train._build(job_of(config, [1, 2]), config, library())
    networks, population = setup.population.networks, setup.population
    before = networks.weights.clone(), population.learning_rate.clone(), population.flat.clone()
    setup.collector.start(stagger=False)
    raw = by_member(collecting(setup, 0)().inputs)

    def off() -> float:
        rows = population.actor().scaling.apply(raw)
        outputs = networks.act(population.views, rows[..., : networks.tokens.actor_inputs])
        wanted = rows[..., networks.tokens.columns("guide")]
        return float(guidance(outputs, wanted, population.views.log_std).mean())

    first = off()
    assert len(warm_up(setup, config)) == 3
    assert off() < 0.7 * first
    assert torch.equal(networks.weights, before[0]) and not bool(population.adam.count.any())
    assert torch.equal(population.learning_rate, before[1])
    assert not torch.equal(population.flat, before[2])
    alone = train._build(job_of(config, [2]), config, library())
    alone.collector.start(stagger=False)
    collecting(alone, 0)()
    warm_up(alone, config)
    torch.testing.assert_close(alone.population.flat[0], population.flat[1], atol=1e-4, rtol=1e-3)


def test_what_cannot_be_scheduled_is_refused():
    line = {"kind": "linear", "start": 1.0, "end": 0.0}
    for name, error in (("entropy", UnknownName), ("learning_rate", ConfigError)):
        config = tiny(f"trainer.schedules={json.dumps({name: line})}")
        with pytest.raises(error):
            check_schedules(config)


def test_encoders_settle_on_the_first_one_and_nothing_else_changes():
    config = tiny(*CONFIG, "trainer.settle=4", "trainer.ppo.minibatch_size=48")
    setup = train._build(job_of(config, [1]), config, library())
    networks, population = setup.population.networks, setup.population
    setup.collector.start(stagger=False)
    kept = ("robot", "control", "kinematic", "critic")
    before = {
        name: [type(x)(*(y.clone() for y in x)) for x in networks.layers(population.views, name)]
        for name in kept
    }
    apart = settle(setup, config)
    assert len(apart) == 4 and apart[-1] < 0.7 * apart[0]
    for name in kept:
        for old, new in zip(before[name], networks.layers(population.views, name), strict=True):
            assert torch.equal(old.weight, new.weight) and torch.equal(old.bias, new.bias)
