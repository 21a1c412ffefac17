"""Judge files on recorded episodes: right numbers, and never a 0 for what is unknown."""

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.errors import RefusedCode, RewardError, WorkerDied
from telic.judges.code import JudgeCode, judge_files
from telic.judges.criteria import score as make_score
from telic.judges.episode import RecordedEpisode
from telic.judges.verdict import judged, together, unknown
from telic.sandbox import host
from telic.storage.trajectories import read_trajectory
from tests.judges.playing import record

SPEED = """
from telic import require, score

def judge(episode):
    speed = episode.mean("forward_velocity")
    return [
        score("moves forward", speed, zero=0.0, goal=1.0, unit="m/s", tag="too_slow"),
        require("upright", episode.share(episode["uprightness"] > 0.2), zero=0.0, goal=0.5),
    ]
"""


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("episodes")
    paths = [folder / f"episode_{i}.npz" for i in range(3)]

    def still(obs):
        return torch.zeros(len(obs), 6)

    return record(still, "HalfCheetah-v5", {"max_episode_steps": 30}, paths)


def test_an_episode_measures_what_the_library_measures(episodes):
    env = make("HalfCheetah-v5", num_envs=1, max_episode_steps=30)
    trajectory = read_trajectory(episodes[0])
    episode = RecordedEpisode(trajectory, env.spec)
    assert len(episode) == 30
    assert episode.seconds == pytest.approx(1.5) == episode.full_seconds
    np.testing.assert_allclose(episode["forward_velocity"], trajectory["qvel"][:, 0], atol=1e-5)
    assert episode["pitch_turns"].shape == (30,)
    mask = np.array([True, True, False, True] + [False] * 26)
    assert episode.longest(mask) == pytest.approx(0.1)
    assert episode.first(~mask) == 2 and episode.share(mask) == pytest.approx(0.1)


def test_a_judge_runs_confined_and_says_what_is_lacking(episodes, tmp_path):
    verdicts = judge_files(SPEED, episodes, tmp_path / "judge")
    assert [each.source for each in verdicts] == ["code"] * 3
    assert all(each.score is not None and each.score < 0.3 for each in verdicts)
    assert verdicts[0].tags == ("too_slow",)
    summed = together(verdicts)
    assert summed.episodes == 3 and summed.unknown == 0 and summed.low is not None
    assert set(summed.criteria) == {"moves forward", "upright"}


def test_a_judge_written_with_the_names_of_earlier_versions_still_runs(episodes):
    env = make("HalfCheetah-v5", num_envs=1, max_episode_steps=30)
    earlier = SPEED.replace("require", "guard").replace("score", "leaf")
    assert "from telic import guard, leaf" in earlier
    trajectory = read_trajectory(episodes[0])
    assert JudgeCode(earlier)(trajectory, env.spec) == JudgeCode(SPEED)(trajectory, env.spec)


def test_a_judge_that_fails_does_not_score_zero(episodes, tmp_path):
    broken = SPEED.replace('"forward_velocity"', '"forward_velocitee"')
    verdicts = judge_files(broken, episodes, tmp_path / "judge")
    assert [each.score for each in verdicts] == [None] * 3
    assert "forward_velocity" in (verdicts[0].reason or "")
    summed = together([*verdicts, unknown("code", "no reason")])
    assert summed.score is None and summed.low is None and summed.unknown == 4


def test_foreign_judges_are_held_to_the_allow_list(episodes, tmp_path):
    with pytest.raises(RefusedCode):
        JudgeCode("import os\ndef judge(episode):\n    return []\n")
    with pytest.raises(RewardError, match="does not define a function judge"):
        JudgeCode("x = 1\n")
    verdicts = judge_files("import os\n", episodes, tmp_path / "judge")
    assert all(each.score is None for each in verdicts)


DIED = WorkerDied("ended by SIGKILL")


@pytest.mark.parametrize(
    ("deaths", "score", "tries"),
    [([], 1.0, 1), ([DIED], 1.0, 2), ([DIED] * 2, None, 2), ([RewardError("no judge")], None, 1)],
    ids=["lives", "dies once", "dies twice", "is wrong"],
)
def test_a_worker_that_dies_is_replaced_once(episodes, tmp_path, monkeypatch, deaths, score, tries):
    started = []

    def run_worker(entry, payload, **_):
        started.append(entry)
        if len(started) <= len(deaths):
            raise deaths[len(started) - 1]
        verdict = judged([make_score("runs", 2.0, zero=0.0, goal=1.0)], 1.0)
        return {"verdicts": [verdict.model_dump(mode="json")] * len(payload["paths"])}

    monkeypatch.setattr(host, "run_worker", run_worker)
    verdicts = judge_files(SPEED, episodes, tmp_path)
    assert [each.score for each in verdicts] == [score] * 3 and len(started) == tries
    assert score is not None or str(deaths[0]) in (verdicts[0].reason or "")


HALF = make_score("half", 0.5, zero=0.0, goal=1.0)


UNMEASURED = make_score("unmeasured", float("nan"), zero=0.0, goal=1.0)


@pytest.mark.parametrize(
    "lie",
    [
        {"credit": 1.0},
        {"credit": 1.0, "counted": 1.0, "passed": True},
        {"counted": 1.0},
        {"counted": 0.7},
        {"passed": True},
        {"value": 0.9},
        {"goal": 0.4},
        {"zero": -9.0},
    ],
    ids=repr,
)
def test_inflated_credit_makes_the_episode_unknown(episodes, tmp_path, monkeypatch, lie):
    reported = judged([HALF], 1.0).model_dump(mode="json")
    reported["criteria"][0] |= lie
    monkeypatch.setattr(host, "run_worker", lambda *_, **__: {"verdicts": [reported] * 3})
    verdicts = judge_files(SPEED, episodes, tmp_path)
    assert {verdict.score for verdict in verdicts} == {None}


@pytest.mark.parametrize("lie", [{"credit": 1.0, "counted": 1.0}, {"passed": True}], ids=repr)
def test_what_was_not_measured_earns_nothing(episodes, tmp_path, monkeypatch, lie):
    reported = judged([HALF, UNMEASURED], 1.0).model_dump(mode="json")
    reported["criteria"][1] |= lie
    monkeypatch.setattr(host, "run_worker", lambda *_, **__: {"verdicts": [reported] * 3})
    assert {each.score for each in judge_files(SPEED, episodes, tmp_path)} == {None}


def test_the_score_a_judge_claims_does_not_count(episodes, tmp_path, monkeypatch):
    reported = judged([HALF], 1.0).model_dump(mode="json")
    monkeypatch.setattr(host, "run_worker", lambda *_, **__: {"verdicts": [reported] * 3})
    assert {each.score for each in judge_files(SPEED, episodes, tmp_path)} == {0.5}
