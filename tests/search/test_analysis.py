"""The report of a search, and how its results are counted."""

import pytest

from telic.search.records import PolicyCandidate, SearchIteration, TrialEpisodes
from telic.search.report import page_data, write_page
from telic.search.runner import load_search
from telic.verbs.search import search


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searches")
    small = {"runs_dir": folder, "runs": 3, "episodes": 120, "fresh_episodes": 5, "jobs": 1}
    made = {
        "cma": search("CartPole-v1", method="cma", **small),
        "scripted": search("CartPole-v1", method="props", model="scripted", **small),
        "nim": search("Nim-v0", method="tabular", **small),
    }
    return folder, {name: each.path.name for name, each in made.items()}


def read(runs_dir, name):
    return load_search(runs_dir[0], runs_dir[1][name])


def iteration(number, *means):
    candidates = tuple(
        PolicyCandidate(
            number=100 * number + place,
            params=(float(mean),),
            origin="x",
            tried=TrialEpisodes(seed=0, returns=(float(mean),), lengths=(1,), ends="t"),
        )
        for place, mean in enumerate(means)
    )
    return SearchIteration(
        number=number,
        candidates=candidates,
        selected=candidates[0].number,
        winner="first",
        incumbent=candidates[0].number,
        incumbent_mean=float(means[0]),
        episodes=1,
        steps=1,
        model="x",
    )


def test_the_page_holds_every_policy_and_plays_the_best(runs_dir, tmp_path):
    for name in ("cma", "nim", "scripted"):
        result = read(runs_dir, name)
        data = page_data(result)
        assert len(data["candidates"]) == sum(run.candidates for run in result.summary.runs)
        best = [each for each in data["candidates"] if each["best"]]
        assert best and all(each["movie"] is not None for each in best)
        assert all(each["why"] or each["origin"] in data["makers"] for each in data["candidates"])
        assert data["runs"][0]["episodes"] == 5
        text = write_page(result, tmp_path / f"{name}.html").read_text()
        assert "/*DATA*/" not in text and data["model"] in text and "http" not in data["label"]


def test_explanations_cannot_end_the_script(runs_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("telic.search.report.page_data", lambda result: {"why": "</script><b>"})
    text = write_page(read(runs_dir, "cma"), tmp_path / "page.html").read_text()
    assert "</script><b>" not in text and "\\u003c/script>" in text
