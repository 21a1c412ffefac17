"""Searches that a coding agent answered as the model, played again: they come to the same returns.

Each recording holds every answer in the order it was asked for, and the returns of every iteration.
The answers are stored again under the keys of today's prompts, so wording may change; what is
tried, selected and measured may not.
"""

import json
from pathlib import Path

import pytest

from telic.llm import Models
from telic.search import runner
from telic.search.records import SearchRunFolder
from telic.testing.models import Scripted
from telic.verbs.search import search

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


def search_again(recorded, provider, runs_dir, monkeypatch):
    """Run a recorded request with another provider in the place of the host."""
    monkeypatch.setattr(
        runner, "connect", lambda name, folder, **more: Models(provider, folder, **more)
    )
    asked = {name: recorded[name] for name in ("env", "method", "switches", "episodes", "seed")}
    return search(runs_dir=runs_dir, model="host", **asked)


def log(found):
    return [each for each in SearchRunFolder(found.path / "run_01").read() if each.number > 0]


def returns(iterations):
    out = []
    for each in iterations:
        proposed, revised = (round(one.mean, 4) for one in each.candidates)
        out.append(
            {
                "number": each.number,
                "proposed": proposed,
                "revised": revised,
                "incumbent": round(each.incumbent_mean, 4),
            }
        )
    return out


@pytest.fixture(scope="module", params=RECORDED, ids=lambda path: path.stem)
def run(request, tmp_path_factory):
    """Return a recording, and the search that its answers, given in their order, lead to."""
    recorded, folder = json.loads(request.param.read_text()), tmp_path_factory.mktemp("runs")
    script = {}
    for each in recorded["answers"]:
        script.setdefault(each["role"], []).append(each["answer"])
    provider = Scripted(script, "host")
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = search_again(recorded, provider, folder / "runs", monkeypatch)
    return recorded, found, folder


def test_the_returns_of_every_iteration_are_those_of_the_recording(run):
    recorded, found, _ = run
    summary = found.summary.runs[0]
    assert returns(log(found)) == recorded["iterations"]
    assert list(summary.best) == recorded["best"]
    assert round(summary.fresh.mean, 4) == recorded["fresh"]
    assert summary.calls == len(recorded["answers"]) and summary.fallbacks == 0
