"""Analysis: statistics by hand, honest comparisons, control groups, files people can read."""

import numpy as np
import pytest

from telic.errors import Refused, UnknownName, UsageError
from telic.llm import Budget, Models, Scripted
from telic.search import labels, revisions
from telic.search.compare import compare_pair, compare_searches, holm, write_comparison
from telic.search.records import NO_MODEL, PolicyCandidate, SearchProtocol, TrialEpisodes
from telic.search.report import curve, draw_curves, page_data, project, write_page
from telic.search.results import load
from telic.search.tables import ResultTable, comma_separated, latex, markdown, table_picture
from telic.verbs.search import search

_MANY = {"gate": "off", "rollouts": 2, "confirm": 0}


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("searches")
    small = {"runs_dir": folder, "runs": 3, "episodes": 120, "fresh_episodes": 5, "jobs": 1}
    made = {
        "cma": search("CartPole-v1", method="cma", **small),
        "random": search("CartPole-v1", method="random", **small),
        "longer": search("CartPole-v1", method="cma", **{**small, "episodes": 150}),
        "r2po": search("CartPole-v1", method="r2po", switches=_MANY, **small),
        "scripted": search("CartPole-v1", method="props", model="scripted", **small),
        "nim": search("Nim-v0", method="tabular", **small),
    }
    return folder, {name: each.path.name for name, each in made.items()}


def read(runs_dir, name):
    return load(runs_dir[0], runs_dir[1][name])


def test_holm_multiplies_by_what_is_left_and_never_decreases():
    tests = [
        compare_pair("x", [0, 1], "y", [0, 1]).model_copy(update={"welch_p": p})
        for p in (0.01, 0.04, 0.03)
    ]
    assert [each.holm_p for each in holm(tests)] == pytest.approx([0.03, 0.06, 0.06])


def test_equal_terms_compare_and_say_that_no_model_was_used(runs_dir, tmp_path):
    found = compare_searches([read(runs_dir, "cma"), read(runs_dir, "random")])
    assert all(NO_MODEL in line.label for line in found.report.lines)
    assert found.report.tests[0].holm_p is not None or found.report.tests[0].welch_p is None
    write_comparison(found, tmp_path)
    for name in ("table.md", "table.csv", "table.tex", "table.png", "CartPole-v1-incumbent.svg"):
        assert (tmp_path / name).stat().st_size > 100
    assert NO_MODEL in (tmp_path / "CartPole-v1-incumbent.svg").read_text()
    assert NO_MODEL in (tmp_path / "table.md").read_text()


def test_unequal_terms_are_refused_with_the_difference(runs_dir):
    pair = [read(runs_dir, "cma"), read(runs_dir, "longer")]
    with pytest.raises(Refused, match="episodes: 120 against 150"):
        compare_searches(pair)
    assert compare_searches(pair, despite_differences=True).report.differences


def test_a_metric_that_means_two_things_is_refused_and_other_differences_are_stated(runs_dir):
    pair = [read(runs_dir, "cma"), read(runs_dir, "r2po")]
    found = compare_searches(pair)
    assert any("rollouts: 5 against 2" in note for note in found.report.notes)
    for metric, reason in (
        ("best_seen", "means of 5 against 2 episodes"),
        ("better_of_two", "means of 5 against 2 episodes"),
        ("mean_selected", "the best of 10 candidates against the best of 11"),
    ):
        with pytest.raises(Refused, match=reason):
            compare_searches(pair, metric)
    other = pair[1]._replace(
        summary=pair[1].summary.model_copy(update={"versions": {"numpy": "1.0"}})
    )
    stated = compare_searches([pair[0], other]).report.notes
    assert any("numpy" in note for note in stated)
    headline = other.plan._replace(switches=other.plan.switches.replace(report="selected"))
    with pytest.raises(Refused, match="headline counts all_candidates against selected"):
        compare_searches([pair[0], other._replace(plan=headline)], "mean")


@pytest.mark.parametrize("name", SearchProtocol.model_fields)
def test_no_difference_of_protocol_goes_unsaid(runs_dir, name):
    one = read(runs_dir, "cma").summary.protocol
    value = getattr(one, name)
    changed = {bool: lambda v: not v, str: lambda v: v + "x"}.get(
        type(value), lambda v: (v or 0) + 1
    )
    other = one.model_copy(update={name: changed(value)})
    assert one.differences(other) + one.stated(other) or name == "env"


