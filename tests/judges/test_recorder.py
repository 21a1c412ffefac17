"""Only the recorder's observations are evidence; a reward adds at most bounded numbers."""

import math

import pytest
import torch

from telic.envs import make
from telic.errors import TelicError, UsageError, WorkerDied
from telic.judges import recorder
from telic.judges.disturbance import Disturbed
from telic.judges.recorder import (
    RecordedFile,
    RolloutSpec,
    bounded,
    is_unchanged,
    play,
)
from telic.storage.reading import file_hash
from telic.storage.trajectories import read_trajectory


def order(tmp_path, count=2, **more):
    paths = tuple(str(tmp_path / f"{index}.npz") for index in range(count))
    given = {"policy": "", "env": "InvertedPendulum-v5", "env_args": {"max_episode_steps": 12}}
    return RolloutSpec(**(given | {"seed": 3, "paths": paths} | more))


@pytest.mark.parametrize(
    "memory",
    [
        None,
        "many",
        [],
        [[1.0]],
        [[1.0], [1.0, 2.0]],
        [[1.0], "x"],
        [[1.0], [math.nan]],
        [[math.inf], [0.0]],
        [[True], [0.0]],
        [["1"], ["2"]],
        [[[1.0]], [[2.0]]],
        {"0": [1.0], "1": [1.0]},
    ],
    ids=repr,
)
def test_memory_that_is_not_a_row_of_numbers_is_refused(memory):
    with pytest.raises(WorkerDied, match="memory"):
        bounded(memory, rows=2)


def test_command_changes_the_actions_but_not_the_recorded_values(tmp_path):
    """The simulation answers the actions; memory reaches the policy and nothing else."""

    def policy(obs, memory):
        return 0.1 * memory[:, :1].clamp(-1, 1) + 0.0 * obs[:, :1]

    class Lies:
        asked = steps = 0

        def now(self):
            self.asked += 1
            return torch.full((2, 1), 1e6)

        def follow(self, obs, action, step):
            self.steps += 1

    lies = Lies()
    play(policy, order(tmp_path), lies)
    episode = read_trajectory(tmp_path / "0.npz")
    assert lies.asked == lies.steps >= len(episode)
    assert episode["action"] == pytest.approx(0.1) and "memory" not in episode
    assert episode.facts.env_id == "InvertedPendulum-v5" and episode.facts.seed == 3


def test_a_changed_recording_is_noticed(tmp_path):
    play(lambda obs: torch.zeros(len(obs), 1), order(tmp_path, count=1))
    path = tmp_path / "0.npz"
    file = RecordedFile(path, file_hash(path))
    assert is_unchanged(file)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert not is_unchanged(file)
    path.unlink()
    assert not is_unchanged(file)


@pytest.fixture
def worker(monkeypatch):
    """Return a function that lets sandboxed workers send messages and return a result."""

    def answering(*messages, result=None):
        def run_confined(*_, on_message, **__):
            answers.extend(on_message(each) for each in messages)
            return result or {}

        answers = []
        monkeypatch.setattr(recorder, "run_confined", run_confined)
        return answers

    return answering


@pytest.mark.parametrize("reported", [None, [], "x", ["a"], ["a", "b", "c"], {"0": "a"}, 7])
def test_a_recorder_that_does_not_name_its_files_is_not_believed(tmp_path, worker, reported):
    worker(result={"sha256": reported})
    with pytest.raises(WorkerDied, match="one hash per file"):
        recorder.record(order(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("reward", "error", "words"),
    [
        (None, UsageError, "its reward, but the reward is missing"),
        ("import os\n", TelicError, "os"),
    ],
)
def test_a_reward_that_cannot_run_ends_the_recording(tmp_path, reward, error, words):
    with pytest.raises(error, match=words):
        recorder._followed(order(tmp_path, reward=reward))


STIFF = """<mujoco><option timestep=".005"/><worldbody><geom type="plane" size="9 9 1"/>
  <body pos="0 0 .3"><freejoint/><geom type="box" size=".2 .1 .05" mass="5"/>
    <body pos="0 .2 0"><joint name="wheel" axis="0 1 0"/>
      <geom type="cylinder" size=".08 .03" euler="90 0 0" mass=".5"/></body></body>
</worldbody><actuator><velocity joint="wheel" kv="{kv}" ctrlrange="-20 20"/></actuator></mujoco>"""


@pytest.mark.parametrize(("kv", "explodes"), [(0.01, False), (5.0, True)])
def test_an_episode_ends_where_its_numbers_explode(tmp_path, kv, explodes):
    # MuJoCo would put the robot back to its start and let the episode go on.
    model = tmp_path / "stiff.xml"
    model.write_text(STIFF.format(kv=kv))
    env = make(str(model), num_envs=2, seed=1, max_episode_steps=60)
    full = Disturbed(env, None, seed=1)
    _, lengths = recorder._tape(lambda obs: torch.full((2, 1), 20.0), env, None, full)
    assert all(0 < length < 60 for length in lengths) if explodes else lengths == [60, 60]
