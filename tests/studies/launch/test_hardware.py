"""Available and missing hardware for a run."""

import sys

import pytest

from telic.errors import TelicError
from telic.studies.documents.contract import Hardware
from telic.studies.launch._machine import Machine, look, preflight, read_gpus, run_program

PRINTED = """\
0, NVIDIA A100-SXM4-40GB, 2048
1, NVIDIA A100-SXM4-40GB, 40000
2, Some Card, [N/A]
"""


def machine(**changes) -> Machine:
    facts = {
        "host": "h",
        "platform": "p",
        "processors": 2,
        "memory_gb": 8,
        "free_memory_gb": 4,
        "free_disk_gb": 100,
        "gpus": read_gpus(PRINTED),
        "python": "3.11",
        "precision_flags": {},
    }
    return Machine(**{**facts, **changes})


def wants(of: Machine, gpus=(), gpu_gb=None, disk_gb=None):
    return preflight(of, Hardware(min_free_gpu_gb=gpu_gb, min_free_disk_gb=disk_gb), gpus)


def test_what_the_driver_prints_is_read_and_the_unknown_stays_unknown(tmp_path):
    first, second, third = read_gpus(PRINTED)
    assert (first.index, first.free_gb, second.name) == (0, 2.0, "NVIDIA A100-SXM4-40GB")
    assert third.free_gb is None and read_gpus("") == ()
    found = look(tmp_path, at_gpus=False)
    assert found.processors >= 1 and found.free_disk_gb > 0 and found.gpus is None


def test_missing_hardware_is_reported():
    assert wants(machine(), gpus=(1,), gpu_gb=10, disk_gb=20) == wants(machine(gpus=None)) == []
    for changes, asked, problem in (
        ({}, {"gpus": (0,), "gpu_gb": 10}, "GPU 0 has 2 GB free"),
        ({}, {"gpus": (2,), "gpu_gb": 10}, "GPU 2 has 0 GB free"),
        ({}, {"gpus": (5,)}, "GPU 5 does not exist"),
        ({"gpus": None}, {"gpus": (0,)}, "no driver responds"),
        ({"free_disk_gb": 1}, {"disk_gb": 20}, "1 GB of disk space are free"),
    ):
        (found,) = wants(machine(**changes), **asked)
        assert problem in found


def test_a_program_answers_or_says_why_not(tmp_path):
    echo = (sys.executable, "-c", "import sys; print(sys.stdin.read().upper())")
    assert run_program(echo, tmp_path, "draft").strip() == "DRAFT"
    with pytest.raises(TelicError, match="did not run"):
        run_program(("/no/such/program",), tmp_path, "")
    with pytest.raises(TelicError, match="failed"):
        run_program((sys.executable, "-c", "raise SystemExit(3)"), tmp_path, "")