def test_the_scripted_model_is_refused(runs_dir):
    with pytest.raises(Refused, match="for tests only"):
        compare_searches([read(runs_dir, "cma"), read(runs_dir, "scripted")])


def test_an_unknown_metric_or_search_is_named(runs_dir):
    with pytest.raises(UnknownName, match="freshness"):
        compare_searches([read(runs_dir, "cma")], "freshness")
    with pytest.raises(UsageError, match="search_9"):
        load(runs_dir[0], "search_9")


def test_curves_hold_the_incumbent_until_the_next_one():
    logs = [[_Point(10, 1.0), _Point(20, 5.0)], [_Point(5, 3.0), _Point(20, 5.0)]]
    found = curve(logs)
    at = dict(zip(found.episodes.round(6).tolist(), found.mean.tolist(), strict=True))
    assert at[10.0] == 2.0 and at[20.0] == 5.0 and min(at) == 10.0
    assert "<svg" in draw_curves("t", {"a": found})


class _Point:
    def __init__(self, episodes, mean):
        self.episodes, self.incumbent_mean = episodes, mean


def test_tables_keep_missing_numbers_missing():
    table = ResultTable("a_b", ["x|y", "z"], [("50 %", None), ("b", 0.123456)])
    assert "| 50 % | – |" in markdown(table) and r"x\|y" in markdown(table)
    assert comma_separated(table) == "x|y,z\n50 %,\nb,0.123456\n"
    assert r"a\_b" in latex(table) and r"50 \% & --" in latex(table)
    assert table_picture(table).std() > 0


def _candidate(returns, params=(0.0,), place="first", why=""):
    tried = TrialEpisodes(seed=0, returns=tuple(returns), lengths=(1,) * len(returns), ends="t")
    return PolicyCandidate(
        number=0, params=params, origin="x", place=place, explanation=why, tried=tried
    )


def test_vivid_episodes_and_reward_groups():
    groups = {
        (1, 1, 1): ("identical", False),
        (0, 0, 1): ("worst = median < best", False),
        (0, 1, 1): ("worst < median = best", True),
        (0, 1, 2): ("all different", True),
    }
    for returns, (name, vivid) in groups.items():
        assert revisions.reward_group(_candidate(returns)) == name
        assert revisions.is_vivid(_candidate(returns)) is vivid


def test_a_risk_ratio_has_an_interval_or_is_undefined():
    ratio, low, high = revisions.risk_ratio(20, 40, 10, 40)
    assert ratio == 2.0 and low < 2 < high and low == pytest.approx(1.077, abs=0.01)
    assert revisions.risk_ratio(0, 40, 10, 40) == (None, None, None)


def test_label_pairs_differ_in_one_letter_and_name_the_true_worst_once(runs_dir):
    result = read(runs_dir, "cma")
    pairs = labels.label_pairs(result, 6)
    assert len(pairs) == 6
    for pair in pairs:
        honest, moved = pair.honest.text, pair.moved.text
        differing = [(a, b) for a, b in zip(honest, moved, strict=True) if a != b]
        assert len(differing) == 1 and set(differing[0]) < set("ABC")
        returns = pair.candidate.tried.returns
        assert returns[pair.worst] == min(returns)
        # CartPole pays one per step, so the episode that is called the worst is the shortest.
        named = honest.split(f"### Episode {differing[0][0]}")[1]
        assert f"after {min(returns):.0f} steps" in named.split("### ")[0]
    assert len({pair.honest.text.index("is the worst") for pair in pairs}) > 1


def test_a_model_that_chases_the_label_is_found_out_and_one_that_does_not_is_not(
    runs_dir, tmp_path
):
    result = read(runs_dir, "cma")
    good, bad = [0, 0, 0, 0, -6, 6, -2, 2, 0, 0], [0, 0, 0, 0, 6, -6, 2, -2, 0, 0]
    honest = {pair.honest.text for pair in labels.label_pairs(result, 6)}

    def chase(request):
        return {"params": bad if request.prompt in honest else good, "explanation": ""}

    def report(answer, name):
        models = Models(Scripted(answer), tmp_path / name, budget=Budget())
        return labels.label_report(result, models, 6)

    found = report(chase, "chase")
    assert found.pairs == 6 and found.overall.mean < 0 and "do worse for it" in found.conclusion
    assert found.regressed_honest >= found.regressed_moved
    fair = report(lambda request: {"params": good, "explanation": ""}, "fair")
    assert fair.overall.mean == fair.on_worst.mean == 0 and "No sign" in fair.conclusion


