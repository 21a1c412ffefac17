"""After any failure nothing is lost, scored 0 or charged twice, and the reason is reported."""

import errno
import os
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import telic
from telic.authors._vision import VisionJudge
from telic.cli.main import app
from telic.errors import ResourceError, RewardError, TelicError, TrainingFailed
from telic.judges.validation import JudgeValidation
from telic.judges.verdict import Verdict, judged, unknown
from telic.llm import ModelAnswerError, ModelUnavailable, RawReply
from telic.sandbox import host
from telic.session import _judgment as judgment
from telic.session import _report_sections as pictures
from telic.session import _training as training
from telic.session import budget, loop
from telic.session.records import session_state
from telic.storage import files as storage
from telic.storage.files import read_json
from tests.authors.scripts import JUDGE, REVISION, REWARD
from tests.session.quick import FAILING, PASSING, VARYING, results

DOWN = ConnectionError("connection reset by peer")
WRITERS = ("elicitor", "reward_author", "judge_author", "reviewer")


# ----------------------------------------------------------------------- a provider that is down


@pytest.mark.parametrize(
    "role",
    [pytest.param(role, marks=[pytest.mark.slow] * (role != "elicitor")) for role in WRITERS],
)
def test_outage_before_training_ends_with_a_message_and_resumes_later(asking, role):
    with pytest.raises(ModelUnavailable, match="not available after 2 attempts") as error:
        asking.run({**PASSING, role: DOWN})
    assert "\n" not in str(error.value) and "Run the same command again" in error.value.hint
    assert session_state(asking.folder) == "interrupted" and not asking.folder.summary.exists()
    paid = {each["role"] for each in asking.reported("model.reply")}
    session, asked = asking.run(PASSING, until="session.forecast")
    assert session.path == asking.folder.path
    # Everybody once; the judge's author again, whose unchanged file is refused three times.
    assert sorted([*paid, *asked]) == sorted([*WRITERS, *["judge_author"] * 3])
    assert role in asked


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [DOWN, pytest.param(RawReply(text="I am sorry.", finish="refusal"), marks=pytest.mark.slow)],
)
def test_without_eyes_the_code_judge_stands_alone_and_says_so(asking, fault):
    session, _ = asking.run({**PASSING, "vision_criteria": fault}, vision=True)
    assert session.summary.outcome == "unproven" and session.summary.score == pytest.approx(1.0)
    for member in read_json(asking.folder.iteration(1).judgment)["members"]:
        for verdict in member["judgment"]["verdicts"]:
            assert verdict["score"] == 1.0 and verdict["by_judge"].get("vision") is None
        reasons = [each["reason"] or "" for each in member["judgment"]["verdicts"]]
        assert any(each.startswith("code only; vision is unknown:") for each in reasons)


# ----------------------------------------------------------------------- answers that are garbage


@pytest.mark.parametrize(
    "garbage",
    [
        "Sure! {1,,}",
        pytest.param(RawReply(text="I am sorry.", finish="refusal"), marks=pytest.mark.slow),
    ],
    ids=["not JSON", "a refusal"],
)
def test_invalid_answer_is_repaired_once_then_an_error_and_asked_again(asking, garbage):
    with pytest.raises(ModelAnswerError, match="no valid Elicited for the role elicitor") as error:
        asking.run({**PASSING, "elicitor": garbage})
    assert "Nothing was scored" in error.value.hint and len(str(error.value)) < 2000
    assert not asking.folder.asked.exists()
    assert len(list((asking.folder.path / "replies").glob("*.refused-1.json"))) == 2
    mended, asked = asking.run(
        {**PASSING, "elicitor": [garbage, PASSING["elicitor"]]}, until="session.forecast"
    )
    assert mended.path == asking.folder.path
    assert asked.count("elicitor") == 2  # the answer, and the answer mended
    assert spent_calls(asking) == 2 + len(asked)


def spent_calls(asking) -> int:
    return budget.paid(asking.folder)[1]


def test_repeatedly_refused_code_explains_how_to_ask_again(asking):
    nosy = {**REWARD, "source": "import os\n" + REWARD["source"]}
    with pytest.raises(
        RewardError, match="reward_author returned no usable answer in 3 attempts"
    ) as error:
        asking.run({**PASSING, "reward_author": nosy})
    assert "--fresh" in error.value.hint
    paid = len(asking.requests)
    with pytest.raises(RewardError):
        asking.run({**PASSING, "reward_author": nosy})
    assert len(asking.requests) == paid  # what was paid for is not asked again, unless wanted
    _, asked = asking.run(PASSING, until="session.forecast", fresh=True)
    assert "reward_author" in asked and len(list(asking.runs_dir.iterdir())) == 2


