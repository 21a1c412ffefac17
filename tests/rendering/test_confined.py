"""A render process is confined: an environment that draws itself cannot use it to get out."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from telic.envs.simulators.names import permit_env
from telic.rendering.job import RenderJob
from telic.rendering.jobs import _graphics_variables, _read_report, render
from telic.sandbox.host import available
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from tests.rendering.videos import read_frames

ENVIRONMENT = """
import os, pathlib, socket, subprocess
import gymnasium, numpy as np

OUTSIDE = pathlib.Path({outside!r})

def attempt(name, act):
    try:
        act()
    except OSError:
        return []
    return [name]

done = [
    *attempt("read", lambda: (OUTSIDE / "secret").read_text()),
    *attempt("write", lambda: (OUTSIDE / "secret").write_text("x")),
    *attempt("plant", lambda: (OUTSIDE / "new").write_text("x")),
    *attempt("beside", lambda: pathlib.Path({videos!r}, "new").write_text("x")),
    *attempt("socket", lambda: socket.socket()),
    *attempt("program", lambda: subprocess.run(["/bin/sh", "-c", "true"])),
    *attempt("signal", lambda: os.kill(os.getppid(), 0)),
    *(name for name in os.environ if "SECRET" in name),
]

class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))
    action_space = gymnasium.spaces.Box(-9, 9, (1,))
    metadata = {{"render_modes": ["rgb_array"]}}
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {{}}
    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {{}}
    def render(self):
        return np.full((40, 60, 3), 20 * len(done), np.uint8)
"""


@pytest.fixture
def scene(tmp_path) -> Path:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (inside / "videos").mkdir(parents=True)
    (outside / "secret").write_text("secret")
    text = ENVIRONMENT.format(outside=str(outside), videos=str(inside / "videos"))
    (inside / "drawn.py").write_text(text)
    facts = TrajectoryFacts(env_id="HalfCheetah-v5", dt_s=0.5, seed=1)
    columns = {"next_obs": np.zeros((3, 1)), "obs": np.zeros((3, 1)), "action": np.ones((3, 1))}
    write_trajectory(inside / "forged.npz", Trajectory(columns, facts))
    return inside


def test_an_environment_that_draws_itself_can_do_nothing_else(scene, monkeypatch):
    if available().missing:
        pytest.skip("this kernel cannot confine a process")
    monkeypatch.setenv("MY_SECRET_KEY", "x")
    video = scene / "videos" / "own.mp4"
    env = f"{scene / 'drawn.py'}:Env"
    limit = {"max_episode_steps": 100}  # telic's, of which the environment knows nothing
    job = RenderJob(
        trajectory=scene / "forged.npz", output=video, env=env, env_args=limit, caption=False
    )
    (drawn,) = render([job], backend="rays")
    assert "not approved" in drawn.error and not video.exists()
    permit_env(env)
    (drawn,) = render([job], backend="rays")
    assert drawn.error is None and video.stat().st_size > 500
    assert drawn.backend == "gymnasium"
    frames = read_frames(video)
    assert len(frames) == 3 and frames[:, :40].max() < 10, "black: nothing was done"
    assert (scene.parent / "outside" / "secret").read_text() == "secret"
    assert os.listdir(scene.parent / "outside") == ["secret"]


def test_a_recording_alone_imports_nothing(scene):
    facts = TrajectoryFacts(env_id=f"{scene / 'drawn.py'}:Env", dt_s=0.5, seed=1)
    write_trajectory(scene / "lie.npz", Trajectory({"qpos": np.zeros((3, 9))}, facts))
    job = RenderJob(trajectory=scene / "lie.npz", output=scene / "lie.png", env="HalfCheetah-v5")
    (drawn,) = render([job], backend="rays")
    assert (drawn.error, drawn.backend) == (None, "rays"), "it is played where the caller says"


def test_a_render_process_gets_variables_of_graphics_and_no_keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("LIBGL_ALWAYS_SOFTWARE", "1")
    given = _graphics_variables("egl", 1)
    assert "OPENAI_API_KEY" not in given
    assert (given["LIBGL_ALWAYS_SOFTWARE"], given["MUJOCO_GL"]) == ("1", "egl")


def test_drawing_a_robot_imports_neither_torch_nor_gymnasium():
    code = (
        "import sys; import telic.rendering._worker; from telic.rendering.job import RenderJob;"
        "from telic.rendering.replay import import_environments;"
        "import_environments([RenderJob(trajectory='a.npz', output='a.mp4', env='Ant-v5')]);"
        "print(sorted({'torch', 'gymnasium'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "message",
    [
        *([1], None, {}, {"job": "x"}, {"job": -1}),
        {"job": 0, "rendering": {"output": 3}},
        {"job": 0, "frame": "x", "frames": 2},
    ],
)
def test_a_message_that_reports_nothing_is_ignored(message):
    assert _read_report(message) is None
