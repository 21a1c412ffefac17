"""A benchmark of intents: every case counted, resumable, and honest about what went wrong."""

import pytest

from telic.bench.intents import bench_intents
from telic.bench.results import BenchFolder, Suite
from telic.errors import BadEnvironment, ConfigError, Refused
from telic.session.loop import run_session
from telic.storage.files import read_json, read_json_lines
from tests.bench.stub import StubRunner

INTENTS = ("run", "fly", "crash", "crawl", "glide")
SUITE = Suite.parse(
    {
        "name": "small",
        "case": [
            {
                "id": intent,
                "env": "HalfCheetah-v5",
                "intent": intent,
                "category": "locomotion",
                "difficulty": "easy",
            }
            for intent in INTENTS
        ],
    }
)
PLAN = {
    "run": "passed",
    "fly": Refused("Nothing in it is a movement."),
    "crash": ZeroDivisionError("division by zero"),
    "crawl": "not_passed",
    "glide": BadEnvironment("It cannot glide."),
}


def outcomes(found):
    return {each.case.id: each.outcome for each in found.summary.results}


def test_every_case_ends_with_an_outcome_and_a_reason(tmp_path):
    found = bench_intents(SUITE, runs_dir=tmp_path, run_session=StubRunner(PLAN), seeds=(1,))
    assert outcomes(found) == {
        "run": "passed",
        "fly": "refused",
        "crash": "error",
        "crawl": "not_passed",
        "glide": "refused",
    }
    by_id = {each.case.id: each for each in found.summary.results}
    assert by_id["fly"].score is None and "Nothing in it" in by_id["fly"].reason
    assert by_id["crash"].score is None
    assert by_id["crash"].reason == "ZeroDivisionError: division by zero"
    assert "division by zero" in (BenchFolder(found.path).case("crash") / "error.txt").read_text()
    assert "0 of 1 training seeds proved 0.8" in by_id["crawl"].reason
    assert "too_slow" in by_id["crawl"].reason
    assert by_id["run"].criteria[0].value == 1.0 and by_id["run"].criteria[0].unit == "m/s"
    assert by_id["run"].usd == 0.0  # nobody was asked
    assert found.summary.overall.passed == 1 and found.summary.overall.total == 5
    assert read_json(found.path / "results.json")["overall"]["share"] == pytest.approx(0.2)


def test_same_request_resumes_and_retries_only_errors(tmp_path):
    first = bench_intents(SUITE, runs_dir=tmp_path, run_session=StubRunner(PLAN))
    mended = StubRunner({**PLAN, "crash": "passed"})
    second = bench_intents(SUITE, runs_dir=tmp_path, run_session=mended)
    assert second.path == first.path and mended.asked == ["crash"]
    assert second.summary.overall.passed == 2
    assert len(list(read_json_lines(BenchFolder(first.path).attempts))) == 6
    other = StubRunner(PLAN)
    assert (
        bench_intents(
            SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=other, iterations=2
        ).path
        != first.path
    )
    fresh = StubRunner(PLAN)
    bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=fresh, fresh=True)
    assert fresh.asked == ["run"]


def test_a_stop_starts_nothing_more_and_says_what_waits(tmp_path):
    runner = StubRunner(PLAN)
    found = bench_intents(
        SUITE, runs_dir=tmp_path, run_session=runner, should_stop=lambda: len(runner.asked) > 0
    )
    assert runner.asked == ["run"] and outcomes(found) == {"run": "passed"}
    assert found.summary.waiting == ("fly", "crash", "crawl", "glide")


def test_a_budget_that_is_used_up_is_a_failure_and_a_stop_is_not(tmp_path):
    used_up = StubRunner({"run": "used up"})
    found = bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=used_up)
    assert outcomes(found) == {"run": "not_passed"}
    # Whoever stops a session, the benchmark or a person with `telic stop`, it goes on later.
    for stops in (True, False):
        asked = StubRunner({"run": "stopped"})
        found = bench_intents(
            SUITE,
            SUITE.case[:1],
            runs_dir=tmp_path / str(stops),
            run_session=asked,
            should_stop=lambda stops=stops, asked=asked: stops and len(asked.asked) > 0,
        )
        assert outcomes(found) == {} and found.summary.waiting == ("run",)
        bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path / str(stops), run_session=asked)
        assert asked.asked == ["run", "run"]


def test_wrong_options_start_nothing(tmp_path):
    with pytest.raises(ConfigError, match="iterations"):
        bench_intents(SUITE, runs_dir=tmp_path, iterations=0)
    with pytest.raises(ConfigError):
        bench_intents(SUITE, runs_dir=tmp_path, flavor="sour")
    assert list(tmp_path.iterdir()) == []


def real(folder, checks):
    suite = Suite.parse(
        {
            "name": "pole",
            "case": [
                {
                    "id": "pole",
                    "env": "InvertedPendulum-v5",
                    "intent": "keep the pole upright",
                    "category": "balance",
                    "difficulty": "easy",
                    "checks": checks,
                }
            ],
        }
    )
    return bench_intents(
        suite,
        runs_dir=folder,
        run_session=run_session,
        steps=3000,
        episodes=4,
        iterations=1,
        seeds=(1,),
        threshold=0.0,
    )


@pytest.mark.long
def test_a_real_session_is_measured_and_must_hold_the_suites_own_checks(tmp_path):
    found = real(tmp_path, {"has poles": 'len(episode["pole_angle"]) > 0'})
    (result,) = found.summary.results
    assert result.outcome == "passed" and result.checks == {"has poles": 1.0}
    assert result.env_steps >= 3000 and result.seconds > 0 and result.low is not None
    assert (found.path / result.session / "session.json").exists()
    page = (found.path / "index.html").read_text()
    assert "data:video/mp4;base64," in page and "data:image/png;base64," in page

    impossible = real(tmp_path, {"levitates": "episode.seconds > 1000"})
    (result,) = impossible.summary.results
    assert result.outcome == "unconfirmed" and "levitates" in result.reason
    broken = real(tmp_path, {"misspelt": 'episode.mean("forwrad_velocity") > 0'})
    (result,) = broken.summary.results
    assert result.outcome == "error" and "forwrad_velocity" in result.reason


def test_a_folder_in_use_is_refused(tmp_path):
    def nested(intent, **ignored):
        bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=StubRunner(PLAN))

    found = bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=nested)
    (result,) = found.summary.results
    assert "in use" in result.reason and result.score is None


def test_an_error_after_the_author_is_a_crash_and_no_refusal(tmp_path):
    class Late(StubRunner):
        def __call__(self, intent, *, runs_dir, **options):
            (runs_dir / "session_1").mkdir(parents=True)
            (runs_dir / "session_1" / "author.json").write_text("{}")
            raise Refused("The disk is full.")

    found = bench_intents(SUITE, SUITE.case[:1], runs_dir=tmp_path, run_session=Late({}))
    assert outcomes(found) == {"run": "error"}
