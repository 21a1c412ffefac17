"""Whole sessions on what is not one of the ten tasks: other environments, robots of many files."""

from pathlib import Path

import pytest

from telic.envs.simulators.names import permit_env
from telic.session.loop import run_session
from tests.envs.multifile import write_robot

SMALL = {"seeds": (1,), "episodes": 4, "steps": 256, "iterations": 1, "start_seed": 0}
PUCK = '''
import gymnasium, numpy as np
class Puck(gymnasium.Env):
    """A puck on a table."""
    observation_space = gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(-9, 9, (2,))})
    action_space = gymnasium.spaces.Box(-3.0, 3.0, (2,))
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2)
        return {"place": self.place.astype(np.float32)}, {}
    def step(self, action):
        self.place = np.clip(self.place + 0.1 * np.asarray(action), -9, 9)
        return {"place": self.place.astype(np.float32)}, 0.0, False, False, {}
'''


@pytest.mark.parametrize(
    ("env", "intent"),
    [
        ("CartPole-v1", "keep the pole upright"),
        pytest.param("MountainCarContinuous-v0", "reach the flag", marks=pytest.mark.slow),
        pytest.param(
            "puck.py:Puck",
            "keep place_0 near 0 within 0.5 and keep place_1 below 3",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_environment_without_a_robot_goes_all_the_way(home, tmp_path, monkeypatch, env, intent):
    (tmp_path / "puck.py").write_text(PUCK)
    monkeypatch.chdir(tmp_path)
    permit_env(env)  # as telic run does for what its command names
    session = run_session(intent, env=env, runs_dir=tmp_path / "runs", **SMALL)
    assert session.summary.score is not None
    assert session.summary.outcome in ("passed", "not_passed", "unproven")
    assert session.summary.not_understood == ()
    assert (session.path / "report.html").exists()


@pytest.mark.long
def test_robot_of_many_files_is_probed_trained_judged_and_rendered_confined(tmp_path, monkeypatch):
    model = write_robot(tmp_path / "robots")
    monkeypatch.chdir(model.parent)
    session = run_session("walk forward", env="robot.xml", runs_dir=tmp_path / "runs", **SMALL)
    assert session.summary.score is not None
    assert Path(session.path / "report" / "median.mp4").stat().st_size > 1000
