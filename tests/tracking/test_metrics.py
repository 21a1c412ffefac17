"""Errors of followed motions on hand-made places."""

import pytest
import torch

from telic.tracking.evaluate import follow_errors
from telic.tracking.reports import ClipResult, summarize_encoder

DT = 0.02


def places(frames: int = 12, bodies: int = 5) -> torch.Tensor:
    return torch.randn(frames, bodies, 3, generator=torch.Generator().manual_seed(0)).double()


def test_a_robot_elsewhere_has_a_global_error_only():
    found = follow_errors(places() + torch.tensor([0.3, 0.4, 0.0]), places(), DT)
    assert found.mpjpe_g_mm == pytest.approx(500.0)
    assert found.drift_m == pytest.approx(0.5)
    for value in (found.mpjpe_l_mm, found.mpjpe_pa_mm, found.velocity_mm, found.acceleration_mm):
        assert value == pytest.approx(0.0, abs=1e-6)


def result(clip: str, success: bool, local: float, frames: int) -> ClipResult:
    errors = follow_errors(places(), places(), DT).model_copy(update={"mpjpe_l_mm": local})
    return ClipResult(
        clip=clip,
        encoder="robot",
        success=success,
        global_success=success,
        progress=1.0 if success else 0.25,
        frames=frames,
        joint_rad=0.1,
        turn_rad=0.1,
        errors=errors,
    )


def test_errors_are_weighted_by_frames_and_rates_are_not():
    both = [result("a", True, 10.0, 300), result("b", False, 50.0, 100)]
    found = summarize_encoder("robot", both)
    assert found.success_rate == 0.5 and found.progress_rate == 0.625
    assert found.mpjpe_l_mm == pytest.approx(20.0)
    assert found.mpjpe_l_mm_of_successes == 10.0
