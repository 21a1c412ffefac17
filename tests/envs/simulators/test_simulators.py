"""Simulators in processes of their own: the protocol, its adapters, and training through it."""

import ast
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import telic
from telic.envs import make
from telic.envs.simulators import _process as process
from telic.envs.simulators import names
from telic.envs.simulators.names import ADAPTERS, SimulatorAdapter
from telic.errors import BadEnvironment, ConfigError, SimulatorError, UsageError
from telic.testing import SimulatorContract
from telic.training.policy import load_policy
from telic.verbs.search import search
from tests.sandbox.test_host import is_alive
from tests.training.small import small_job, train_here

TOY = SimulatorAdapter(Path(__file__).with_name("toy_adapter.py"), "counts up", ())


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setitem(ADAPTERS, "toy", TOY)
    monkeypatch.setattr(process, "_CLOSE_S", 0.5)


class TestToy(SimulatorContract):
    env = "toy:counts"


# ---- the protocol


def test_the_last_observation_is_the_one_before_where_a_simulator_shows_none():
    shown, hidden = (make(f"toy:{task}", num_envs=2, seed=5) for task in ("final", "x"))
    push = torch.ones(2, 1)
    for env in (shown, hidden):
        env.reset()
    starts = shown.exact_obs[:, 0].clone()
    for _ in range(7):
        one, other = shown.step(push), hidden.step(push)
    assert one.truncated.all() and other.truncated.all()
    assert torch.equal(one.final_obs[:, 0], starts + 7)
    assert torch.equal(other.final_obs[:, 0], starts + 6)
    assert torch.equal(other.info["critic"][:, 0], -(starts + 6))
    assert torch.equal(hidden.present()["critic"][:, 0], -hidden.exact_obs[:, 0])
    assert torch.equal(one.obs[:, 0], starts[:1].expand(2)), "a new episode has begun"
    assert torch.equal(one.info["time"], torch.full((2,), 0.7))
    shown.close()
    hidden.close()


@pytest.mark.parametrize(
    "task, kind, words",
    [
        ("raises", SimulatorError, r"failed: ValueError: no contact \(.*toy_adapter.py, line \d+"),
        ("dies", SimulatorError, r"exited \(exit code 7\).*cannot go on"),
        ("hangs", SimulatorError, r"did not respond for 0.5 s.*thinking"),
    ],
)
def test_what_goes_wrong_in_a_simulator_is_one_paragraph_with_its_last_words(task, kind, words):
    env = make(f"toy:{task}", num_envs=2, answer_s=0.5)
    env.reset()
    with pytest.raises(kind, match=words) as caught:
        env.step(torch.zeros(2, 1))
    assert "\n" not in caught.value.message
    if task == "raises":
        assert "the ground gave way" in caught.value.message
    (number,) = env.processes
    env.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_cannot_be_started_says_why(tmp_path):
    with pytest.raises(SimulatorError, match="No module named 'toy'"):
        make("toy:absent", num_envs=1)
    with pytest.raises(SimulatorError, match="obs_names"):
        make("toy:unclear", num_envs=1)
    with pytest.raises(BadEnvironment, match=r"nowhere.*No such file") as caught:
        make("toy:counts", num_envs=1, python=str(tmp_path / "nowhere"))
    assert "--python" in str(caught.value)
    with pytest.raises(BadEnvironment, match="isaaclab is not installed") as caught:
        make("isaaclab:Isaac-Ant-v0", num_envs=1)
    assert "Isaac Sim" in str(caught.value)
    with pytest.raises(
        BadEnvironment, match=r"does not name a task.*Mjlab-Velocity-Flat-Unitree-Go1"
    ):
        make("mjlab:", num_envs=1)
    with pytest.raises(ConfigError, match="not divisible by"):
        make("toy:counts", num_envs=3, seed=[1, 2])


def test_a_simulator_ends_with_its_parent_even_while_it_hangs():
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:  # no test from here on: it starts a simulator, says which, and waits
        try:
            env = make("toy:hangs", num_envs=1)
            env.reset()
            os.write(write, str(env.processes[0]).encode())
            env.step(torch.zeros(1, 1))
        finally:  # whatever fails: it must never go on as a second run of all tests
            os._exit(0)
    os.close(write)  # a child that fails is the end of the pipe, not of this test's patience
    number = int(os.read(read, 20))
    os.kill(number, 0)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    os.close(read)
    until = time.monotonic() + 120.0
    while (is_running := is_alive(number)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running, "the simulator goes on without its parent"


def test_the_simulators_side_imports_nothing_of_telic():
    folder = Path(names.__file__).parent
    for name in ("server.py", "lab_adapter.py"):
        for node in ast.walk(ast.parse((folder / name).read_text())):
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("telic") for each in node.names), name
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("telic") and not node.level, name


def test_a_simulator_is_given_no_secrets(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "abc")
    monkeypatch.setenv("PYTHONPATH", "ours")
    given = process._environment()
    assert "SOME_API_KEY" not in given and "PYTHONPATH" not in given and given["HOME"]


def test_what_simulators_cannot_do_is_refused_at_once(tmp_path):
    with pytest.raises(UsageError, match=r"A session cannot use mjlab:X.*telic train mjlab:X"):
        telic.run("walk", env="mjlab:X", runs_dir=tmp_path)
    for env in ("mjlab:X", "isaaclab:Isaac-Ant-v0"):
        for place in (None, "local"):
            with pytest.raises(UsageError, match=f"Policy search cannot use {env}.*telic train"):
                search(env=env, runs_dir=tmp_path, on=place)
            with pytest.raises(UsageError, match=f"A session cannot use {env}"):
                telic.run("walk", env=env, runs_dir=tmp_path, on=place)
    assert not list(tmp_path.iterdir())


# ---- training


def test_a_simulator_is_trained_saved_resumed_and_played(tmp_path):
    sees = {"critic_sees": ("critic",)}
    job = small_job("toy:counts", steps=768, env_args={}, evaluations=1, settings=sees)
    asked = iter([False, True])
    stopped = train_here(job, tmp_path, should_stop=lambda: next(asked, True))
    assert stopped.state.exists()
    run = train_here(job, tmp_path)
    assert run.path == stopped.path, "the same command goes on"
    policy = load_policy(run.path)
    assert policy(np.zeros((1, 2), np.float32)).shape == (1, 1)


@pytest.mark.slow
def test_members_in_simulators_are_what_they_are_alone(tmp_path):
    together = train_here(small_job("toy:x", steps=512, env_args={}, seeds=(1, 2)), tmp_path / "a")
    alone = train_here(small_job("toy:x", steps=512, env_args={}, seeds=(2,)), tmp_path / "b")
    policies = [load_policy(run.path / "default_seed_2") for run in (together, alone)]
    obs = np.linspace(-3, 3, 8, dtype=np.float32).reshape(4, 2)
    assert np.array_equal(policies[0](obs), policies[1](obs))
