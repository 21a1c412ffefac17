"""Evidence is what the recorder saw; a reward beside it adds bounded numbers or nothing."""

import math
from pathlib import Path

import pytest
import torch

from telic.envs import make
from telic.errors import TelicError, UsageError, WorkerDied
from telic.judges import recorder
from telic.judges.disturbance import Disturbed
from telic.judges.recorder import (
    PlayOrder,
    RecordedFile,
    Rewards,
    bounded,
    is_unchanged,
    play,
)
from telic.storage.reading import file_hash
from telic.storage.trajectories import read_trajectory


def order(tmp_path, count=2, **more):
    paths = tuple(str(tmp_path / f"{index}.npz") for index in range(count))
    given = {"policy": "", "env": "InvertedPendulum-v5", "env_args": {"max_episode_steps": 12}}
    return PlayOrder(**(given | {"seed": 3, "paths": paths} | more))


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
def test_memory_that_is_no_row_of_numbers_is_refused(memory):
    with pytest.raises(WorkerDied, match="memory"):
        bounded(memory, rows=2)


def test_memory_is_cut_to_what_a_reward_may_count():
    assert bounded([[1e300, -7], [0.5, -1e300]], rows=2) == [[1e6, -7.0], [0.5, -1e6]]


def test_what_a_policy_is_told_changes_what_it_does_and_not_what_is_written_of_it(tmp_path):
    """The simulation answers the actions; memory reaches the policy and nothing else."""

    def policy(obs, memory):
        return 0.1 * memory[:, :1].clamp(-1, 1) + 0.0 * obs[:, :1]

    class Lies:
        told, answered = [], 0

        def follow(self, action):
            self.told.append(action)

        def after(self):
            self.answered += 1
            return torch.full((2, 1), 1e6)

    lies = Lies()
    play(policy, order(tmp_path), lies)
    episode = read_trajectory(tmp_path / "0.npz")
    assert lies.told[0] is None and len(lies.told) > len(episode)
    assert lies.answered == len(lies.told), "an answer left over would be taken for the next one's"
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


@pytest.mark.parametrize(
    "told", [None, [], "x", [["a"]], [["a", "b", "c"]], {"0": ["a", "b"]}, [7]]
)
def test_a_recorder_that_does_not_name_its_files_is_not_believed(tmp_path, told):
    with pytest.raises(WorkerDied, match="one hash per file"):
        recorder._files([order(tmp_path)], told)


@pytest.mark.parametrize(
    "message",
    [{}, {"order": -1, "action": None}, {"order": 5, "action": None}, {"order": "0", "action": []}],
)
def test_a_message_of_another_shape_ends_the_recording(tmp_path, message):
    beside = Rewards([order(tmp_path)])
    with pytest.raises(WorkerDied, match="invalid message"):
        beside.answer(message)


def test_memory_without_a_reward_is_refused_with_the_reason(tmp_path):
    beside = Rewards([order(tmp_path)])
    with pytest.raises(UsageError, match="its reward, which is missing"):
        beside.answer({"order": 0, "action": None})


def test_a_reward_that_cannot_run_ends_the_recording_with_its_own_words(tmp_path):
    beside = Rewards([order(tmp_path, reward="import os\n")])
    try:
        with pytest.raises(TelicError, match="os"):
            beside.answer({"order": 0, "action": None})
    finally:
        beside.close()


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


@pytest.mark.parametrize("cpus", [1, 2, 3, 64])
def test_policies_that_play_at_once_get_their_own_episodes(tmp_path, monkeypatch, cpus):
    orders = [order(tmp_path / str(number), count=1) for number in range(5)]
    logs = []

    def played(own, _folder, log):
        logs.append(log)
        return [[RecordedFile(Path(path), "") for path in each.paths] for each in own]

    monkeypatch.setattr(recorder, "usable_cores", lambda: range(cpus))
    monkeypatch.setattr(recorder, "_record_here", played)
    files = recorder.record(orders, tmp_path)
    assert [[str(file.path) for file in own] for own in files] == [list(x.paths) for x in orders]
    assert len(set(logs)) == len(logs) == min(5, cpus)


def test_only_orders_of_one_policy_share_the_process_of_its_reward(tmp_path, monkeypatch):
    started = []

    def serve(rewards):
        started.append(rewards._running[0])
        commands, memories = rewards._commands, rewards._memories
        while commands.get() != {"order": None, "action": None}:
            memories.put([[0.0], [1.0]])

    monkeypatch.setattr(Rewards, "_serve", serve)
    policies = ("a", "a", "b", "b", "a")
    rewards = Rewards([order(tmp_path, policy=each, reward="text") for each in policies])
    for place in range(len(policies)):
        assert rewards.answer({"order": place, "action": None}) == {"memory": [[0.0], [1.0]]}
    rewards.close()
    assert started == ["a", "b", "a"]
