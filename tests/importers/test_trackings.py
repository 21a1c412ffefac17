"""A training of motion trackers told as a study: the unit of its claim is a held-out clip."""

from types import SimpleNamespace

import pytest

from telic.importers import find_source, from_tracking
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.studies.report import write_report
from telic.tracking.reports import ClipResult, FollowErrors, TrackingReport, summarise_encoder
from telic.tracking.train import CONFIG, tracking_job
from tests.importers.test_sessions import tell
from tests.tracking.constructed import tiny

RUN = "run_20260102_030405_abcd"
ERRORS = FollowErrors(
    mpjpe_g_mm=20.0,
    mpjpe_l_mm=10.0,
    mpjpe_pa_mm=5.0,
    velocity_mm=None,
    velocity_m_s=None,
    acceleration_mm=None,
    acceleration_m_s2=None,
    drift_m=0.1,
)


def begin(runs_dir, *seeds) -> RunFolder:
    folder = RunFolder(runs_dir / RUN)
    config = tiny("trainer.steps=240")
    for seed in seeds:
        folder.member("tracker", seed).path.mkdir(parents=True)
    write_json(folder.config, tracking_job(config, list(seeds)))
    write_json(folder.path / CONFIG, config)
    return folder


def measure(folder: RunFolder, seed: int, step: int, followed: list[bool], split: str = "test"):
    member = folder.member("tracker", seed)
    clips = [
        ClipResult(
            clip=f"walk {place}",
            encoder="robot",
            success=success,
            global_success=success,
            progress=1.0,
            frames=9,
            joint_rad=0.1,
            turn_rad=0.1,
            errors=ERRORS,
        )
        for place, success in enumerate(followed)
    ]
    report = TrackingReport(
        step=step,
        member=member.name,
        split=split,
        encoders=(summarise_encoder("robot", clips),),
        tokens=(),
        agreement=(),
        clips=tuple(clips),
    )
    (member.path / "evaluations").mkdir(exist_ok=True)
    write_json(member.path / "evaluations" / f"report_{step}.json", report)


def end(folder: RunFolder, *seeds) -> None:
    for seed in seeds:
        write_json(folder.member("tracker", seed).summary, {})
    write_json(folder.summary, {"status": "completed", "training_time_s": 7_200.0})


def test_a_training_is_one_candidate_and_grows_with_its_source(tmp_path):
    folder = begin(tmp_path / "runs", 1, 2)
    measure(folder, 1, 96, [True, False])
    told, study = tell(tmp_path, tmp_path / "runs")
    assert (told.ended, told.runs) == (None, 0)
    for seed in (1, 2):
        measure(folder, seed, 240, [True] * 200)
    end(folder, 1, 2)
    told, study = tell(tmp_path, tmp_path / "runs", RUN)
    assert study.ledger.verify().ok
    assert (told.ended, told.candidates, told.runs) == ("completed", 1, 2)
    assert told.incumbent == "c-0001-planar-tracker"
    # Seeds share a process: each is charged its part of two hours.
    assert study.state.budget.spent.wall_clock_h == pytest.approx(2.0)
    assert "planar-biped follows reference motions" in write_report(study).report.read_text()


@pytest.mark.parametrize(
    ("followed", "split"), [([True] * 9 + [False], "test"), ([True] * 20, "train")]
)
def test_it_passes_only_where_held_out_clips_prove_it(tmp_path, followed, split):
    folder = begin(tmp_path / "runs", 1)
    measure(folder, 1, 240, followed, split)
    end(folder, 1)
    (candidate,) = find_source(tmp_path / "runs", "latest").read().candidates
    assert candidate.claim.verdict == "target_missed" and candidate.ruling.verdict == "reject"
    assert candidate.claim.measured.n == len(followed)


@pytest.mark.parametrize(
    ("clips", "split", "is_met"),
    [
        (1, "test", False),
        (2, "test", False),
        (10, "test", False),
        (200, "test", True),
        (200, "train", False),
    ],
)
def test_a_few_clips_that_are_all_followed_prove_little(monkeypatch, clips, split, is_met):
    followed = [SimpleNamespace(clip=str(number), success=True) for number in range(clips)]
    report = SimpleNamespace(split=split, clips=followed)
    monkeypatch.setattr(from_tracking, "latest_reports", lambda _folder: [report])
    reader = object.__new__(from_tracking._TrackingReader)
    reader.folder, reader.seeds = None, (1,)
    claim = reader._claim(())
    assert (claim.verdict == "target_met") is is_met
    ruling = from_tracking._ruling(claim)
    assert (ruling.verdict == "accept") is is_met
    assert is_met or "held out" in ruling.because or "prove at least" in ruling.because
