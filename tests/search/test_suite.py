"""Suites: rows that apply, tests declared first, one table, and nothing done twice."""

import json

import pytest

from telic.errors import ConfigError, UnknownName
from telic.search.accounting import ACCOUNTINGS, published
from telic.search.suite import plan_suite, run_suite
from telic.search.suite_results import (
    RowResult,
    SuiteConfig,
    SuitePlan,
    put_together,
    suite_tables,
)
from telic.search.tables import markdown
from telic.search.worlds import TASKS
from telic.storage.files import read_record
from telic.verbs.search import suite

QUICK = {"envs": ("Nim-v0", "Maze-v0"), "methods": ("tabular", "random"), "terms": ("own",)}
SMALL = {"runs": 2, "episodes": 240, "fresh_episodes": 3}


def config(**changes):
    return SuiteConfig.parse({**QUICK, **SMALL, **changes})


def test_the_whole_suite_has_a_leading_row_per_task_and_terms_and_says_what_does_not_apply():
    plan = plan_suite(SuiteConfig())
    leading = {(row.env, row.terms): row.method for row in reversed(plan.rows)}
    for env in TASKS:
        is_table = env in ("Nim-v0", "FrozenLake-v1", "Maze-v0")
        assert (
            leading[env, "own"] == leading[env, "published"] == ("tabular" if is_table else "cma")
        )
        assert ((env, "raw") in leading) is not is_table
        methods = [row.method for row in plan.rows if row.env == env and row.terms == "own"]
        assert methods == [leading[env, "own"], "climb", "random"]
    assert any("table of choices" in why for why in plan.left_out)
    declared = [test for test in plan.tests if test.startswith("Pong-v0")]
    assert sum("fresh of cma (own) against" in test for test in declared) == 4
    assert sum("against published r2po" in test for test in declared) == 3
    assert all("Welch" in test and "Holm" in test for test in plan.tests)


def test_baselines_have_a_second_row_of_equal_steps_behind_a_search():
    pytest.importorskip("stable_baselines3")
    plan = plan_suite(config(methods=("tabular", "sb3:ppo"), equal_steps=True))
    rows = [(row.method, row.has_equal_steps) for row in plan.rows if row.env == "Nim-v0"]
    assert rows == [("tabular", False), ("sb3:ppo", False), ("sb3:ppo", True)]
    with pytest.raises(ConfigError, match="no search comes before sb3:ppo"):
        plan_suite(config(methods=("sb3:ppo", "tabular"), equal_steps=True))


def test_what_cannot_be_done_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(UnknownName, match="cmaa"):
        run_suite(config(methods=("tabular", "cmaa")), tmp_path)
    with pytest.raises(UnknownName, match="Nimm"):
        run_suite(config(envs=("Nimm-v0",)), tmp_path)
    with pytest.raises(ConfigError, match="No method applies"):
        run_suite(config(methods=("cma",)), tmp_path)
    with pytest.raises(ConfigError, match="no room"):
        run_suite(config(episodes=10), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_suite_that_was_stopped_goes_on_and_a_finished_one_is_only_shown(tmp_path):
    whole = run_suite(config(), tmp_path / "whole", jobs=1)
    calls = iter([False] * 4)
    stopped = run_suite(config(), tmp_path / "cut", jobs=1, should_stop=lambda: next(calls, True))
    assert stopped.results.outcome == "stopped" and len(stopped.results.rows) < 4
    declared = (stopped.path / "suite.json").read_bytes()
    found = run_suite(config(), tmp_path / "cut", jobs=1)
    assert found.path == stopped.path and found.results.outcome == "completed"
    assert (found.path / "suite.json").read_bytes() == declared
    assert [row.values for row in found.results.rows] == [row.values for row in whole.results.rows]
    searches = sorted(path.name for path in found.path.glob("search_*"))
    again = run_suite(config(), tmp_path / "cut", jobs=1)
    assert sorted(path.name for path in again.path.glob("search_*")) == searches
    assert again.results == found.results and len(searches) == 4
    assert read_record(found.path / "suite.json", SuitePlan) == plan_suite(config())
    text = (found.path / "table.md").read_text()
    assert "better of two" in text and "the paper's" in text and "tasks by verdict" in text
    other = suite(**{**QUICK, **SMALL, "runs": 1}, runs_dir=tmp_path / "cut", jobs=1)
    assert other.path != found.path, "another request is another suite"
    assert json.dumps(other.as_data())


def _results(values):
    plan = plan_suite(SuiteConfig(envs=("Pong-v0",), methods=("cma", "random"), terms=("own",)))
    rows = [
        RowResult(
            row=row,
            search="s",
            label="x",
            episodes_per_candidate=5,
            steps=10.0,
            values=values[row.method],
        )
        for row in plan.rows
    ]
    return put_together(plan, rows)


def test_the_table_holds_ours_and_theirs_and_counts_verdicts_once_per_task():
    high = dict.fromkeys(ACCOUNTINGS, (3.0, 3.0, 2.99, 3.0))
    low = dict.fromkeys(ACCOUNTINGS, (0.2, 0.3, 0.1, 0.2))
    found = _results({"cma": high, "random": low})
    assert [t.other for t in found.tests] == ["random (own)"] and found.tests[0].holm_p < 0.001
    assert {claim.theirs for claim in found.claims} == set(published("Pong-v0"))
    assert sum(found.tally("own", "r2po").values()) == 1 and found.tally("own", "props")["win"] >= 1
    main, claims, counts, tests = suite_tables(found)
    assert [row[1] for row in main.rows] == ["cma", "random", *published("Pong-v0")]
    r2po = next(row for row in main.rows if row[1] == "r2po")
    assert r2po[4] is None and "2.51" in r2po[5] and r2po[7] is None, "never published"
    assert len(claims.rows) == 4 and len(tests.rows) == 1 and counts.rows
    assert "–" in markdown(main)


def test_a_low_row_is_a_loss_or_a_tie_and_never_hidden():
    low = dict.fromkeys(ACCOUNTINGS, (0.2, 0.3, 0.1, 0.2))
    found = _results({"cma": low, "random": low})
    assert found.tally("own", "r2po")["loss"] == 1
