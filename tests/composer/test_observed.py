"""Intents on environments without a robot: what is observed, by name, by number, and the return."""

import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from telic.composer.compose import compose
from telic.composer.observed import example_intents
from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges.code import JudgeCode
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.storage.trajectories import Trajectory, TrajectoryFacts

CLASSIC = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0")


class Goals(gymnasium.Env):
    """Third-party point-mass environment with a goal and a dictionary of observations."""

    def __init__(self):
        box = spaces.Box(-5.0, 5.0, (2,))
        self.observation_space = spaces.Dict(
            {"achieved_goal": box, "desired_goal": box, "observation": box}
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = np.zeros(2), self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.1 * np.asarray(action), -5, 5)
        return self._seen(), -float(np.linalg.norm(self.place - self.goal)), False, False, {}

    def _seen(self):
        place = self.place.astype(np.float32)
        seen = {"achieved_goal": place, "desired_goal": self.goal.astype(np.float32)}
        return {**seen, "observation": place}


OWN = f"{__name__}:Goals"


def described(env: str) -> EnvSpec:
    made = make(env, num_envs=1)
    made.close()
    return made.spec


def examples(spec: EnvSpec) -> list[str]:
    """Return the suggested intents."""
    return re.findall(r'"([^"]+)"', example_intents(spec))


def episode(spec: EnvSpec, observed: np.ndarray) -> Trajectory:
    steps = len(observed)
    action = np.zeros(steps) if spec.num_actions else np.zeros((steps, spec.act_dim))
    columns = {"obs": observed, "next_obs": observed, "action": action}
    columns["env_reward"] = np.ones(steps)
    return Trajectory(columns, TrajectoryFacts(env_id=spec.id, dt_s=spec.dt_s))


@pytest.mark.parametrize("env", [*CLASSIC, OWN])
def test_suggested_intents_are_rewarded_and_judged(env):
    made = make(env, num_envs=4)
    moments = collect(made, 24)
    made.close()
    for intent in examples(made.spec):
        composed = compose(intent, made.spec)
        assert not composed.not_understood, intent
        reward = load_reward(composed.reward, label="reward_fn.py")
        reward.decide(moments)
        first = moments.transitions[0]
        reward.start(len(first.obs), "cpu")
        paid = reward(first.obs, first.action, first.next_obs, first.info, first.env_reward)
        assert torch.isfinite(paid.total).all(), intent
        seen = np.stack([moment.next_obs[0].numpy() for moment in moments.transitions])
        verdict = JudgeCode(composed.judge)(episode(made.spec, seen), made.spec)
        assert verdict.score is not None and 0.0 <= verdict.score <= 1.0, (intent, verdict.reason)


@pytest.mark.parametrize("env", CLASSIC)
def test_a_word_that_means_nothing_here_is_never_silent(env):
    spec = described(env)
    for intent in examples(spec):
        for printed in (f"{intent} and juggle", f"zigzag {intent}", f"{intent} every 7 seconds"):
            reported = compose(printed, spec).not_understood
            assert {"juggle", "zigzag", "7"} & {*" ".join(reported).split()}, (printed, reported)


@pytest.mark.parametrize("env", CLASSIC)
def test_the_opposite_is_refused_and_not_taken_for_the_thing(env):
    spec = described(env)
    for intent in examples(spec)[:-3]:
        for printed in (f"do not {intent}", f"never {intent}"):
            with pytest.raises(Refused) as refused:
                compose(printed, spec)
            assert "Examples: " in str(refused.value)


@pytest.mark.parametrize(
    ("printed", "inside", "outside"),
    [
        ("keep obs 1 near 2 within 0.5", 2.3, 2.8),
        ("keep obs[1] above -1", -0.5, -1.5),
        ("keep observation 1 below 3", 2.0, 3.5),
        ("keep cart velocity between -1 and 1", 0.9, 1.2),
        ("hold the cart velocity at 0.5 m/s within 0.1", 0.55, 0.3),
    ],
)
def test_a_column_is_judged_on_the_share_of_the_time_it_is_right(printed, inside, outside):
    spec = described("CartPole-v1")
    judge = JudgeCode(compose(printed, spec).judge)
    seen = np.zeros((500, 4))
    for value, score in ((inside, 1.0), (outside, 0.0)):
        seen[:, 1] = value
        assert judge(episode(spec, seen), spec).score == pytest.approx(score)
        # What ends early was not right for the whole time.
        assert judge(episode(spec, seen[:100]), spec).score < 0.2


def test_coming_near_is_not_reaching_it():
    spec = described("MountainCarContinuous-v0")
    judge = JudgeCode(compose("reach the flag", spec).judge)
    seen = np.stack([np.linspace(-0.5, 0.44, 200), np.zeros(200)], axis=1)
    assert judge(episode(spec, seen), spec).score < 0.5
    seen[-1, 0] = 0.46
    assert judge(episode(spec, seen), spec).score == 1.0


def test_a_unit_that_does_not_fit_is_not_understood():
    spec = described("CartPole-v1")
    with pytest.raises(Refused):
        compose("keep pole angle near 3 m/s", spec)
    degrees = compose("keep the pole angle between -5 and 5 degrees", spec).criteria[0]
    assert "0.0872665" in degrees.title


def test_every_part_of_an_intent_is_covered_by_its_criteria_until_a_person_drops_them():
    spec = described("CartPole-v1")
    printed = "keep the pole upright and keep cart velocity below 1"
    made = compose(printed, spec)
    words = {each.words: each.criteria for each in made.covered}
    assert words == {
        "keep the pole upright": ("keeps the pole upright at least 85% of the time",),
        "keep cart velocity below 1": (
            "keeps cart velocity within 1 m/s of 0 at least 85% of the time",
        ),
    }
    edited = compose(printed, spec, made.criteria[:1])
    assert edited.dropped == ("keep cart velocity below 1",)
