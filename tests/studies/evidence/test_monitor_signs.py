"""Every alert about a live run is raised for a planted problem, and not for a healthy run."""

import math

from telic.studies.evidence._logs import Series
from telic.studies.evidence.measurement import ProcessHealth, log_alerts, process_alerts

WELL = ProcessHealth(is_alive=True, silent_s=30.0, gap_s=5.0, free_disk_gb=50.0)
ENDED = ProcessHealth(is_alive=False, has_ended=True)
CASES = [
    ("stalled", "warn", WELL, {"silent_s": 121.0}, {"silent_s": 119.0}),
    ("stalled", "fatal", WELL, {"silent_s": 361.0}, {"silent_s": 361.0, "gap_s": 40.0}),
    ("dead", "fatal", WELL, {"is_alive": False}, {"is_alive": False, "has_ended": True}),
    ("resource", "fatal", ENDED, {"text": "CUDA out of memory."}, {"text": "memory is fine"}),
    ("resource", "fatal", WELL, {"free_disk_gb": 1.9}, {"free_disk_gb": 2.1}),
]


def test_alerts_about_the_process():
    for code, severity, base, bad, good in CASES:
        found = {each.id: each.severity for each in process_alerts(base._replace(**bad))}
        assert found == {code: severity}
        assert list(process_alerts(base._replace(**good))) == []


def test_a_value_that_is_not_finite_is_fatal_if_training_depends_on_it():
    steps = (0.0, 1.0)
    series = {name: Series(steps, (1.0, math.nan)) for name in ("value_loss", "success", "fps")}
    found = list(log_alerts(series, "success"))
    assert [each.evidence.split()[0] for each in found] == ["success", "value_loss"]
    assert {each.severity for each in found} == {"fatal"}
    assert list(log_alerts({"value_loss": Series(steps, (1.0, 2.0))}, "success")) == []
