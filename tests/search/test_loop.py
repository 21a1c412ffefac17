"""The loop: every method on every task, budgets, gates, fallbacks, resuming, company."""

import numpy as np
import pytest

import telic
from telic.core.seeds import derive
from telic.llm import Budget, Models
from telic.search.plan import PUBLISHED
from telic.search.records import (
    NO_MODEL,
    SearchConfig,
    SearchFolder,
    SearchRunFolder,
)
from telic.search.runner import do_runs
from telic.search.task import Player
from telic.search.worlds import TASKS
from telic.storage.files import read_json, read_json_lines
from telic.storage.keys import sign_folder
from telic.testing.models import Scripted
from telic.verbs.search import search

FAULTS = ("", ":malformed", ":truncated", ":out_of_range", ":incomplete", ":failing")


@pytest.fixture(autouse=True)
def short_episodes(monkeypatch):
    """Cut every episode, so that a thousand steps of physics do not take a minute."""
    make = Player.__init__

    def make_short(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self._limit = min(self._limit, 60)

    monkeypatch.setattr(Player, "__init__", make_short)


def small(env="CartPole-v1", **changes):
    """Return a request that is done in no time."""
    values = {"env": env, "episodes": 12, "fresh_episodes": 2, **changes}
    values["switches"] = {"rollouts": 2, "confirm": 0, **changes.get("switches", {})}
    return values


def params_of(iterations, number):
    return next(c.params for i in iterations for c in i.candidates if c.number == number)


def log(found, run=1):
    return list(SearchRunFolder(found.path / f"run_{run:02d}").read())


QUICK = ("CartPole-v1", "FrozenLake-v1", "Nim-v0", "InvertedPendulum-v5")
"""one of each kind: numbers, a table, a game, a robot"""


@pytest.mark.parametrize(
    "env", [pytest.param(env, marks=[pytest.mark.slow] * (env not in QUICK)) for env in TASKS]
)
def test_every_published_method_runs_on_every_task(env, tmp_path):
    for number, method in enumerate(PUBLISHED):
        model = f"scripted{FAULTS[number % len(FAULTS)]}"
        request = small(env, method=method, model=model)
        found = search(runs_dir=tmp_path, **request)
        summary = found.summary.runs[0]
        assert summary.outcome == "completed" and summary.iterations >= 1
        assert summary.model == model and summary.calls + summary.fallbacks >= 1
        assert summary.episodes <= request["episodes"]
        assert np.isfinite(summary.fresh.mean)


def test_every_record_says_that_no_model_was_used(tmp_path):
    for env, method in (("CartPole-v1", "cma"), ("CartPole-v1", "r2po"), ("Nim-v0", "r2po")):
        found = search(runs_dir=tmp_path, **small(env, method=method, episodes=60))
        assert NO_MODEL in found.summary.label and found.summary.model == NO_MODEL
        assert all(each.model == NO_MODEL for each in log(found))
        assert found.summary.runs[0].calls == 0 and NO_MODEL in found.summary.runs[0].proposer


@pytest.mark.parametrize(
    ("env", "method", "model"),
    [
        ("CartPole-v1", "cma", None),
        pytest.param("CartPole-v1", "ars", None, marks=pytest.mark.slow),
        ("CartPole-v1", "climb", None),
        ("MountainCarContinuous-v0", "r2po", None),
        pytest.param("Nim-v0", "r2po", None, marks=pytest.mark.slow),
        ("FrozenLake-v1", "tabular", None),
        ("CartPole-v1", "r2po", "scripted"),
        pytest.param("CartPole-v1", "criticonly", "scripted", marks=pytest.mark.slow),
        pytest.param("FrozenLake-v1", "props+", "scripted", marks=pytest.mark.slow),
        pytest.param("CartPole-v1", "hybrid", "scripted", marks=pytest.mark.slow),
        pytest.param("Nim-v0", "hybrid", "scripted", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_cut_off_anywhere_resumes_to_the_same_result(env, method, model, tmp_path):
    request = small(env, method=method, model=model, episodes=120, switches={"confirm": 6})
    whole = search(runs_dir=tmp_path / "whole", **request)
    lines = (whole.path / "run_01" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) >= 3
    for kept in {1, 2, len(lines) // 2, len(lines) - 1}:
        runs_dir = tmp_path / str(kept)
        folder = SearchFolder(runs_dir / whole.path.name)
        folder.run(1).path.mkdir(parents=True)
        for name in ("search.json", "manifest.json"):
            (folder.path / name).write_bytes((whole.path / name).read_bytes())
        sign_folder(folder.path)
        # A kill in the middle of a line leaves a torn one.
        torn = lines[kept][: len(lines[kept]) // 2]
        folder.run(1).journal.write_bytes(b"".join(lines[:kept]) + torn)
        again = search(runs_dir=runs_dir, **request)
        assert again.path == folder.path
        assert [_facts(each) for each in log(again)] == [_facts(each) for each in log(whole)]
        assert again.summary.runs[0].best == whole.summary.runs[0].best
        assert again.summary.runs[0].fresh == whole.summary.runs[0].fresh


def _facts(iteration):
    facts = iteration.model_dump()
    for call in facts["calls"]:
        del call["seconds"]
    return facts


def test_stopped_search_is_saved_and_the_same_command_resumes_it(tmp_path):
    request = small(model="scripted", episodes=40)
    asked = iter([False, False, True])
    stopped = search(runs_dir=tmp_path, should_stop=lambda: next(asked, True), **request)
    assert stopped.summary.outcome == "stopped" and not stopped.summary.runs
    finished = search(runs_dir=tmp_path, **request)
    assert finished.path == stopped.path and finished.summary.outcome == "completed"
    again = search(runs_dir=tmp_path, fresh=True, **request)
    assert again.path != finished.path and log(again)[-1].candidates == log(finished)[-1].candidates


def test_an_answer_that_never_becomes_valid_is_replaced_by_a_marked_numeric_step(tmp_path):
    run = _run(tmp_path, small(method="props"), lambda request: {"params": [1], "explanation": ""})
    iteration = run[-1]
    assert iteration.candidates[0].origin == "fallback:climb"
    assert "expected 10 numbers, got 1" in iteration.note and "numeric step" in iteration.note


def test_a_repair_prompt_names_the_fault_and_the_repaired_answer_counts(tmp_path):
    prompts = []

    def answer(request):
        prompts.append(request.prompt)
        is_repair = "not accepted" in request.prompt
        return {"params": [9.0] + [0.123] * 9 if is_repair else [1, 2], "explanation": "because"}

    request = small(method="props", episodes=2, switches={"rollouts": 1})
    candidate = _run(tmp_path, request, answer)[-1].candidates[0]
    assert "expected 10 numbers, got 2" in prompts[1]
    assert candidate.params[0] == 6.0 and candidate.params[1] == 0.12
    assert "clipped" in candidate.warnings[0] and "rounded" in candidate.warnings[1]
    assert candidate.explanation == "because"


GOOD = [0, 0, 0, 0, -6, 6, -2, 2, 0, 0]  # leans with the pole: good on CartPole
BAD = [0, 0, 0, 0, 6, -6, 2, -2, 0, 0]


def _good_then_bad(request):
    return {"params": BAD if request.role == "critic" else GOOD, "explanation": "x"}


@pytest.mark.parametrize(
    ("select", "winner"), [("keep_best", "first"), ("always_second", "second")]
)
def test_selection_keeps_the_better_or_always_the_second(select, winner, tmp_path):
    request = small(method="r2po", episodes=8, switches={"select": select})
    last = _run(tmp_path, request, _good_then_bad)[-1]
    assert last.winner == winner
    assert last.incumbent == last.candidates[0].number, "the incumbent is the best in any case"


def test_call_budget_is_hard_and_a_larger_one_resumes(tmp_path):
    from telic.llm import BudgetExceeded

    request = small(model="scripted", episodes=40)
    with pytest.raises(BudgetExceeded, match="5 model calls"):
        search(runs_dir=tmp_path, max_calls=5, **request)
    (folder,) = tmp_path.iterdir()
    done = list(SearchFolder(folder).run(1).read())
    assert sum(len(each.calls) for each in done) == 4, "the fifth call's iteration was not done"
    found = search(runs_dir=tmp_path, max_calls=100, **request)
    assert found.path == folder and found.summary.outcome == "completed"
    assert list(SearchFolder(folder).run(1).read())[: len(done)] == done


def test_finalists_are_compared_on_new_episodes_and_measured_on_others(tmp_path):
    found = search(
        runs_dir=tmp_path,
        env="FrozenLake-v1",
        method="climb",
        episodes=200,
        fresh_episodes=5,
        switches={"rollouts": 4, "confirm": 4},
    )
    *earlier, last = log(found)
    finals = [each for each in last.checks if each.is_final]
    assert len(finals) > 4 and not any(c.is_final for each in earlier for c in each.checks)
    played = {each.candidate: () for each in finals}
    for each in finals:
        played[each.candidate] += each.tried.returns
    lasted = {len(returns) for returns in played.values()}
    assert len(lasted) > 1, "a race: the better half goes on"
    assert len(played[last.incumbent]) == max(lasted)
    assert np.mean(played[last.incumbent]) == last.incumbent_mean
    assert found.best.best == params_of(log(found), last.incumbent)
    used = {
        c.tried.seed
        for each in log(found)
        for c in (*each.candidates, *each.checks)
        if c not in finals
    }
    fresh = derive("fresh", "FrozenLake-v1", 0, 1)
    deciding = {each.tried.seed for each in finals}
    assert not deciding & used and fresh not in deciding | used


def test_a_run_may_end_when_its_task_is_solved(tmp_path):
    request = {"env": "Nim-v0", "method": "tabular", "episodes": 2000, "fresh_episodes": 20}
    found = search(runs_dir=tmp_path, stop_when_solved=True, **request)
    summary = found.summary.runs[0]
    assert summary.outcome == "completed" and summary.episodes < 1200
    assert summary.fresh.mean == 1.0 and found.summary.protocol.stops_when_solved
    assert log(found)[-1].checks[-1].is_final, "finalists are told apart as always"
    (folder,) = tmp_path.iterdir()
    (folder / "summary.json").unlink()
    (folder / "run_01" / "summary.json").unlink()
    again = search(runs_dir=tmp_path, stop_when_solved=True, **request)
    assert again.path == found.path and again.summary.runs[0].episodes == summary.episodes


def test_the_manifest_freezes_protocol_switches_and_versions(tmp_path):
    found = search(runs_dir=tmp_path, **small(method="random", episodes=40))
    manifest = read_json(found.path / "manifest.json")
    assert manifest["protocol"]["env"] == "CartPole-v1"
    assert manifest["versions"]["telic"] == telic.__version__ and "numpy" in manifest["versions"]
    assert manifest["protocol_key"] == found.summary.protocol.key
    events = [each["event"] for each in read_json_lines(found.path / "events.jsonl")]
    assert events[0] == "search.start" and "search.run" in events


def _run(path, request, answer):
    """Do one run with a scripted model, and return its log."""
    config = SearchConfig.parse({**request, "model": "scripted"})
    models = Models(Scripted(answer), path, budget=Budget())
    do_runs(config, path, [1], models=models)
    return list(SearchRunFolder(path / "run_01").read())


@pytest.mark.slow
def test_runs_are_the_same_together_alone_and_in_processes(tmp_path, monkeypatch):
    monkeypatch.undo()  # other processes play episodes of full length
    request = small(method="cma", episodes=60, runs=3)
    together = search(runs_dir=tmp_path / "a", jobs=1, **request)
    apart = search(runs_dir=tmp_path / "b", jobs=2, **request)
    for run in (1, 2, 3):
        assert log(together, run) == log(apart, run)
    bests = [run.best for run in together.summary.runs]
    assert len(set(bests)) == 3, "runs are independent"


def test_a_policy_that_was_tried_is_refused_where_no_change_is_not_allowed(tmp_path):
    def answer(request):
        return {"params": [1.0] * 10, "explanation": ""}

    log_ = _run(tmp_path, small(method="props"), answer)
    assert [each.candidates[0].origin for each in log_[1:3]] == ["llm", "fallback:climb"]
    assert "already evaluated" in log_[2].note
    unchanged = _run(tmp_path / "b", small(method="r2po", episodes=8), answer)[-1]
    first, second = unchanged.candidates
    assert first.params == second.params
    assert first.tried.seed != second.tried.seed, "the same episodes would count twice"
    assert unchanged.winner == "first", "a tie keeps the original"
