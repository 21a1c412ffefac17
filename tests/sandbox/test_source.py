"""The allow-list: what rewards need passes, what they must not use is refused with line and fix."""

import numpy as np
import pytest

from telic.errors import RefusedCode
from telic.sandbox.source import check_source, compile_source, namespace

CLOSURE = r'''
"""Reward with LaTeX: r = v_x - 0.1 \|a\|^2 \cdot \alpha

Terms:
    speed: forward velocity
"""
import numpy as np

_TARGET = 1.25


def _make_reward():
    steps = 0
    best = -np.inf
    history = {"x": []}

    def reward_fn(obs, action, next_obs, info):
        nonlocal steps, best
        if info.get("_episode_start", False):
            steps, best = 0, -np.inf
            history["x"] = []
        steps += 1
        speed = float(info.get("x_velocity", 0.0))
        control = -0.1 * float(np.sum(np.square(action)))
        try:
            data = info["mj_data"]
            height = float(data.qpos[2])
            torso = data.body("torso").xpos
        except (KeyError, IndexError):
            height, torso = 0.0, np.zeros(3)
        best = max(best, speed)
        upright = float(np.clip(height - 0.7, 0.0, 1.0)) * float(np.linalg.norm(torso) >= 0)
        terms = {"speed": speed, "control": control, "upright": upright}
        assert all(isinstance(value, float) for value in terms.values()), f"{terms!r:>10}"
        return sum(terms.values()), terms

    return reward_fn


reward_fn = _make_reward()

if __name__ == "__main__":
    print(reward_fn(np.zeros(3), np.zeros(2), np.zeros(3), {}))
'''

CLASS = r"""
from __future__ import annotations

import math
from collections import deque
from typing import Any, Optional

import torch
import torch.nn.functional as F
from numpy import clip as np_clip
from telic import RewardFunction, quantities


class Base(RewardFunction):
    weights = {"speed": 1.0, "control": 0.1}
    _gain = 2.0

    @property
    def latex(self) -> str:
        return r"r = \frac{1}{2} v_x"

    @property
    def terms(self) -> dict[str, str]:
        return {name: f"term {name}" for name in self.weights}

    @staticmethod
    def _soft(x: torch.Tensor | float) -> torch.Tensor:
        return F.softplus(torch.as_tensor(x))


class Run(Base):
    def __init__(self, horizon: int = 5, scale: Optional[float] = None):
        super().__init__()
        self._recent = deque(maxlen=horizon)
        self.scale: float = scale if scale is not None else self._gain
        self.f_contact, self.count = 0.0, 0

    def compute(self, obs, action, next_obs, info) -> tuple[Any, dict[str, Any]]:
        with torch.no_grad():
            speed = quantities.forward_velocity(info)
        control = (action ** 2).sum(-1)
        self._recent.append(speed)
        self.count += 1
        obs = obs.clone()
        obs[0] = 1.0
        shaped = self._soft(speed) * math.exp(-1.0) * np_clip(self.scale, 0, 1)
        parts = [w * t for w, t in zip(self.weights.values(), (shaped, -control))]
        match self.count:
            case 1 | 2:
                first = True
            case _:
                first = False
        key = (lambda value: -value)(1.0)
        if isinstance(obs, (torch.Tensor, np.ndarray)) and not first:
            parts = sorted(parts, key=lambda t: float(t.mean()))
        return sum(parts) + key * 0, {"speed": shaped, "control": control}
"""


@pytest.mark.parametrize("source", [CLOSURE, CLASS], ids=["closure", "class"])
def test_a_reward_as_people_and_models_write_it_passes(source):
    check_source(source, "reward.py")


def test_all_refusals_are_listed_up_to_ten():
    source = "\n".join(f"x{number} = open('{number}')" for number in range(13))
    with pytest.raises(RefusedCode) as caught:
        check_source(source, "mine.py")
    text = str(caught.value)
    assert "13 constructs" in text
    assert text.count("\n  line ") == 10
    assert "line 10:" in text and "line 11:" not in text
    assert "and 3 more" in text


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("import numpy as np\nnp.clp(1, 0, 2)", "numpy.clip"),
        ("import torch\ntorch.clmp(1)", "torch.clamp"),
        ("def f(observation):\n    return observatoin", "Did you mean observation"),
        ("from prompt.rewards import RewardFunction", "from telic import RewardFunction"),
        ("import time", 'info["time"]'),
        ('"{}".format(1)', "f-string"),
        ("def f(obs):\n    obs += 1", "obs = obs + ..."),
        ("def f(info):\n    info['x'] = 1", "The trainer owns info"),
        ("f.count = 1\ndef f(): pass", "closure with nonlocal"),
    ],
)
def test_the_fix_is_what_to_write_instead(source, fix):
    with pytest.raises(RefusedCode) as caught:
        check_source(source, "mine.py")
    assert fix in str(caught.value)


def test_a_method_refuses_a_self_of_another_class():
    source = "class Reward:\n    def leak(self):\n        return self.shape\n"
    scope = namespace()
    exec(compile_source(source, "reward.py"), scope)
    with pytest.raises(TypeError, match="as `self`"):
        scope["Reward"].leak(np.zeros(3))
    assert not hasattr(scope["Reward"](), "shape")
