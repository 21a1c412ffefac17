"""Clocks of environments are found; rules are not taken for them, however they are broken."""

import gymnasium
import numpy as np
import pytest

from telic.envs.foreign import own_limit


class Ends(gymnasium.Env):
    """Ends by a clock, by a rule, by failure, or never."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, clock=None, leaves=None, fails=None):
        self.clock, self.leaves, self.fails = clock, leaves, fails

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.place = 0, self.np_random.uniform(-0.5, 0.5)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        size = float(np.abs(action).sum())
        self.place += float(np.asarray(action).ravel()[0])
        has_failed = bool(self.fails and abs(self.place) > self.fails)
        return np.zeros(1, np.float32), 0.0, has_failed, self.is_cut_off(size), {}

    def is_cut_off(self, size):
        return bool(self.steps == self.clock or (self.leaves and abs(self.place) > self.leaves))


class WhenAnythingIsDone(Ends):
    """Every random action breaks the rule at the first step."""

    def is_cut_off(self, size):
        return size > 0.0


class WhenItChangesItsMind(Ends):
    """Actions that differ break the rule; one that is held keeps it, as rest does."""

    def reset(self, *, seed=None, options=None):
        self.before = None
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.differs = self.before is not None and float(action[0]) != self.before
        self.before = float(action[0])
        return super().step(action)

    def is_cut_off(self, size):
        return self.differs


class ChoosesAmongThree(Ends):
    """Actions are numbers from one on, and a clock ends it whatever is chosen."""

    action_space = gymnasium.spaces.Discrete(3, start=1)


@pytest.mark.parametrize("clock", [1, 60, 499])
def test_an_environment_s_own_clock_is_found(clock):
    assert own_limit(Ends(clock)) == clock
    assert own_limit(ChoosesAmongThree(clock)) == clock


@pytest.mark.parametrize(
    "env",
    [
        Ends(),
        Ends(clock=501),  # two such episodes are longer than it is tried
        Ends(leaves=2.0),
        Ends(fails=0.6),
        WhenAnythingIsDone(),
        WhenItChangesItsMind(),
    ],
    ids=lambda env: type(env).__name__,
)
def test_a_rule_is_not_taken_for_a_clock(env):
    assert own_limit(env) is None


def test_a_clock_is_found_where_holding_an_action_fails_before_it():
    """Whoever always goes the same way leaves the board: that tells nothing of the clock."""
    assert own_limit(Ends(clock=20, fails=9.0)) == 20


def test_who_rests_and_who_holds_an_action_must_not_both_fail_before_the_clock():
    class FailsUnlessItChanges(WhenItChangesItsMind):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            has_failed = self.steps > 1 and not self.differs
            return obs, reward, has_failed, self.steps == 9, info

    assert own_limit(FailsUnlessItChanges()) is None
