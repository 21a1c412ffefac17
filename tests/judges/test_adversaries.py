"""Judges and rewards that cheat, written by hand: none of them gets a certificate."""

from functools import cache

import numpy as np
import pytest

from telic.errors import TelicError
from telic.judges import validation as trials
from telic.judges.criteria import Criterion, Motion
from telic.judges.failure_modes import MIRRORED, OTHER_WAY
from telic.judges.measured import measured_by_host
from telic.judges.validation import judge_problems, reward_problems, undirected
from tests.judges.test_validation import written as written_for

ENV, ARGS, THRESHOLD = "HalfCheetah-v5", {"max_episode_steps": 40}, 0.8
RUN = (Motion(seconds=60, forward_mps=2.0, stride_hz=1.5),)
CRITERIA = (
    Criterion(title="runs", quantity="forward_velocity", zero=0.2, goal=1.5, unit="m/s"),
    Criterion(title="upright", quantity="uprightness", zero=0.0, goal=0.8, is_guard=True, weight=0),
)
REWARD = """
import torch
from telic import RewardFunction, quantities

class R(RewardFunction):
    weights = {{"a": 1.0}}
    memory = {{"t": 0.0}}
    def compute(self, obs, action, next_obs, info):
        now = self.memory["t"] + 1.0
        self.memory["t"] = now
        terms = {{"a": self.weights["a"] * ({0})}}
        return sum(terms.values()), terms
"""
PLAIN = REWARD.replace('    memory = {{"t": 0.0}}\n', "").replace(
    '        now = self.memory["t"] + 1.0\n        self.memory["t"] = now\n', ""
)
SPEED = PLAIN.format("quantities.forward_velocity(info)")
JUDGE = """
import numpy as np
from telic import require, score
{before}
def judge(episode):
    {lines}
    return [
        score("runs", {runs}, zero={zero}, goal={goal}, weight={weight}),
        require("upright", {upright}, zero=0.0, goal=0.8),{more}
    ]
"""
SPEED_OF = 'episode.mean("forward_velocity")'
UPRIGHT = 'episode.mean("uprightness")'
GROUPS = trials._groups


def judge_file(runs=SPEED_OF, upright=UPRIGHT, more="", lines="pass", before="", **range_):
    given = {"zero": 0.2, "goal": 1.5, "weight": 1.0, **range_}
    return JUDGE.format(runs=runs, upright=upright, more=more, lines=lines, before=before, **given)


@cache
def examples():
    look = trials.open_env(ENV, ARGS, 1)
    look.close()
    return GROUPS(ENV, look, written(SPEED, "", RUN), None)


@pytest.fixture(autouse=True)
def simulated_once(monkeypatch):
    monkeypatch.setattr(trials, "_groups", lambda *_: examples())


def written(*args, **changes):
    return written_for(*args, **{"env_args": ARGS, **changes})


def judged(judge, fine=(), words="run forward"):
    found = trials.try_here(ENV, written(SPEED, judge, RUN, fine))
    return judge_problems(found.examples, (*fine, *found.fine, *undirected(words)), THRESHOLD)


def agreed(judge):
    """Return the problems of code by whose values agreed criteria are scored."""
    by_code = [each.model_copy(update={"quantity": "in words"}) for each in CRITERIA]
    return judged(measured_by_host(written(SPEED, judge, criteria=tuple(by_code))).judge)


def paid(reward):
    try:
        results = trials.try_here(ENV, written(reward, judge_file(), RUN)).examples
    except TelicError as error:
        return (str(error),)
    return reward_problems(results, ())


@pytest.mark.parametrize(
    ("words", "fine"),
    [
        ("jump high", {OTHER_WAY, MIRRORED}),
        ("do two front flips: net forward rotation, two forward turns", {OTHER_WAY}),
        ("do a backflip", {OTHER_WAY}),
        ("rolls backward: its torso rotates backward", {OTHER_WAY}),
        ("flip forward, then run forward", set()),
        ("do a front flip while you move back", set()),
        ("turn to the left", set()),
    ],
)
def test_a_direction_of_rotation_is_not_one_of_travel(words, fine):
    assert set(undirected(words)) == fine


def test_an_honest_pair_has_nothing_to_hide():
    assert not judged(judge_file()) and not paid(SPEED)
    assert not judged(judge_file(zero=0.5, goal=1.6))  # stricter than agreed


