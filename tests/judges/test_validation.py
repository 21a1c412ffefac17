"""Rewards and judges that are wrong are found out on examples, before anything is trained."""

import pytest

from telic.errors import TelicError
from telic.judges.criteria import Composition, Motion
from telic.judges.validation import JudgeValidation, failure, try_out

REWARD = """
import torch
from telic import RewardFunction, quantities

class R(RewardFunction):
    weights = {{"a": 1.0}}
    def compute(self, obs, action, next_obs, info):
        terms = {{"a": self.weights["a"] * ({0})}}
        return sum(terms.values()), terms
"""
SPEED = REWARD.format("quantities.forward_velocity(info)")
EFFORT = REWARD.format("action.square().mean(-1)")
JUDGE = """
from telic import leaf

def judge(episode):
    return [leaf("x", {0}, zero=0.2, goal=1.5, tag="too_slow")]
"""
RUNS = JUDGE.format('episode.mean("forward_velocity") * (episode.mean("uprightness") > 0.5)')
LASTS = JUDGE.format("episode.seconds")
RUN = (Motion(seconds=60, forward_mps=2.0, stride_hz=1.5),)
ARGS = {"max_episode_steps": 40}


def written(reward, judge, motions=RUN, fine=(), **changes):
    given = {"intent": "", "env": "HalfCheetah-v5", "criteria": (), "env_args": ARGS, "steps": 1}
    given |= {"doubts": (), "not_understood": (), "reward": reward, "judge": judge}
    return Composition(**{**given, "motions": motions, "fine": fine, **changes})


def tried(tmp_path, reward, judge, motions=RUN, fine=(), threshold=0.8):
    made = written(reward, judge, motions, fine)
    return try_out("HalfCheetah-v5", made, threshold, tmp_path, is_probed=False)


def test_a_sound_pair_has_no_problems(tmp_path):
    trial = tried(tmp_path, SPEED, RUNS)
    assert not trial.judge_problems and not trial.reward_problems
    good = next(each for each in trial.examples if each.is_good)
    assert good.score == 1.0 and good.pay == pytest.approx(80, rel=0.1)
    assert good.terms == {"a": good.pay} and len(trial.examples) == 13


def test_a_judge_that_takes_anything_that_lasts_is_found_out(tmp_path):
    trial = tried(tmp_path, SPEED, LASTS)
    assert any('"does nothing" 1.00' in each for each in trial.judge_problems)
    fine = tuple(each.name for each in trial.examples)
    [problem] = tried(tmp_path, SPEED, LASTS, fine=fine).judge_problems
    assert "declared acceptable" in problem  # calling everything right does not help
    assert not tried(tmp_path, SPEED, LASTS, threshold=1.01).judge_problems  # nothing passes


def test_a_judge_that_does_not_recognize_a_good_example_is_found_out(tmp_path):
    backward = RUNS.replace("episode.mean", "-episode.mean", 1)
    problem, *_ = tried(tmp_path, SPEED, backward).judge_problems
    assert "good example" in problem and "0.00" in problem and "x: -" in problem


def test_a_reward_that_pays_for_shaking_is_found_out(tmp_path):
    trial = tried(tmp_path, EFFORT, RUNS)
    (problem,) = trial.reward_problems
    assert '"shakes" 40 (judge 0.18)' in problem and "the good one: a 40 against 0." in problem
    assert not trial.judge_problems


def test_a_file_that_fails_is_an_error_and_becomes_a_problem_of_its_author(tmp_path):
    with pytest.raises(TelicError) as caught:
        tried(tmp_path, REWARD.format("quantities.no_such_thing(info)"), RUNS)
    assert failure(caught.value).reward_problems
    broken = JudgeValidation.model_validate(tried(tmp_path, SPEED, JUDGE.format("1 / 0")))
    assert all("cannot judge" in each for each in broken.judge_problems) and broken.judge_problems
