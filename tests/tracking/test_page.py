"""Reports of evaluations and sweeps: whole, without foreign markup, and true to their numbers."""

from pathlib import Path

import pytest
import torch

from telic.errors import UsageError
from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.storage.layout import RunFolder
from telic.tracking import loop as tracking_loop
from telic.tracking import train
from telic.tracking.evaluate import follow_errors
from telic.tracking.loop import measured_point, token_sizes, train_trackers
from telic.tracking.reports import (
    ClipResult,
    PairAgreement,
    TokenUse,
    TrackingReport,
    evaluation_report,
    summarise_encoder,
    sweep_report,
)
from telic.tracking.train import TrackingOptions
from tests.tracking.constructed import library, tiny

EVIL = "<script>alert(1)</script>"


def clip(name: str, encoder: str, off: float, success: bool = True) -> ClipResult:
    target = torch.zeros(10, 3, 3)
    errors = follow_errors(target + torch.tensor([off, 0.0, 0.0]), target, 0.02)
    return ClipResult(
        clip=name,
        encoder=encoder,
        success=success,
        global_success=success,
        progress=1.0 if success else 0.4,
        frames=10,
        joint_rad=0.1,
        turn_rad=0.1,
        errors=errors,
    )


def report(step: int = 100, success: bool = True) -> TrackingReport:
    clips = [clip(EVIL, "robot", 0.1, success), clip("walk", "robot", 0.2)]
    return TrackingReport(
        step=step,
        member="tracker_seed_1",
        split="test",
        encoders=(summarise_encoder("robot", clips),),
        control=summarise_encoder("resting", clips[:1]),
        tokens=(TokenUse(encoder="robot", entropy_bits=1.5, dead_share=0.1, saturated_share=0.0),),
        agreement=(
            PairAgreement(one="robot", other="sparse", equal_share=0.6, chance=0.2, distance=0.5),
            PairAgreement(one="robot", other="human", equal_share=None, chance=None, distance=None),
        ),
        clips=tuple(clips),
    )


def test_a_page_tells_every_number_and_runs_nothing_of_what_it_tells():
    told = evaluation_report(report(success=False), [report(50), report(100)])
    page = render_page(told, Path())
    assert "&lt;script&gt;alert" in page and EVIL not in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    for words in ("50.0%", "200.0", "60.0%", "resting", "While it learned", "1.50"):
        assert words in page, words
    assert "While it learned" not in render_page(evaluation_report(report()), Path())
    assert "walk" in render_markdown(told, Path())


def test_a_point_of_a_sweep_is_what_its_reports_come_to(tmp_path):
    config = tiny("networks.token_dim=8", "networks.levels=4")
    point = measured_point(RunFolder(tmp_path), config, [report(), report(success=False)])
    assert point.bits == 2 * 8 * 2 and point.numbers == 16
    assert point.used_bits == pytest.approx(16 * 1.5)
    assert point.success_rate == pytest.approx(0.75)
    assert point.agreement == pytest.approx(0.6)
    assert point.mpjpe_l_mm == pytest.approx(report().encoders[0].mpjpe_l_mm)
    assert "32" in render_page(sweep_report([point]), tmp_path)
    with pytest.raises(UsageError):
        measured_point(RunFolder(tmp_path), config, [])


@pytest.mark.slow
def test_a_sweep_resumes_with_what_is_not_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "open_motions", lambda config: library())
    config, journal = tiny("trainer.steps=48"), tmp_path / "s.jsonl"
    options = TrackingOptions(threads=1, evaluations=1)
    both = token_sizes(config, "s", (2, 4), (4,))
    first = train_trackers({"s-2x4": both["s-2x4"]}, tmp_path, options, journal)
    trained: list[str] = []
    real = tracking_loop.train_tracker

    def watched(config, runs_dir, options):
        trained.append(options.name)
        return real(config, runs_dir, options)

    monkeypatch.setattr(tracking_loop, "train_tracker", watched)
    points = train_trackers(both, tmp_path, options, journal)
    assert trained == ["s-4x4"] and points[0] == first[0] and len(points) == 2
    others = token_sizes(tiny("trainer.steps=96"), "s", (2, 4), (4,))
    with pytest.raises(UsageError, match="other settings"):
        train_trackers(others, tmp_path, options, journal)
