"""The allow-list: what rewards need passes, what they must not use is refused with line and fix."""

import numpy as np
import pytest

from telic.errors import RefusedCode
from telic.sandbox._allowed import BUILTINS, MODULES
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


def test_compiled_code_does_not_inherit_our_future_imports():
    code = compile_source("def f(x: 1 + 1):\n    return x\n", "reward.py")
    scope = {"__builtins__": {}}
    exec(code, scope)
    assert scope["f"].__annotations__ == {"x": 2}


def test_one_refusal_names_the_line_the_construct_and_the_fix():
    with pytest.raises(RefusedCode) as caught:
        check_source("x = 1\nimport random\n", "mine.py")
    assert caught.value.line == 2
    assert caught.value.message == (
        'mine.py, line 2: the import of "random" is not allowed in a reward.'
    )
    assert "function of its inputs" in caught.value.hint


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


def test_further_modules_are_allowed_name_by_name():
    source = "import mujoco\nmujoco.mj_name2id(1, 2, 'torso')\n"
    with pytest.raises(RefusedCode, match="mujoco"):
        check_source(source, "mine.py")
    check_source(source, "mine.py", extra_modules={"mujoco": {"mj_name2id": len}})
    with pytest.raises(RefusedCode, match=r"mujoco\.mj_step"):
        check_source(
            "import mujoco\nmujoco.mj_step(1, 2)",
            "mine.py",
            extra_modules={"mujoco": {"mj_name2id": len}},
        )


def test_known_quantities_are_checked_by_name():
    offered = {"telic": {"RewardFunction": object, "quantities": {"forward_velocity": len}}}
    check_source("x = quantities.anything", "mine.py")
    with pytest.raises(RefusedCode, match=r"telic\.quantities\.forward_velocity"):
        check_source("x = quantities.foward_velocity", "mine.py", extra_modules=offered)


BINDINGS = (
    "from numpy import {member} as {name}",
    "import {module} as {name}",
    "{name} = {module}.{member}",
    "def {name}(x):\n    return x",
    "class {name}:\n    pass",
    "for {name} in (1,):\n    pass",
    "[{name} for {name} in (1,)]",
    "({name} := 1)",
    "with np.errstate() as {name}:\n    pass",
    "try:\n    pass\nexcept ValueError as {name}:\n    pass",
    "match 1:\n    case {name}:\n        pass",
    "def f({name}):\n    return 0",
    "def f(*, {name}=1):\n    return 0",
    "f = lambda *{name}: 0",
    "class A:\n    def {name}(self):\n        return 0",
    "class A:\n    {name} = 1",
)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_no_binding_gives_a_builtin_another_meaning(name):
    for binding in BINDINGS:
        source = binding.format(name=name, module="numpy", member="errstate")
        with pytest.raises(RefusedCode, match="Choose another name"):
            check_source(f"import numpy\nimport numpy as np\n{source}\n", "reward.py")


DECORATED = """
from {module} import {member} as wrap
class Reward:
    @wrap
    def leak(self):
        return self.__class__
def reward_fn(obs, action, next_obs, info):
    return Reward().leak
"""


@pytest.mark.parametrize("module", ["numpy", "torch", "math", "numpy.linalg", "torch.special"])
def test_no_member_of_a_module_decorates(module):
    for member in MODULES[module]:
        with pytest.raises(RefusedCode, match="this decorator"):
            check_source(DECORATED.format(module=module, member=member), "reward.py")


def test_a_method_refuses_a_self_of_another_class():
    source = "class Reward:\n    def leak(self):\n        return self.shape\n"
    scope = namespace()
    exec(compile_source(source, "reward.py"), scope)
    with pytest.raises(TypeError, match="as `self`"):
        scope["Reward"].leak(np.zeros(3))
    assert not hasattr(scope["Reward"](), "shape")
