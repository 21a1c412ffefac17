"""Drawing in child processes: backends, fallbacks, jobs that fail."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from telic.envs.simulators.names import permit_env
from telic.errors import ConfigError, TelicError, UnknownName, WorkerDied
from telic.rendering import RenderJob, choose_backend, draw_portrait, render, render_one
from telic.rendering import jobs as backends
from telic.sim.files import assets_dir
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from tests.event_list import EventList
from tests.rendering.videos import read_frames, read_video_facts

SMALL = {"env": "HalfCheetah-v5", "width": 96, "height": 72}


def test_the_backend_is_found_by_looking_and_this_process_stays_clean(monkeypatch):
    monkeypatch.delenv(backends.FORCE, raising=False)
    before = dict(os.environ)
    backend = choose_backend()
    assert backend in backends.candidates()
    assert backends._why_broken(backend) is None
    assert dict(os.environ) == before
    monkeypatch.setenv(backends.FORCE, "rays")
    assert choose_backend() == "rays"
    monkeypatch.setenv(backends.FORCE, "eagle")
    with pytest.raises(UnknownName, match="egl"):
        choose_backend()


def test_a_backend_that_cannot_draw_says_why(monkeypatch):
    monkeypatch.setattr(backends, "_graphics_variables", lambda *_: {"MUJOCO_GL": "nonsense"})
    assert "nonsense" in str(backends._why_broken.__wrapped__("egl"))


@pytest.mark.slow
def test_rays_draw_a_video_and_a_strip_in_one_child(cheetah_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received = EventList()
    jobs = [
        RenderJob(trajectory=cheetah_file, output=Path("v.mp4"), **SMALL),
        RenderJob(trajectory=Path("cheetah.npz"), output=Path("s.png"), frames=3, **SMALL),
    ]
    video, strip = render(jobs, backend="rays", listener=received)
    assert (video.error, video.backend) == (None, "rays")
    facts = read_video_facts(tmp_path / "v.mp4")
    assert (facts.codec, facts.width, facts.height, facts.fps) == ("h264", 96, 72, 20.0)
    assert facts.duration_s == pytest.approx(2.0, abs=0.06)
    assert (strip.error, strip.output) == (None, Path("s.png"))
    assert (tmp_path / "s.png").read_bytes()[16:24] == bytes([0, 0, 1, 36, 0, 0, 0, 72])  # 292 wide
    assert received[0] == {"event": "video.progress", "path": "v.mp4", "frame": 0, "frames": 40}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cheetah.npz", "s.png", "v.mp4"]


@pytest.mark.slow
def test_opengl_draws_what_the_rays_draw_however_far_away(cheetah, tmp_path):
    cheetah = Trajectory({k: column[:12] for k, column in cheetah.columns.items()}, cheetah.facts)
    cheetah_file = tmp_path / "cheetah.npz"
    write_trajectory(cheetah_file, cheetah)
    backend = choose_backend()
    if backend == "rays":
        pytest.skip(f"no OpenGL here: {backends._why_broken('egl')}")
    jobs = [RenderJob(trajectory=cheetah_file, output=tmp_path / "gl.mp4", **SMALL)]
    kilometer = cheetah["qpos"] + 1000.0 * np.eye(9)[0]
    far = Trajectory({**cheetah.columns, "qpos": kilometer}, cheetah.facts)
    write_trajectory(tmp_path / "far.npz", far)
    away = {"trajectory": tmp_path / "far.npz", "output": tmp_path / "far.mp4"}
    jobs += [jobs[0].model_copy(update=away)]
    assert [each.error for each in render(jobs, backend=backend)] == [None] * 2
    other = jobs[0].model_copy(update={"output": tmp_path / "rays.mp4"})
    render([other], backend="rays")

    def orange(name):
        frames = read_frames(tmp_path / name).astype(int)
        return frames[..., 0] > frames[..., 2] + 50

    names = ("gl.mp4", "far.mp4", "rays.mp4")
    near, far, cast = (read_frames(tmp_path / name).astype(int) for name in names)
    assert np.abs(near - far).mean() < 3, "the floor stayed behind"
    assert np.abs(near - cast).mean() < 6, "they do not agree on the floor's tiles"
    ours, theirs = orange("gl.mp4"), orange("rays.mp4")
    assert ours.sum() > 25 * len(ours)
    assert (ours & theirs).sum() > 0.7 * (ours | theirs).sum()


def test_settings_that_make_no_sense_are_refused_before_anything_starts(cheetah_file, tmp_path):
    for settings, words in [({"width": 5}, "width"), ({"view": "back"}, "view"), ({"a": 1}, "a:")]:
        with pytest.raises(ConfigError, match=words):
            render_one(cheetah_file, tmp_path / "s.png", env="HalfCheetah-v5", **settings)
    with pytest.raises(ConfigError, match=r"\.gif"):
        render_one(cheetah_file, tmp_path / "v.gif", env="HalfCheetah-v5")
    assert render([]) == []


OWN_ENVIRONMENT = """
import gymnasium, numpy as np