def revised(*changes):
    """Answers of a reviser, one after another."""
    return [{**REVISION, "weights": [{"speed": 2.0}], **each} for each in changes]


def test_untrainable_candidate_is_attempted_and_reported(asking, home):
    def train(work, number, candidate):
        if number == 1:
            raise TrainingFailed("Every member stopped. The reward became NaN.")
        return training.train(work, number, candidate)

    home.setattr(loop, "train", train)
    script = {**FAILING, "reviser": revised({"source": REWARD["source"]})}
    session, _ = asking.run(script, iterations=2)
    assert session.summary.iterations == 2 and session.summary.best_iteration == 2
    first = read_json(asking.folder.iteration(1).judgment)
    assert first["score"] is None and first["best"] is None and "NaN" in first["failure"]
    (asked,) = [each.prompt for each in asking.requests if each.role == "reviser"]
    assert "No policy was trained: Every member stopped" in asked
    assert "Could not be trained: Every member" in (session.path / "report.md").read_text()


# ----------------------------------------------------------------------- nothing left to spend


def assert_stopped_with_a_policy(session, why):
    summary = session.summary
    assert (summary.outcome, summary.out_of_budget) == ("stopped", True) and why in summary.reason
    assert summary.best_iteration == 1 and summary.score is not None
    assert session.policy()(telic.make("HalfCheetah-v5", num_envs=2).reset()).shape == (2, 6)
    assert why in (session.path / "report.md").read_text()


@pytest.mark.long
def test_used_up_calls_keep_the_best_and_more_calls_resume(asking):
    stopped, asked = asking.run(FAILING, iterations=2, max_calls=4)
    assert sorted(asked) == sorted(WRITERS)
    assert_stopped_with_a_policy(stopped, "budget of 4 model calls is used up")
    session, asked = asking.run(FAILING, iterations=2, max_calls=10)
    assert session.path == stopped.path and asked == ["reviser", "analyst"]
    assert session.summary.outcome == "not_passed" and session.summary.iterations == 2


def test_when_the_steps_are_used_up_the_best_is_kept(asking):
    session, _ = asking.run(FAILING, iterations=2, max_steps=512)
    assert_stopped_with_a_policy(session, "of the budget of 512 steps are left")


@pytest.mark.parametrize(
    ("script", "options", "code", "says"),
    [
        (FAILING, ["--max-calls", "4"], 3, "budget of 4 model calls is used up"),
        ({**PASSING, "elicitor": DOWN}, [], 1, "is not available after 2 attempts"),
        ({**PASSING, "reviewer": "Sure! {1,,}"}, [], 1, "no valid Review"),
    ],
    ids=["over budget", "down", "garbage"],
)
def test_the_command_says_it_in_one_paragraph_and_by_its_exit_code(
    asking, script, options, code, says
):
    asking.connect(script)
    small = [
        "--no-vision",
        "--seeds",
        "1,2",
        "--episodes",
        "4",
        "--steps",
        "256",
        "--iterations",
        "2",
    ]
    place = ["--runs-dir", str(asking.runs_dir)]
    request = ["run", "run", "--model", "scripted", *small, *place, *options]
    done = CliRunner().invoke(app, request)
    assert done.exit_code == code and says in " ".join(done.output.split())
    assert "Traceback" not in done.output


# ----------------------------------------------------------------------- a disk that is full


class Disk:
    """A disk that takes some more writes below a folder, then none."""

    def __init__(self, patch, folder) -> None:
        self.left: int | None = None
        self._folder = str(folder)
        self._write, self._sync = os.write, storage._sync
        patch.setattr(os, "write", self._writing)
        patch.setattr(storage, "_sync", self._syncing)

    def _writing(self, handle, data):
        self._take(os.readlink(f"/proc/self/fd/{handle}"))
        return self._write(handle, data)

    def _syncing(self, path):
        self._take(str(path))
        self._sync(path)

    def _take(self, path):
        if self.left is None or not path.startswith(self._folder):
            return
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1


