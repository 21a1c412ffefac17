"""The clock that a policy sees, as plain numbers: what follows a rule, and what does not."""

import ast
from pathlib import Path

import numpy as np
import pytest

from telic import bench
from telic.composer.compose import compose
from telic.envs import make
from telic.errors import UsageError
from telic.rewards.load import load_reward
from telic.training.export.memory_law import column_names, find_law, fit, told_by_the_world

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
BEAT = '''
import torch

from telic import RewardFunction, quantities


class Beat(RewardFunction):
    """Trot."""

    memory = {"beat": (0.0, 0.0), "last": 0.0}
    memory_to = "actor"

    def compute(self, obs, action, next_obs, info):
        """Follow the beat."""
        along = info["x_velocity"]
        first = (self.memory["beat"].abs().sum(-1) == 0).float()
        x, y = self.memory["beat"][:, 0] + first, self.memory["beat"][:, 1]
        x, y = 0.95860081 * x - 0.28475337 * y, 0.28475337 * x + 0.95860081 * y
        self.memory["beat"] = torch.stack((x, y), -1)
        pulled: float = action[:, 0] * 0.5
        self.memory["last"] = pulled
        terms = {"speed": along * x}
        return terms["speed"], terms
'''


def test_a_clock_and_what_follows_from_actions_need_no_world():
    assert told_by_the_world(BEAT) == set()
    assert column_names(BEAT) == ["beat 0", "beat 1", "last"]


class Leak(ast.NodeTransformer):
    """Adds something of the world to the n-th number that is read."""

    def __init__(self, which):
        self.which, self.seen = which, -1

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id in ("first", "x", "y", "pulled", "action"):
            self.seen += 1
            if self.seen == self.which:
                leak = "info['x_velocity'].abs()", "obs[:, 0]", "next_obs[:, 1]", "along"
                return ast.parse(f"({node.id} + {leak[self.which % 4]})", mode="eval").body
        return node


def test_whatever_of_the_world_leaks_into_memory_is_noticed():
    """Every number that memory is made of, replaced one at a time."""
    noticed = 0
    for which in range(30):
        leak = Leak(which)
        tree = leak.visit(ast.parse(BEAT))
        if leak.seen < which:
            break
        found = told_by_the_world(ast.unparse(ast.fix_missing_locations(tree)))
        changed = ast.unparse(tree).split("terms = {")[1] != BEAT.split("terms = {")[1]
        is_in_terms = "along * (x" in ast.unparse(tree)
        assert (found == set()) == is_in_terms, (which, changed)
        noticed += bool(found)
    assert noticed == 9


@pytest.mark.parametrize(
    "line",
    [
        "if along.mean() > 1: self.memory['last'] = along",
        "self.memory['last'].copy_(along)",
        "torch.add(along, 1, out=self.memory['last'])",
        "for key in self.memory: self.memory[key] = along",
        "self.memory[str(1)] = along",
        "pulled = (kept := along)",
        "setattr(self, 'memory', {})",
        "self.helper(info)",
        "pulled = pulled + globals()['info']",
        "pulled[:] = along",
        "(pulled, other) = (along, along)",
        "pulled += along",
        "pulled = self.other",
        "pulled = quantities.height(info)",
        "pulled = [along for _ in range(1)][0]",
    ],
)
def test_what_cannot_be_followed_counts_as_the_world(line):
    text = BEAT.replace(
        '        self.memory["last"] = pulled\n',
        f"        {line}\n"
        + """\
        self.memory["last"] = pulled
""",
    )
    assert "last" in told_by_the_world(text)


def test_memory_that_another_method_changes_counts_as_the_world():
    text = BEAT + "\n    def helper(self, info):\n        self.memory['last'] = info['x']\n"
    assert told_by_the_world(text) == {"beat", "last"}


def test_gaits_of_the_composer_keep_a_clock_and_sequences_look_at_the_world():
    spec = make(str(DOG), num_envs=1).spec
    for intent in ("trot forward", "walk forward at 0.5 m/s", "crawl forward", "bound forward"):
        reward = compose(intent, spec).reward
        assert load_reward(reward).seen_memory and told_by_the_world(reward) == set(), intent
    smooth = compose("trot forward smoothly", spec).reward
    assert told_by_the_world(smooth) == set()
    then = compose("walk forward then stop", spec).reward
    assert "phase" in told_by_the_world(then)


# ---------------------------------------------------------------------------- the numbers of it


def recorded(after, size, episodes=6, steps=120, actions=3, seed=0):
    """Memory that goes on by a function of (memory, action, step)."""
    random = np.random.default_rng(seed)
    asked = random.uniform(-1, 1, (episodes, steps, actions))
    memory = np.zeros((episodes, steps + 1, size))
    for step in range(steps):
        memory[:, step + 1] = after(memory[:, step], asked[:, step], step)
    return memory.astype(np.float32).astype(float), asked


def foretold(law, asked):
    keep, action = np.array(law.keep), np.array(law.action)
    state, shown = np.array(law.start), []
    for told in asked:
        shown.append(state[: law.shown])
        state = keep @ state + action @ told
    return np.array([*shown, state[: law.shown]])


@pytest.mark.parametrize("seed", range(8))
def test_any_linear_rule_is_found(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 5))
    turn, _ = np.linalg.qr(random.normal(size=(size, size)))
    told, constant, first = (random.normal(size=shape) for shape in ((3, size), size, size))

    def after(memory, asked, step):
        return 0.9 * memory @ turn.T + asked @ told + constant + (first if step == 0 else 0.0)

    memory, asked = recorded(after, size, seed=seed)
    law = fit(memory, asked, tuple("abcde"[:size]))
    assert np.abs(foretold(law, asked[-1]) - memory[-1]).max() < 1e-4


def test_a_beat_goes_on_for_an_hour():
    turn = 2 * np.pi * 0.0465
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])

    def after(memory, asked, step):
        return (memory if step else memory + np.array((1.0, 0.0))) @ spin.T

    law = fit(*recorded(after, 2, steps=250), ("x", "y"))
    last = (np.linalg.matrix_power(np.array(law.keep), 50 * 3600) @ law.start)[:2]
    angle = turn * 50 * 3600
    assert np.abs(last - (np.cos(angle), np.sin(angle))).max() < 0.05


@pytest.mark.parametrize(
    "after",
    [
        lambda memory, asked, step: np.maximum(memory, asked[:, :1]),
        lambda memory, asked, step: np.minimum(memory + 0.02, 1.0),
        lambda memory, asked, step: memory + (asked[:, :1] > 0.9),
    ],
    ids=["best so far", "stops counting", "counts"],
)
def test_what_follows_no_such_rule_is_refused(after):
    with pytest.raises(UsageError, match="no linear rule"):
        fit(*recorded(after, 1), ("a",))


def test_memory_that_the_policy_does_not_look_at_is_shown_as_zeros():
    law = find_law("", ("nowhere", {}), [], 3, 2)
    assert law.shown == 3 and foretold(law, np.ones((4, 2))).any() == False  # noqa: E712


def test_a_policy_that_looks_at_the_world_through_its_reward_is_told_what_it_is():
    text = BEAT.replace("pulled: float = action[:, 0] * 0.5", "pulled = along")
    with pytest.raises(UsageError, match=r"of the world \(last\)"):
        find_law(text, ("nowhere", {}), [0, 1, 2], 3, 12)
