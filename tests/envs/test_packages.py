import importlib.util

import pytest

from telic.envs.foreign import _register_package
from telic.errors import BadEnvironment


def test_an_id_of_a_package_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        BadEnvironment, match=r"gymnasium_robotics.*pip install 'telic\[robotics\]'"
    ):
        _register_package("FetchReach-v4")
    _register_package("CartPole-v1")