@pytest.mark.long
def test_a_disk_that_fills_up_again_and_again_loses_nothing(asking, home, tmp_path):
    whole, asked = asking.run(VARYING, iterations=2)
    asking.runs_dir = tmp_path / "other"
    asking.requests.clear()
    disk = Disk(home, asking.runs_dir)
    lost: list[str] = []
    for room in (2, 5, 9, 14, 22, 33, 50, 70, None):
        disk.left = room
        before = len(asking.requests)
        try:
            session, _ = asking.run(VARYING, iterations=2)
        except ResourceError as error:
            assert (
                "The disk is full" in error.message
                and "Previously saved data is intact" in error.message
            )
            assert "run the same command again" in error.hint
            kept = {each.stem for each in asking.runs_dir.rglob("replies/*.json")}
            new = asking.requests[before:]
            lost += [each.role for each in new if each.key("scripted") not in kept]
            continue
        break
    assert room is None or room >= 50  # it was full at least six times
    assert results(session) == results(whole)
    # Only an answer that the disk did not take is asked for again.
    assert sorted(each.role for each in asking.requests) == sorted([*asked, *lost])
    assert len(lost) <= 2


# ----------------------------------------------------------------------- judges that break

CRASHING = """
from telic import leaf

def judge(episode):
    return [leaf("x", 1.0 / 0.0, zero=0.0, goal=1.0)]
"""


def judged_by(source):
    return {**PASSING, "judge_author": {"reasoning": "j", "source": source}}


def assert_unknown(asking, session, reason):
    assert session.summary.outcome == "not_passed"
    assert session.summary.score is None and session.summary.low is None
    record = read_json(asking.folder.iteration(1).judgment)
    assert record["score"] is None and record["passed"] is False
    for member in record["members"]:
        assert member["judgment"]["score"] is None and member["judgment"]["unknown"] >= 4
        assert all(reason in each["reason"] for each in member["judgment"]["verdicts"])
    assert "unknown" in (session.path / "report.md").read_text()


def test_a_judge_that_raises_leaves_scores_unknown(asking):
    session, _ = asking.run(judged_by(CRASHING))
    assert_unknown(asking, session, "ZeroDivisionError")


@pytest.fixture
def real_judge(asking, home):
    """Judge in the sandboxed worker, train at home, and try nothing out before."""
    at_home = host.run_worker

    def by_entry(entry, payload, **options):
        if entry != "telic.judges.code:judge_confined":
            return at_home(entry, payload, **options)
        return host.Worker(entry, payload, **options).run()

    home.setattr(host, "run_worker", by_entry)
    home.setattr(loop, "try_written", lambda *_, **__: JudgeValidation(examples=()))
    return home


def test_a_judge_whose_worker_is_killed_leaves_scores_unknown(asking, real_judge):
    launch = host.Worker._launch

    def launch_and_kill(worker):
        process = launch(worker)
        os.kill(process.pid, signal.SIGKILL)
        return process

    real_judge.setattr(host.Worker, "_launch", launch_and_kill)
    session, _ = asking.run(PASSING)
    assert_unknown(asking, session, "killed by SIGKILL")


def test_a_judge_that_cannot_even_be_loaded_goes_back_to_its_own_author(asking):
    session, asked = asking.run(judged_by("RATIO = 1 / 0\n" + JUDGE))
    assert asked.count("judge_author") > 1 and asked.count("reward_author") == 1
    assert_unknown(asking, session, "judge_fn.py cannot be loaded: ZeroDivisionError")


ENDLESS = """
def judge(episode):
    while True:
        pass
"""


@pytest.mark.long
def test_without_a_reviser_what_was_trained_is_kept(asking):
    with pytest.raises(ModelUnavailable):
        asking.run({**FAILING, "reviser": DOWN}, iterations=2)
    assert session_state(asking.folder) == "interrupted"
    first = asking.folder.iteration(1).judgment.read_bytes()
    session, asked = asking.run(FAILING, iterations=2)
    assert asked == ["reviser", "analyst"]
    assert session.summary.outcome == "not_passed" and session.summary.iterations == 2
    assert asking.folder.iteration(1).judgment.read_bytes() == first
    assert len(asking.reported("train.start")) == 1  # that of iteration 2


@pytest.mark.slow
def test_inspected_episodes_are_still_the_judged_ones(asking, monkeypatch):
    def watch(eyes, episodes, repeats=1):
        return [Verdict(source="vision", score=0.95)] * len(episodes)

    monkeypatch.setattr(VisionJudge, "watch", watch)
    session, _ = asking.run(PASSING, vision=True)
    members = read_json(asking.folder.iteration(1).judgment)["members"]
    verdicts = [each for member in members for each in member["judgment"]["verdicts"]]
    assert any(each["by_judge"].get("vision") == 0.95 for each in verdicts)
    assert all(each["recording"] for each in verdicts)
    assert not any(
        "differs from the one that was judged" in each for each in session.summary.reasons
    )


