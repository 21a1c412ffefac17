import importlib.util
import sys

import pytest
import torch

from telic.composer.compose import compose
from telic.envs import make
from telic.envs.foreign import _register_package
from telic.errors import BadEnvironment


def test_an_id_of_a_package_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        BadEnvironment, match=r"gymnasium_robotics.*pip install 'telic\[robotics\]'"
    ):
        _register_package("FetchReach-v4")
    _register_package("CartPole-v1")


def test_a_package_that_lacks_what_it_needs_says_what_that_is(tmp_path, monkeypatch):
    (tmp_path / "gymnasium_robotics").mkdir()
    (tmp_path / "gymnasium_robotics" / "__init__.py").write_text("import glfw_that_is_missing")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gymnasium_robotics", raising=False)
    with pytest.raises(
        BadEnvironment, match=r"requires glfw_that_is_missing.*pip install glfw_that"
    ):
        _register_package("FetchReach-v4")


@pytest.mark.filterwarnings("ignore")
def test_a_gripper_reaches_its_goal_in_words():
    pytest.importorskip("gymnasium_robotics")
    env = make("FetchReach-v4", num_envs=1)
    composed = compose("reach the goal", env.spec)
    assert composed.not_understood == ()
    assert composed.criteria[0].title == "is at its goal"
    obs = env.reset()
    for _ in range(20):
        way = 8.0 * (obs[:, 3:6] - obs[:, 0:3])
        obs = env.step(torch.cat((way, torch.zeros(1, 1)), 1).clamp(-1.0, 1.0)).obs
    assert (obs[:, 3:6] - obs[:, 0:3]).norm() < 0.05
    env.close()
