"""Only the recorder's observations are evidence; a reward adds at most bounded numbers."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.errors import TelicError, UsageError, WorkerDied
from telic.judges import recorder
from telic.judges.disturbance import Disturbance, Disturbed
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


def test_memory_is_cut_to_what_a_reward_may_count():
    assert bounded([[1e300, -7], [0.5, -1e300]], rows=2) == [[1e6, -7.0], [0.5, -1e6]]


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


@pytest.mark.parametrize("step", [None, -1, 2, "0", [0]])
def test_a_recorder_that_asks_for_no_step_ends_the_recording(tmp_path, worker, monkeypatch, step):
    monkeypatch.setattr(recorder, "_followed", lambda order: [np.zeros((2, 1))] * 2)
    worker({"step": step})
    with pytest.raises(WorkerDied, match="a step that the reward's memory lacks"):
        recorder.record(order(tmp_path), tmp_path)


def test_the_memory_is_computed_once_and_only_where_it_is_asked_for(tmp_path, worker, monkeypatch):
    steps, computed = [np.array([[0.0], [1.0]]), np.array([[2.0], [3.0]])], []
    monkeypatch.setattr(recorder, "_followed", lambda order: computed.append(order) or steps)
    files = {"sha256": ["a", "b"]}
    worker(result=files)
    assert [file.sha256 for file in recorder.record(order(tmp_path), tmp_path)] == ["a", "b"]
    assert not computed
    answers = worker({"step": 0}, {"step": 1}, result=files)
    recorder.record(order(tmp_path), tmp_path)
    assert answers == [{"memory": each.tolist()} for each in steps] and len(computed) == 1


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


@pytest.mark.parametrize(
    ("reported", "most", "error"),
    [([[1.0], [2.0]], 3, "more than 3 values"), ([[1.0]], 99, "not a row of numbers")],
)
def test_a_reward_that_floods_or_lies_ends_the_recording(
    tmp_path, monkeypatch, worker, reported, most, error
):
    worker(*[{"memory": reported}] * 9)
    monkeypatch.setattr(recorder, "_MAX_VALUES", most)
    with pytest.raises(WorkerDied, match=error):
        recorder._followed(order(tmp_path, reward="text"))


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


@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_policies_that_play_at_once_get_their_own_episodes(tmp_path, monkeypatch, cpus):
    orders = {str(number): order(tmp_path / str(number), count=1) for number in range(5)}
    logs = []

    def played(own, _folder, log):
        logs.append(log)
        return [RecordedFile(Path(path), "") for path in own.paths]

    monkeypatch.setattr(recorder, "usable_cores", lambda: range(cpus))
    monkeypatch.setattr(recorder, "record", played)
    files, why = recorder.record_each(orders, tmp_path)
    assert {name: [str(x.path) for x in own] for name, own in files.items()} == {
        name: [*each.paths] for name, each in orders.items()
    }
    assert len(set(logs)) == 5 and not why


SUMS = """
class Sums(RewardFunction):
    memory = {"steps": 0.0, "sum": 0.0}
    memory_to = "actor"

    def compute(self, obs, action, next_obs, info):
        self.memory["steps"] = self.memory["steps"] + 1.0
        self.memory["sum"] = self.memory["sum"] + action[:, 0]
        return obs[:, 0], {"x": obs[:, 0]}
"""


def test_a_reward_reports_the_memory_that_the_recorder_then_plays(tmp_path):
    """Both play the same episodes: with the memory of one, the other acts alike."""

    def policy(obs, memory):
        return 0.1 * obs[:, 1:2] + 0.01 * memory[:, :1] - 0.2 * memory[:, 1:]

    class Channel:
        def __init__(self):
            self.reported = []

        def send(self, message):
            self.reported.append(bounded(message["memory"], 2))

        def ask(self, message):
            return {"memory": self.reported[message["step"]]}

    asked = order(tmp_path, reward=SUMS, disturbance=Disturbance(push=0.1, noise=0.01, delay=1))
    channel = Channel()
    env, disturbed = recorder._open(asked)
    live, lengths = recorder._tape(policy, env, recorder._LiveMemory(channel, asked), disturbed)
    play(policy, asked, recorder._KnownMemory(channel))
    assert channel.reported[2][0][0] == 2.0
    for row, length in enumerate(lengths):
        episode = read_trajectory(tmp_path / f"{row}.npz")
        assert len(episode) == length
        assert (episode["action"] == live["action"][:length, row]).all()