@pytest.mark.slow
def test_without_an_analyst_there_is_a_report(asking):
    session, _ = asking.run({**PASSING, "analyst": DOWN})
    assert session.summary.outcome == "unproven" and not asking.folder.analysis.exists()
    assert asking.folder.report.exists() and asking.folder.page.exists()
    assert any("no analysis was written" in each["message"] for each in asking.reported("log"))


@pytest.mark.long
def test_a_revision_that_cannot_run_goes_back_before_it_is_trained(asking):
    broken = REWARD["source"].replace("return ", "{}['nothing']\n        return ")
    good = {"source": REWARD["source"], "steps": 20_000}
    turns = revised({"source": broken}, {"weights": [{"sped": 2.0}]}, good)
    session, asked = asking.run({**FAILING, "reviser": turns}, iterations=2)
    assert asked.count("reviser") == 3 and session.summary.iterations == 2
    reported = [each.prompt for each in asking.requests if each.role == "reviser"]
    assert 'no key "nothing"' in reported[1] and "No weight is named sped" in reported[2]
    # How long to train was asked for, so it is not the reviser's to change.
    assert read_json(asking.folder.iteration(2).candidate)["steps"] == 256


def test_when_nothing_can_be_trained_there_is_a_report_and_no_policy(asking, home):
    def train(*_):
        raise RewardError("reward.py line 3: no.")

    home.setattr(loop, "train", train)
    session, _ = asking.run(PASSING)
    assert session.summary.outcome == "not_passed" and session.run is None
    assert "reward.py line 3" in session.path.joinpath("report.html").read_text()


@pytest.mark.long
def test_a_variant_that_breaks_off_is_unknown_and_the_others_are_judged(asking, home):
    def newest(candidate, run):
        for member in run.members():
            if not member.name.startswith("reward2_"):
                shutil.rmtree(member.checkpoints_dir)
        return judgment.newest(candidate, run)

    home.setattr(training, "newest", newest)
    session, _ = asking.run(VARYING, iterations=2)
    assert session.summary.iterations == 2
    chosen = read_json(asking.folder.iteration(2).selection)
    known = {each["variant"]: each["judgment"]["score"] for each in chosen["members"]}
    assert known[0] is None and known[1] is not None and chosen["kept"] == 1
    first = chosen["members"][0]["judgment"]["verdicts"]
    assert all("no policy was saved" in each["reason"] for each in first)


@pytest.mark.slow
def test_when_the_hours_are_used_up_the_best_is_kept(asking, home):
    def now():
        return time.monotonic() + 7200 * ("session.judged" in asking.kinds())

    home.setattr(budget, "time", SimpleNamespace(monotonic=now))
    session, _ = asking.run(FAILING, iterations=2, max_hours=1)
    assert_stopped_with_a_policy(session, "budget of 1 hours is used up")


@pytest.mark.long
def test_a_judge_that_never_ends_is_ended_and_leaves_scores_unknown(asking, real_judge):
    receive = host.Worker._receive

    def impatiently(worker, message, *rest):
        if message.get("doing") == "judging":
            message = {**message, "seconds": 0.5}
        return receive(worker, message, *rest)

    real_judge.setattr(host.Worker, "_receive", impatiently)
    session, _ = asking.run(judged_by(ENDLESS))
    assert_unknown(asking, session, "no heartbeat for 0.5 s while judging")


@pytest.mark.slow
def test_what_is_known_to_be_worth_nothing_beats_what_is_unknown(asking, home):
    def judge(source, paths, folder, environment):
        if "iter_1" in folder.parts:
            return [unknown("code", "broke")] * len(paths)
        return [judged([], 0.0)] * len(paths)

    home.setattr(judgment, "judge_files", judge)
    session, _ = asking.run(FAILING, iterations=2)
    assert session.summary.best_iteration == 2 and session.summary.score == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [pytest.param(None, marks=pytest.mark.slow), TelicError("no OpenGL here")]
)
def test_without_a_renderer_there_is_a_report_without_pictures(asking, home, error):
    if error is not None:

        def render(jobs, **_):
            raise error

        home.setattr(pictures, "render", render)
    session, _ = asking.run(PASSING)
    assert (
        session.summary.outcome == "unproven"
        and "<video" not in (session.path / "report.html").read_text()
    )
    why = "nothing is drawn" if error is None else "no OpenGL here"
    assert any(why in each["message"] for each in asking.reported("log"))
    assert why in (session.path / "report.md").read_text()
