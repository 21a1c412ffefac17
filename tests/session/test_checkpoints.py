"""Judging during training is reported and recorded, and ends training once policies pass."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from telic.core.events import TrainStart
from telic.judges.verdict import Verdict
from telic.session import _judgment as judgment
from telic.session import _training as training
from telic.session._judgment import Proof
from telic.session._training import CheckpointJudge
from telic.storage.files import read_json, read_json_lines, read_record
from telic.storage.layout import MemberFolder, SessionFolder
from telic.training.folder import status_of
from telic.training.results import EvalDone
from tests.session.quick import BATCH, FAILING, PASSING, Asking, at_home

STEPS = 4 * BATCH
"""four batches: three looks, and the end"""


@pytest.fixture
def asking(tmp_path):
    with at_home() as patch:
        patch.setattr(training, "_LONG_S", 0.0)
        yield Asking(patch, tmp_path)


@pytest.fixture
def at_once(monkeypatch):
    """Let training wait for every look, so that a test does not depend on time."""

    def receive(self, event):
        self._work.emit(event)
        if isinstance(event, TrainStart):
            self._end = event.total_steps
            return
        is_wanted = isinstance(event, EvalDone) and not self._files.proof.exists()
        if is_wanted and event.step < self._end:
            self._evaluate(event.step)
            self._playing.clear()

    monkeypatch.setattr(CheckpointJudge, "__call__", receive)


@pytest.mark.slow
def test_checkpoints_are_judged_before_training_ends_and_the_last_one_afterwards(asking, at_once):
    asking.run(FAILING, steps=STEPS)
    reported = asking.reported("session.checkpoint")
    files = asking.folder.iteration(1)
    assert len(reported) == 3 and {each["number"] for each in reported} == {1}
    assert 0 < reported[0]["step"] < reported[-1]["step"] < asking.reported("eval.done")[-1]["step"]
    assert all(0.0 <= score <= 1.0 for each in reported for score in each["scores"].values())
    rows = list(read_json_lines(files.checkpoints))
    assert [(each["step"], each["scores"]) for each in reported] == [
        (row["step"], row["scores"]) for row in rows
    ]
    assert not files.proof.exists() and not (files.path / "chosen").exists()
    for member in read_json(files.judgment)["members"]:  # the best checkpoint is handed over
        scores = {row["step"]: row["scores"][member["member"]] for row in rows}
        assert member["choosing"] >= max(scores.values())


def test_training_ends_as_soon_as_its_policies_pass(asking, at_once, monkeypatch):
    held, run_job = {}, training.run_job

    def run(*arguments, should_wait=None, **more):
        for name in ("choose_policies", "confirm", "watched"):
            own = getattr(training, name)

            def noted(*given, name=name, own=own):
                held[name] = should_wait()
                return own(*given)

            monkeypatch.setattr(training, name, noted)
        ran = run_job(*arguments, should_wait=should_wait, **more)
        held["afterwards"] = should_wait()
        return ran

    monkeypatch.setattr(training, "run_job", run)
    asking.run(PASSING, steps=STEPS)
    # Training stands still while episodes are played and watched: it may be over.
    assert held == {"choose_policies": True, "confirm": True, "watched": True, "afterwards": False}
    files = asking.folder.iteration(1)
    proof, judged = read_record(files.proof, Proof), read_json(files.judgment)
    assert proof.step < STEPS / 2 and judged["passed"]
    assert {each["step"] for each in judged["members"]} == {proof.step}
    assert all(each["judgment"]["alpha"] < 0.005 for each in judged["members"])
    assert read_json(asking.folder.summary)["best_step"] == proof.step
    assert status_of(files.run) == "completed"
    assert proof.step * 2 <= judged["steps"] < STEPS * 2  # what was really trained, of both


@pytest.mark.slow
def test_kill_between_proof_and_end_does_not_continue_training(asking, at_once, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "set_status", die)
        with pytest.raises(KeyboardInterrupt):
            asking.run(PASSING, steps=STEPS)
    files = asking.folder.iteration(1)
    proof = read_record(files.proof, Proof)
    asking.run(PASSING, steps=STEPS)
    assert read_record(files.proof, Proof) == proof and read_json(files.judgment)["passed"]
    assert not asking.reported("session.checkpoint")


@pytest.mark.parametrize(("vision", "episodes"), [(True, 128), (False, 64)])
def test_bound_has_room_for_the_small_faults_that_pictures_show(
    tmp_path, monkeypatch, vision, episodes
):
    good = Verdict(source="code", score=1.0)

    def play_out(work, number, policies, purpose, count, *, moment, first):
        return [[good.model_copy(update={"score": float(first > 0)}), *[good] * (count - 1)]]

    monkeypatch.setattr(judgment, "play_out", play_out)
    config = SimpleNamespace(threshold=0.8, episodes=64, needed=1, model="host", vision=vision)
    policy = judgment.TrainedPolicy(None, MemberFolder(tmp_path / "reward_seed_1"), None)
    [score] = judgment.confirm(SimpleNamespace(config=config), 1, [policy], 0.0006)
    assert score.low >= 0.8 and len(score.judgment.verdicts) == episodes


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_judged_costs_nothing_else(asking, monkeypatch):
    def full(path):
        raise training.TelicError("no room on the disk")

    monkeypatch.setattr(training, "JsonLines", full)
    asking.run(PASSING, steps=STEPS)
    assert read_json(asking.folder.iteration(1).judgment)["passed"]
    assert not asking.reported("session.checkpoint")
    assert any("no room on the disk" in each["message"] for each in asking.reported("log"))


@pytest.mark.slow
def test_pictures_that_say_no_are_asked_twice_while_training_and_once_at_the_end(
    asking, at_once, monkeypatch
):
    asked = []

    def blind(work, files, score):
        asked.append(score.step)
        low = score.judgment.model_copy(update={"low": 0.1})
        return score.model_copy(update={"judgment": low})

    monkeypatch.setattr(training, "watched", blind)
    monkeypatch.setattr(judgment, "watched", blind)
    asking.run(PASSING, steps=STEPS)
    assert not asking.folder.iteration(1).proof.exists()
    assert sorted(asked) == [BATCH, BATCH, 2 * BATCH, 2 * BATCH, STEPS, STEPS]
    assert not read_json(asking.folder.iteration(1).judgment)["passed"]


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_an_evaluation_that_an_interruption_abandons_ends_quietly(
    tmp_path, monkeypatch, is_interrupted
):
    begun, end = threading.Event(), threading.Event()

    def evaluate(judge, step):
        begun.set()
        end.wait(10)
        raise RuntimeError("cannot schedule new futures after shutdown")

    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(CheckpointJudge, "_evaluate", evaluate)
    work = SimpleNamespace(folder=SessionFolder(tmp_path), emit=lambda event: None)
    judge = CheckpointJudge(work, 1, None)
    with contextlib.suppress(KeyboardInterrupt), judge:
        judge._steps.put(1)
        assert begun.wait(10)
        if is_interrupted:
            raise KeyboardInterrupt
        end.set()
    end.set()
    judge._thread.join()
    assert len(failed) == (not is_interrupted)
