"""Summaries of results: rates with intervals, and None for missing values."""

import json
import shutil

import pytest

from telic.bench.results import (
    FINAL,
    BenchConfig,
    BenchFolder,
    CaseResult,
    PassRate,
    Suite,
    open_folder,
    results_in,
    session_options,
    summarize,
)
from telic.errors import Refused
from telic.storage.files import JsonLines, write_json
from telic.web._benchmarks import _line
from tests.session.test_end import make_pass

DIFFICULTIES = ("easy", "easy", "medium", "hard", "hard")
SUITE = Suite.parse(
    {
        "name": "small",
        "case": [
            {
                "id": f"c{index}",
                "env": "Ant-v5" if index % 2 else "Hopper-v5",
                "intent": "walk",
                "category": "locomotion",
                "difficulty": difficulty,
            }
            for index, difficulty in enumerate(DIFFICULTIES)
        ],
    }
)
CONFIG = BenchConfig(suite="small", telic="0", options={})


def result(index, outcome, **values):
    return CaseResult(case=SUITE.case[index], outcome=outcome, finished_at="now", **values)


def found(*results):
    return summarize(SUITE, SUITE.case, CONFIG, results)


def test_every_way_not_to_pass_counts_and_has_no_score():
    sums = found(
        result(0, "passed", score=0.9, env_steps=100, seconds=10.0, usd=0.1),
        result(1, "not_passed", score=0.3, env_steps=900, seconds=90.0, usd=0.2),
        result(2, "refused", usd=0.0),
        result(3, "error", usd=0.0),
        result(4, "unconfirmed", score=1.0, env_steps=100, seconds=5.0, usd=0.0),
    )
    assert (sums.overall.passed, sums.overall.total) == (1, 5)
    assert sums.outcomes == {
        "passed": 1,
        "unconfirmed": 1,
        "not_passed": 1,
        "refused": 1,
        "error": 1,
    }
    by_difficulty = {each.name: each for each in sums.by_difficulty}
    assert list(by_difficulty) == ["easy", "medium", "hard"]
    assert by_difficulty["medium"].mean_score is None
    assert by_difficulty["hard"].mean_score == 1.0  # of the only one with a score
    assert (sums.median_seconds_to_pass, sums.median_steps_to_pass) == (10.0, 100)
    assert sums.usd == pytest.approx(0.3) and sums.seconds == 105.0


def test_results_of_cases_whose_words_changed_are_left_out():
    old = result(0, "passed")
    changed = old.case.model_copy(update={"intent": "walk well"})
    assert found(old.model_copy(update={"case": changed})).overall.total == 0


def test_benchmark_of_another_user_is_not_resumed_and_links_are_not_followed(tmp_path):
    config = BenchConfig(suite="small", telic="0", options=session_options({}))
    own = open_folder(config, tmp_path, fresh=True)
    shutil.copytree(own.path, tmp_path / "bench_small_20990101_000000_ffff")
    assert open_folder(config, tmp_path, fresh=False) == own
    (own.path / "cases").symlink_to(tmp_path)
    with pytest.raises(Refused, match="contains the link"):
        open_folder(config, tmp_path, fresh=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A benchmark with a verified pass of one session."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    folder = BenchFolder(tmp_path / "bench_small_20260101_000000_aaaa")
    make_pass(folder.path / "cases" / "c0")
    write_json(folder.config, CONFIG)
    return folder


def claim(folder, *rows):
    with JsonLines(folder.attempts) as lines:
        for row in rows:
            lines.append(folder.row(row))


def test_totals_that_no_result_supports_are_not_shown(folder):
    claim(folder)
    empty = summarize(SUITE, SUITE.case, CONFIG, [])
    forged = {"overall": PassRate.of(5, 5), "outcomes": {"passed": 5}, "waiting": ()}
    write_json(folder.results, empty.model_copy(update=forged))
    shown = _line(folder.path).summary
    assert (shown.overall.passed, shown.overall.total, shown.outcomes) == (0, 0, {})


def own_case(folder):
    """The case of the folder's session, and the session's path in the folder."""
    (session,) = folder.path.glob("cases/c0/*")
    about = json.loads((session / "session.json").read_text())
    own = SUITE.case[0].model_copy(update={key: about[key] for key in ("intent", "env")})
    return own, str(session.relative_to(folder.path))


def test_a_pass_counts_for_the_case_of_its_session_only(folder):
    own, place = own_case(folder)
    for case, outcome in (
        (own, "passed"),
        (own.model_copy(update={"intent": "do a backflip"}), "claimed"),
        (own.model_copy(update={"env": "Other-v5"}), "claimed"),
    ):
        row = CaseResult(case=case, outcome="passed", session=place, finished_at="now")
        claim(folder, row)
        assert [each.outcome for each in results_in(folder)] == [outcome]


def test_a_line_that_was_changed_or_copied_claims_a_pass(folder):
    """The session passed by its own judge, but not by the checks of the suite."""
    own, place = own_case(folder)
    row = CaseResult(case=own, outcome="unconfirmed", session=place, low=0.9, finished_at="now")
    claim(folder, row)
    folder.attempts.write_text(folder.attempts.read_text().replace("unconfirmed", "passed"))
    (found,) = results_in(folder)
    assert (found.outcome, found.low) == ("claimed", None) and "was modified" in found.reason
    assert found.outcome not in FINAL  # so it is judged again
    claim(folder, row.model_copy(update={"outcome": "passed"}))
    assert results_in(folder)[0].outcome == "passed"
    copied = BenchFolder(folder.path.rename(folder.path.with_name("bench_other")))
    assert results_in(copied)[0].outcome == "claimed"


def test_benchmark_of_an_earlier_version_is_resumed(tmp_path):
    options = session_options({"iterations": 2})
    now = BenchConfig(suite="small", telic="0", options=options)
    then = {name: value for name, value in options.items() if name != "judge"}
    earlier = open_folder(now.model_copy(update={"options": then}), tmp_path, fresh=True)
    assert open_folder(now, tmp_path, fresh=False) == earlier
    other = now.model_copy(update={"options": {**options, "judge": "theirs"}})
    assert open_folder(other, tmp_path, fresh=False) != earlier
