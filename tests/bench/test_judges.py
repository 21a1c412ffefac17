"""The judge set: labels by construction, agreement counted honestly, labeled episodes added."""

import pytest
from benchmarks.judges import PASS, JudgePair, bench_judges, examples

from telic.composer.compose import compose
from telic.judges.criteria import Motion
from telic.storage.files import read_json

FORWARD = (Motion(seconds=8, forward_mps=5.0, stride_hz=3),)
BACKWARD = (Motion(seconds=8, forward_mps=-5.0, stride_hz=3),)
RUN = JudgePair(
    id="run",
    env="HalfCheetah-v5",
    intent="Run forward as fast as you can.",
    good=FORWARD,
    wrong={"backward": BACKWARD},
    undecided=("shakes", "cheetah-sprint-after-flip"),
)
STAND = JudgePair(
    id="stand",
    env="HalfCheetah-v5",
    intent="Stand still.",
    good=(Motion(seconds=8),),
    right=("does nothing",),
)


def test_examples_are_labeled_by_how_they_were_made():
    made = {each.name: each for each in examples(STAND, (RUN, STAND), {"max_episode_steps": 40})}
    assert made["good example"].is_right and made["does nothing"].is_right
    assert made["run"].kind == "other intent" and not made["run"].is_right
    assert not made["topples over"].is_right
    assert len(made["good example"].trajectory) == 40
    names = [each.name for each in examples(RUN, (RUN, STAND), {"max_episode_steps": 40})]
    assert "shakes" not in names and "backward" in names and "run" not in names


@pytest.mark.slow
def test_running_is_distinguished_from_all_other_behaviors(tmp_path):
    report = bench_judges([RUN], output=tmp_path / "report.json")
    right = {each.name: each.score for each in report.examples if each.is_right}
    assert right["good example"] >= PASS
    assert report.false_passes == () and report.unknown == ()
    assert report.agreement.passed == report.agreement.total > 10
    assert read_json(tmp_path / "report.json")["agreement"]["share"] == 1.0


def judge_by(monkeypatch, code):
    """Replace what the composer's judges do."""

    def other(intent, spec):
        return compose(intent, spec).model_copy(update={"judge": code})

    monkeypatch.setattr("benchmarks.judges.compose", other)


@pytest.mark.slow
def test_a_judge_that_likes_everything_is_found_out(monkeypatch):
    judge_by(
        monkeypatch,
        "from telic import leaf\ndef judge(episode):\n"
        "    return [leaf('lasts', 1.0, zero=0.0, goal=1.0)]\n",
    )
    report = bench_judges([RUN])
    assert (
        "run: backward" in report.false_passes and "run: does nothing" in report.failure_mode_passes
    )
    assert report.missed == () and report.agreement.share < 0.2


def test_a_judge_that_fails_agrees_with_nothing(monkeypatch):
    judge_by(monkeypatch, "def judge(episode):\n    return 1 / 0\n")
    report = bench_judges([RUN])
    assert report.agreement.passed == 0 and len(report.unknown) == report.agreement.total
    assert report.false_passes == () and report.missed == ()


def test_an_intent_without_a_judge_is_reported():
    nonsense = RUN.model_copy(update={"id": "odd", "intent": "frobnicate the quux"})
    report = bench_judges([nonsense])
    assert list(report.refused) == ["odd"] and report.agreement.share is None
