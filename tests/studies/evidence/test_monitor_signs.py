"""Every sign of trouble fires on a planted case and is silent on a healthy one."""

import math

from telic.studies.evidence._logs import Series
from telic.studies.evidence.measurement import ProcessHealth, learning_signatures, vital_signatures


def line(values, steps=1000):
    """A series over `steps` steps."""
    count = len(values)
    return Series(tuple(steps * i / (count - 1) for i in range(count)), tuple(map(float, values)))


def wobble(i):
    """Noise without a generator: the digits of an irrational rotation."""
    return math.modf(i * 0.6180339887)[0] - 0.5


CLIMB = line([i + wobble(i) for i in range(100)])
HEALTHY = {
    "return": CLIMB,
    "success": line([i / 100 for i in range(100)]),
    "kl": line([0.02 + 0.005 * wobble(i) for i in range(100)]),
    "learning_rate": line([3e-4 * (1 - i / 100) for i in range(100)]),
    "value_loss": line([1 + 0.1 * wobble(i) for i in range(100)]),
}


def signs(changes=None, primary="success", direction="max"):
    series = {**HEALTHY, **(changes or {})}
    return {each.id: each for each in learning_signatures(series, primary, direction)}


def test_each_trouble_of_a_curve_is_seen_and_nothing_else():
    flat = line([0.01 * wobble(i) for i in range(100)])
    bad = {each.id: each.severity for each in signs({"loss": line([1.0, math.nan])}).values()}
    assert signs() == {} and bad == {"nan_inf": "fatal"}
    assert {each.id: each.severity for each in signs({"success": flat}).values()} == {
        "metric_divergence": "warn"
    }
    assert signs({"success": line([0.5] * 100), "return": line([1.0] * 100)}) == {}
    few = {name: Series(each.steps[:9], each.values[:9]) for name, each in HEALTHY.items()}
    few["success"] = line([0.5] * 9)
    assert list(learning_signatures(few, "success", "max")) == [], "few points say nothing"
    error = line([5.0 + 0.01 * wobble(i) for i in range(100)])
    assert set(signs({"error": error}, "error", "min")) == {"metric_divergence"}
    assert signs({"error": line([100.0 - i for i in range(100)])}, "error", "min") == {}


WELL = ProcessHealth(is_alive=True, silent_s=30.0, gap_s=5.0, free_disk_gb=50.0)
ENDED = ProcessHealth(is_alive=False, has_exit_record=True, exit_code=0)
VITAL = [
    ("stalled", "warn", WELL, {"silent_s": 121.0}, {"silent_s": 119.0}),
    ("stalled", "fatal", WELL, {"silent_s": 361.0}, {"silent_s": 361.0, "gap_s": 40.0}),
    ("dead", "fatal", WELL, {"is_alive": False}, {"is_alive": False, "has_exit_record": True}),
    ("silent_failure", "fatal", ENDED, {"lacks": ("checkpoint",)}, {}),
    ("resource", "fatal", ENDED, {"text": "CUDA out of memory."}, {"text": "memory is fine"}),
    ("resource", "fatal", ENDED, {"exit_code": 137}, {"exit_code": 1}),
    ("resource", "fatal", WELL, {"free_disk_gb": 1.9}, {"free_disk_gb": 2.1}),
]


def test_vital_signs_fire_and_are_silent():
    for code, severity, base, bad, good in VITAL:
        found = {each.id: each.severity for each in vital_signatures(base._replace(**bad))}
        assert found == {code: severity}
        assert list(vital_signatures(base._replace(**good))) == []
