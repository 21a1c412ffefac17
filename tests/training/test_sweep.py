"""Sweeps: grids and samples of ranges, and rounds of Optuna that resume."""

import pytest

from telic.core.text import crossed
from telic.errors import ConfigError, UsageError
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.training.job import TrainRequest
from telic.training.sweep import sampled
from telic.verbs import train as verb
from telic.verbs.train import train
from tests.training.small import SETTINGS

_SMALL = {
    **{"settings": SETTINGS, "steps": 512, "evaluations": 1, "eval_episodes": 2},
    **{"videos": "none", "confined": False},
}


def _variants(*words, **options):
    return sampled(TrainRequest("Hopper-v5", variants=crossed(words, "--vary"), **options)).variants


def test_ranges_of_a_decade_are_sampled_on_a_logarithmic_scale():
    grid = _variants("learning_rate=1e-4..1e-2", "gamma=0.9..0.99", "clip=0.1,0.2", samples=2)
    assert len(grid) == 8
    assert {each["learning_rate"] for each in grid} == {1e-4, 1e-2}
    middle = _variants("learning_rate=1e-4..1e-2", "gamma=0.9..0.99", samples=1)
    assert list(middle) == [{"learning_rate": 1e-3, "gamma": 0.945}]
    assert len(_variants("learning_rate=1e-4..1e-2")) == 3


@pytest.mark.parametrize("text", ["1e-2..1e-4", "0.1...0.2", "a..b", "0.1..inf", "fast"])
def test_other_texts_are_refused(text):
    with pytest.raises(ConfigError, match="not a list or range"):
        _variants(f"learning_rate={text}")


def test_optuna_proposes_from_returns_and_resumes(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="optuna is not installed")
    ranges = {"learning_rate": "1e-4..1e-2", "gamma": "0.9..0.99"}
    asked = {**_SMALL, "variants": [ranges], "sampler": "optuna", "samples": 6}
    whole = train("InvertedPendulum-v5", **asked, runs_dir=tmp_path / "whole")
    once, rounds = verb._train_once, []

    def interrupted(request):
        rounds.append(request.variants)
        return once(request) if len(rounds) != 2 else 1 / 0

    monkeypatch.setattr(verb, "_train_once", interrupted)
    with pytest.raises(ZeroDivisionError):
        train("InvertedPendulum-v5", **asked, runs_dir=tmp_path / "parts")
    parts = train("InvertedPendulum-v5", **asked, runs_dir=tmp_path / "parts")
    assert list(map(len, rounds)) == [4, 2, 2] and rounds[1] == rounds[2]
    assert [path.name for path in (tmp_path / "parts").glob("*/config.json")] == ["config.json"]
    found = []
    for run in (whole, parts):
        summaries = {each.name: read_json(each.summary) for each in RunFolder(run.path).members()}
        found.append({name: {**x, "training_time_s": 0} for name, x in summaries.items()})
    assert len(found[0]) == 6 and found[0] == found[1]
    with pytest.raises(UsageError, match="different rewards"):
        train("InvertedPendulum-v5", **{**asked, "reward": [None, "forward"]}, runs_dir=tmp_path)