BAD_JUDGES = {
    "gives everything 1": judge_file("9.0", "1.0"),
    "gives everything 0": judge_file("0.0"),
    "looks at the length": judge_file("episode.seconds", "1.0"),
    "off by sign": judge_file(f"-{SPEED_OF}"),
    "takes any direction": judge_file('episode.mean("speed") * 9'),
    "looks at one moment": judge_file('episode.highest("forward_velocity")'),
    "noise of the last digits": judge_file('1e9 * abs(float(episode["qpos"].sum()) * 1e7 % 1.0)'),
    "passes one look-alike": judge_file(
        f'9.0 if episode["uprightness"][0] < 0.0 else {SPEED_OF}', "1.0"
    ),
    "passes what pushes": judge_file(
        f'9.0 if float(np.min(episode["action"])) > 0.9 else {SPEED_OF}', "1.0"
    ),
    "moves its own stick": judge_file(
        zero=f"0.2 if {SPEED_OF} > 1.0 else 0.1", goal=f"1.5 if {SPEED_OF} > 1.0 else 90.0"
    ),
    "knows the task's own reward": judge_file('episode["env_reward"].max() * 9', "1.0"),
    "takes backward for forward": judge_file(f"abs({SPEED_OF})"),
    "cannot tell": judge_file('episode["no_such_thing"]'),
    "fails on what is bad": judge_file(f"1 / 0 if {SPEED_OF} < 0.5 else {SPEED_OF}"),
}


KIND = {
    "kinder than agreed": judge_file(zero=0.0, goal=0.3),
    "hides it behind a heavy leaf": judge_file(
        more='\n        score("is there", 1.0, zero=0.0, goal=0.5, weight=99.0),'
    ),
    "guards nothing": judge_file().replace("require(", "score("),
}


@pytest.mark.parametrize("judge", BAD_JUDGES.values(), ids=BAD_JUDGES)
def test_a_judge_that_cheats_is_found_out(judge):
    assert judged(judge)


@pytest.mark.parametrize("judge", KIND.values(), ids=KIND)
def test_code_that_scores_more_kindly_than_agreed_gains_nothing(judge):
    """Its values are scored by the agreed numbers: what is left is an honest judge."""
    results = {}
    for text in (judge, judge_file()):
        by_code = [each.model_copy(update={"quantity": "in words"}) for each in CRITERIA]
        made = measured_by_host(written(SPEED, text, criteria=tuple(by_code)))
        found = trials.try_here(ENV, made).examples
        results[text] = [each.score for each in found]
    assert results[judge] == results[judge_file()]


@pytest.mark.parametrize("seed", range(6))
def test_a_judge_that_passes_any_one_example_by_its_looks_is_found_out(seed):
    """Let it know one example by a number that no other has, and wave that one through."""
    names = [name for group in examples() for name in group.names]
    bad = [name for name in names if name != trials.GOOD]
    chosen = bad[np.random.default_rng(seed).integers(len(bad))]
    group = next(group for group in examples() if chosen in group.names)
    mark = float(group.trajectory(chosen).columns["qpos"].sum())
    lines = f'known = abs(float(episode["qpos"].sum()) - ({mark!r})) < 1e-3'
    assert judged(judge_file(f"9.0 if known else {SPEED_OF}", "1.0", lines=lines))


BAD_REWARDS = {
    "constant": PLAIN.format("torch.ones_like(obs[:, 0])"),
    "nothing": PLAIN.format("torch.zeros_like(obs[:, 0])"),
    "off by sign": PLAIN.format("-quantities.forward_velocity(info)"),
    "effort": PLAIN.format("action.square().mean(-1)"),
    "no effort": PLAIN.format("-action.square().mean(-1)"),
    "falling over": PLAIN.format("1.0 - quantities.uprightness(info)"),
    "shaking": PLAIN.format("quantities.joint_speed(info)"),
    "turning over": PLAIN.format("quantities.angular_speed(info)"),
    "too much for being there": PLAIN.format("quantities.forward_velocity(info) * 1e-6 + 5.0"),
    "being low": PLAIN.format("-quantities.height(info)"),
    "the start alone": REWARD.format("torch.where(now < 2.0, 100.0, 0.0)"),
    "bouncing": PLAIN.format("quantities.vertical_velocity(info).square()"),
    "contacts": PLAIN.format('info["contacts"].sum(-1)'),
    "going either way, and upside down": PLAIN.format(
        "quantities.forward_velocity(info).abs() - 9.0 * quantities.uprightness(info)"
    ),
    "what is no number": PLAIN.format("torch.sqrt(-1.0 - action[:, 0].square())"),
    "chance": PLAIN.format("torch.rand(len(obs))"),
}


@pytest.mark.parametrize("reward", BAD_REWARDS.values(), ids=BAD_REWARDS)
def test_a_reward_that_invites_gaming_is_found_out(reward):
    assert paid(reward)


def test_a_criterion_that_code_leaves_out_earns_nothing():
    assert agreed(judge_file().replace('"upright"', '"something"'))
    assert agreed(judge_file(f"2.0 - {SPEED_OF}", zero=1.8, goal=0.5))  # scored as agreed