def test_too_few_pairs_say_nothing():
    effect = labels._effect(np.array([3.0, 4.0, 5.0, 6.0]))
    report = labels.LabelReport(
        title="",
        model="",
        pairs=4,
        unanswered=0,
        regressed_honest=0,
        regressed_moved=0,
        on_worst=effect,
        overall=effect,
    )
    assert "cannot tell" in report.conclusion and effect.low > 0
    more = labels._effect(np.array([3.0, 4.0, 5.0, 6.0, 7.0]))
    found = report.model_copy(update={"pairs": 5, "on_worst": more})
    assert "do better on its start" in found.conclusion


def test_labels_need_episodes_that_differ_and_answers_that_are_valid(runs_dir, tmp_path):
    result = read(runs_dir, "cma")
    models = Models(Scripted(lambda request: {"params": [1]}), tmp_path, budget=Budget())
    with pytest.raises(UsageError, match="no valid answer"):
        labels.label_report(result, models, 1)
    with pytest.raises(UsageError, match="stands out"):
        labels.label_pairs(result._replace(iterations={}), 1)


def test_salience_and_edits_look_at_every_revision(runs_dir):
    result = read(runs_dir, "r2po")
    report = revisions.salience_report(result)
    pairs = len(revisions.revisions(result))
    groups = (report.regressions, report.improvements, report.unchanged)
    assert pairs > 0 and sum(each.cases for each in groups) == pairs
    assert sum(report.reward_groups.values()) == pairs and report.conclusion
    found = revisions.edit_report(result)
    sorted_ = sum(found.regressions.values()) + sum(found.improvements.values())
    assert sorted_ + found.equal_with_edit + found.equal_without_edit == pairs == found.revisions


def test_edit_patterns_follow_their_rules():
    levels = revisions.Levels(20, 200, 450)
    assert revisions.regression(480, -50, 0, levels) == "chance alone"
    assert revisions.regression(480, -50, 9, levels) == "spoiled a nearly optimal policy"
    assert revisions.regression(300, -50, 2, levels) == "a small fix backfired"
    assert revisions.regression(10, -1, 9, levels) == "redesign without information"
    assert revisions.regression(100, -1, 5, levels) == "other"
    assert revisions.improvement(480, 2, levels) == "fine-tuning"
    assert revisions.improvement(300, 2, levels) == "a small fix hit the point"
    assert revisions.improvement(10, 9, levels) == "rescue guided by history"
    assert revisions.improvement(100, 5, levels) == "a fix of several numbers"
    first, second = _candidate([1], (0.0, 1.0)), _candidate([1], (0.04, 1.2))
    assert revisions.edit_distance(first, second, is_table=False) == 1


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


def test_the_page_plays_each_runs_own_policies(tmp_path):
    request = {"method": "random", "policy": "random-features", "episodes": 20, "runs": 2}
    found = search(
        "CartPole-v1",
        runs_dir=tmp_path,
        jobs=1,
        fresh_episodes=2,
        switches={"rollouts": 1, "confirm": 0},
        **request,
    )
    data = page_data(load(tmp_path, found.path.name))
    played = [each for each in data["candidates"] if each["movie"] is not None]
    assert {each["run"] for each in played} == {1, 2}
    for each in played:
        assert data["movies"][each["movie"]]["return"] == pytest.approx(each["mean"])


def test_explanations_cannot_end_the_script(runs_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("telic.search.report.page_data", lambda result: {"why": "</script><b>"})
    text = write_page(read(runs_dir, "cma"), tmp_path / "page.html").read_text()
    assert "</script><b>" not in text and "<\\/script>" in text


def test_a_map_is_flat_whatever_the_rank():
    for rank in (1, 2, 9):
        flat = project(np.random.default_rng(0).normal(size=(20, rank)))
        assert flat.shape == (20, 2) and np.abs(flat).max() == pytest.approx(1.0)
