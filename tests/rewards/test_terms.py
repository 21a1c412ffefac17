"""Reward terms: what known transitions are worth, how terms are written, and what they remember."""

import math

import pytest
import torch

from telic.envs import make
from telic.errors import RefusedCode, RewardError
from telic.rewards.composed import Phase
from telic.rewards.node import Program, StepView
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.rewards.signals import Above, Along, Cycles, Given, Made, Part, Size, Turns
from telic.rewards.terms import (
    Arrive,
    Both,
    Capped,
    Cost,
    Done,
    Exact,
    Hill,
    Near,
    Pay,
    Peak,
    Ratio,
    Reached,
    Sigmoid,
    Small,
    Toward,
    When,
)


class FakeInfo(dict):
    """Values by name, and an environment with a time step of 0.1 s."""

    def __init__(self, spec=None, **values):
        super().__init__({name: torch.tensor(value) for name, value in values.items()})
        self.spec = spec


X = Given("x")
WORTH = [
    (Pay(X), 2.0, 2.0),
    (Pay(X, -1.0, 1.0), 2.0, 1.0),
    (Cost(X), 2.0, -2.0),
    (Cost(Size(X)), -2.0, -2.0),
    (Cost(X, most=1.5), 2.0, -1.5),
    (Ratio(X, 4.0), 2.0, 0.5),
    (Ratio(X, 4.0, most=1.5), 20.0, 1.5),
    (Ratio(X, 4.0), -20.0, -1.0),
    (Capped(X, 1.0), 1.0, 1.0),
    (Capped(X, 1.0), 2.1, 0.0),
    (Peak(X, 1.0, 0.5), 1.5, math.exp(-1.0)),
    (Exact(X, 2.0, 1.0), 2.0, 1.3),
    (Arrive(X, 2.0, 1.0), 2.0, 2.0),
    (Hill(X, 1.0, 0.5), 1.5, 0.5),
    (Reached(X, 1.0), 1.0, 1.0),
    (Small(X, 2.0), 0.5, math.exp(-1.0)),
    (Near(X, 10.0), 0.0, 1.0),
    (Sigmoid(X, 1.0), 0.0, 0.5),
    (When(Above(X, 1.0), Pay(X)), 0.5, 0.0),
    (When(Above(X, 1.0), Pay(X)), 1.5, 1.5),
    (Both(Pay(X), Pay(X)), 3.0, 9.0),
]


@pytest.mark.parametrize(("term", "x", "worth"), WORTH, ids=lambda each: str(each)[:40])
def test_a_term_is_worth_what_its_formula_says(term, x, worth):
    step = StepView(torch.zeros(1, 1), torch.zeros(1, 1), FakeInfo(x=[x]), {})
    assert Program([term])(step)[0].item() == pytest.approx(worth, abs=1e-6)


def test_a_term_is_written_as_the_call_that_makes_it():
    term = Ratio(Along("forward"), 3.14159, most=1.5).with_words('speed "forward"')
    text = 'Ratio(Along("forward"), goal=3.142, most=1.5, words="speed \\"forward\\"")'
    assert repr(term) == text and term.formula() == "v / v^*"
    assert eval(text, {"Ratio": Ratio, "Along": Along}) == term
    with pytest.raises(RewardError, match="Ratio: unexpected goals"):
        Ratio(X, goals=3.0)


def test_what_is_counted_is_counted_once_and_remembered():
    jumps = Cycles(X, 1.0, 0.2)
    memory = {name: torch.zeros(1) for name in Done(jumps).slots()}
    assert set(memory) == {"is_up", "times"}
    paid, ways = [], []
    for x in (0.0, 1.5, 0.5, 0.1, 0.1, 1.2, 0.0):
        step = StepView(torch.zeros(1, 1), torch.zeros(1, 1), FakeInfo(x=[x]), memory)
        done, way, times = Program([Done(jumps, 1), Toward(jumps), Part(jumps, "times")])(step)
        paid.append(done.item())
        ways.append(way.item())
        assert times.item() == memory["times"].item()
    assert paid == [0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]  # the second jump is one too many
    assert memory["times"].item() == 2.0
    assert ways[1] == pytest.approx(-0.5) and ways[4] == pytest.approx(-0.1)


def test_mean_velocities_are_used_where_the_environment_has_them():
    spec = make("Ant-v5", num_envs=1).spec
    here = torch.zeros(1, 15), torch.zeros(1, 14)
    info = FakeInfo(spec, x_velocity=[2.0], y_velocity=[1.0])
    step = StepView(torch.zeros(1, 8), here[0], info, {})
    back, between = Program([Along("backward"), Along("forward", "right")])(step)
    assert back.item() == -2.0 and between.item() == pytest.approx(0.7071)


FILE = '''
from telic.rewards.composed import ComposedReward, Phase
from telic.rewards.signals import Above, Along, Made, Measured
from telic.rewards.terms import Alive, Cost, Ratio, Small


class Composed(ComposedReward):
    """Go, then stand."""

    weights = {"speed_1": 2.0, "still_2": 1.0, "stage": 1.5, "finish": 10.0, "control": 0.1}
    memory = {"phase": 0.0, "clock": 0.0, "start_1": (0.0, 0.0)}
    memory_to = "actor"
    phases = (
        Phase(
            "go",
            {"speed_1": Ratio(Along("forward"), goal=1.0, words="speed")},
            until=(Above(Made("forward"), limit=-100.0),),
            seconds=0.5,
        ),
        Phase("stand", {"still_2": Small(Measured("speed"), rate=4.0, words="still")}),
    )
    terms = {"control": Cost(Measured("effort"), words="effort")}
'''


def test_sequence_advances_when_its_conditions_held_long_enough():
    env = make("HalfCheetah-v5", num_envs=3)
    reward = load_reward(FILE)
    report = probe(reward, env, transitions=24)
    assert report.mode == "batched" and not report.is_stateful
    assert "kept_attribute" not in {each.name for each in report.findings}
    assert reward.term_names == ("speed_1", "still_2", "stage", "finish", "control")
    assert len(reward.seen_memory) == 4
    assert reward.spec.latex.startswith(r"r = w_{\text{speed 1}} v / v^*")
    assert [term.description for term in reward.spec.terms][:2] == ["speed", "still"]
    reward.start(3, "cpu")
    obs = env.reset(seed=0)
    paid = []
    for _ in range(14):
        action = torch.zeros(3, 6)
        made = env.step(action)
        paid.append(reward(obs, action, made.final_obs, made.info, made.reward).terms)
        obs = made.obs
    finished = [terms["finish"][0].item() for terms in paid]
    assert finished.index(10.0) == 9 and sum(finished) == 10.0  # ten steps are half a second
    assert paid[8]["still_2"].abs().sum() == 0.0 and paid[10]["still_2"].min() > 0.0
    assert paid[10]["speed_1"].abs().sum() == 0.0 and paid[10]["stage"][0].item() == 1.5


@pytest.mark.parametrize(
    "line",
    [
        "x = Ratio.function",
        "x = Ratio(Along('forward'), 1.0).recipe",
        "x = Along('forward').arguments",
        "class Other(Ratio): pass",
        "from telic.rewards.node import Recipe",
        "from telic.rewards.reward import load_reward",
    ],
)
def test_a_file_cannot_look_into_terms(line):
    with pytest.raises((RefusedCode, RewardError)):
        load_reward(FILE + line + "\n")


def test_equal_calls_are_one_signal():
    assert Phase("x", {}).until == () and Made("left") == Made("left")
    assert Turns("left") != Turns("right")