class Dot(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(0, 1)
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x += float(action[0])
        return np.array([self.x], np.float32), 0.0, False, False, {}

    def render(self):
        picture = np.zeros((40, 60, 3), np.uint8)
        picture[10:30, 10 * int(self.x) : 10 * int(self.x) + 10] = 255
        return picture
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_model_draws_itself_if_the_same_comes_out_again(tmp_path, monkeypatch):
    (tmp_path / "dot.py").write_text(OWN_ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    permit_env("dot.py:Dot")
    import gymnasium

    x = gymnasium.utils.seeding.np_random(11)[0].uniform(0, 1)
    xs = np.array([[x], [x + 1], [x + 2], [x + 3]])
    columns = {"obs": xs[:-1], "next_obs": xs[1:], "action": np.ones((3, 1)), "reward": np.ones(3)}
    facts = TrajectoryFacts(env_id="dot.py:Dot", dt_s=0.5, seed=11)
    write_trajectory(tmp_path / "same.npz", Trajectory(columns, facts))
    changed_actions = {**columns, "action": np.full((3, 1), 0.9)}
    write_trajectory(tmp_path / "other.npz", Trajectory(changed_actions, facts))
    classic = {**columns, "next_obs": np.zeros((3, 4)), "obs": np.zeros((3, 4))}
    poles = TrajectoryFacts(env_id="CartPole-v1", dt_s=0.02)
    write_trajectory(tmp_path / "pole.npz", Trajectory(classic, poles))
    envs = {"same": "dot.py:Dot", "other": "dot.py:Dot", "pole": "CartPole-v1"}
    jobs = [
        RenderJob(trajectory=f"{name}.npz", output=f"{name}.mp4", env=env, caption=False)
        for name, env in envs.items()
    ]
    same, changed, pole = render(jobs, backend="rays")
    assert (same.error, same.backend) == (None, "gymnasium")
    frames = read_frames(Path("same.mp4"))
    assert len(frames) == 3 and read_video_facts(Path("same.mp4")).fps == 2.0
    assert [int(np.nonzero(f[20, :, 0] > 128)[0][0]) // 10 for f in frames] == [1, 2, 3]
    assert "led to different observations" in str(changed.error)
    assert "seed is unknown" in str(pole.error)


@pytest.mark.slow
def test_crashing_backend_is_replaced_with_a_message(cheetah_file, tmp_path, monkeypatch):
    real = backends.run_worker
    started = []

    def crash(*given, **options):
        started.append(1)
        if len(started) < crashes:
            raise WorkerDied("The worker was killed by SIGABRT.")
        return real(*given, **options)

    monkeypatch.setattr(backends, "run_worker", crash)
    received = EventList()
    job = RenderJob(trajectory=cheetah_file, output=tmp_path / "s.png", frames=1, **SMALL)
    crashes = 2
    (done,) = render([job], backend="egl", listener=received)
    assert (done.error, done.backend) == (None, "rays")
    (printed,) = [event["message"] for event in received if event["event"] == "log"]
    assert printed.startswith("Rendering continues with rays: egl failed (The worker was killed by")
    started.clear()
    crashes = 9
    (failed,) = render([job], backend="egl")
    assert failed.error is not None and failed.error.startswith("rays failed (The worker")


@pytest.mark.slow
def test_a_job_that_fails_does_not_stop_the_others(cheetah, cheetah_file, tmp_path, monkeypatch):
    monkeypatch.setenv(backends.FORCE, "rays")
    other = tmp_path / "other.npz"
    write_trajectory(other, Trajectory({"qpos": np.zeros((3, 5))}, cheetah.facts))
    (tmp_path / "broken.npz").write_bytes(b"no")
    names = ["other.npz", "broken.npz", "cheetah.npz", "none.npz"]
    jobs = [
        RenderJob(trajectory=tmp_path / name, output=tmp_path / f"{name}.png", frames=1, **SMALL)
        for name in names
    ]
    results = render(jobs, backend="rays", processes=2)
    assert [result.output.name for result in results] == [f"{name}.png" for name in names]
    errors = [result.error or "" for result in results]
    assert "5 positions per step" in errors[0]
    assert "is not a trajectory" in errors[1]
    assert errors[2] == ""
    assert "Trajectory not found" in errors[3]
    with pytest.raises(TelicError, match="was not rendered"):
        render_one(tmp_path / "none.npz", tmp_path / "x.mp4", env="HalfCheetah-v5")


@pytest.mark.slow
def test_a_portrait_shows_the_robot_of_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv(backends.FORCE, "rays")
    draw_portrait(assets_dir() / "hopper.xml", tmp_path / "hopper.png")
    picture = np.asarray(Image.open(tmp_path / "hopper.png"))
    assert picture.shape == (480, 640, 3) and picture.std() > 10
