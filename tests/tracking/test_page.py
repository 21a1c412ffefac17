"""Reports of evaluations and sweeps: whole, without foreign markup, and true to their numbers."""

from pathlib import Path

import torch

from telic.report.html import render_page
from telic.report.markdown import render_markdown
from telic.tracking.evaluate import follow_errors
from telic.tracking.reports import (
    ClipResult,
    PairAgreement,
    TokenUsage,
    TrackingReport,
    evaluation_report,
    summarize_encoder,
)

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
        encoders=(summarize_encoder("robot", clips),),
        control=summarize_encoder("resting", clips[:1]),
        tokens=(
            TokenUsage(encoder="robot", entropy_bits=1.5, dead_share=0.1, saturated_share=0.0),
        ),
        agreement=(
            PairAgreement(one="robot", other="sparse", equal_share=0.6, chance=0.2, distance=0.5),
            PairAgreement(one="robot", other="human", equal_share=None, chance=None, distance=None),
        ),
        clips=tuple(clips),
    )


def test_page_shows_every_number_and_runs_none_of_its_content():
    reported = evaluation_report(report(success=False))
    page = render_page(reported, Path())
    assert "&lt;script&gt;alert" in page and EVIL not in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    for words in ("50.0%", "200.0", "60.0%", "resting", "1.50"):
        assert words in page, words
    assert "walk" in render_markdown(reported, Path())
