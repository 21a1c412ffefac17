"""Mutants of real episodes: what is changed is known, and a judge must notice it."""

import numpy as np
import pytest

from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.episode import RecordedEpisode
from telic.judges.mutants import CUT, FROZEN, counts, mutants_of

RUN = (Motion(seconds=60, forward_mps=2.0, left_mps=0.5, turn_rps=0.5, stride_hz=1.5),)
JUDGE = """
import numpy as np
from telic import score, score_near

def judge(episode):
    way = episode["x_position"]
    speed = float(way[-1] - way[0]) / episode.full_seconds
    return [
        score("runs", speed, zero=0.2, goal=1.5),
        score("is there", 1.0, zero=0.0, goal=0.5),
        score_near("at 2 m/s", episode.mean("forward_velocity"), 2.0, 0.2),
        score("upright", episode.mean("uprightness"), zero=0.0, goal=0.8),
    ]
"""


@pytest.fixture(scope="module", params=["HalfCheetah-v5", "Ant-v5"])
def example(request):
    args = {"max_episode_steps": 40}
    trajectory = demonstrate(request.param, args, {"run": RUN}).trajectory("run")
    env = make(request.param, num_envs=1, **args)
    env.close()
    return trajectory, env.spec


def track(trajectory, spec, name):
    return RecordedEpisode(trajectory, spec)[name]


def test_every_mutant_is_what_it_is_called(example):
    trajectory, spec = example
    mutants = mutants_of(trajectory, spec)
    x, speed = track(trajectory, spec, "x_position"), track(trajectory, spec, "forward_velocity")
    still = mutants[FROZEN]
    assert np.ptp(track(still, spec, "x_position")) == 0.0
    assert np.abs(track(still, spec, "forward_velocity")).max() == 0.0 and len(still) == 40
    assert len(mutants[CUT]) == 2 and mutants[CUT].columns["terminated"][-1]
    slow = mutants["slowed down"]
    assert track(slow, spec, "forward_velocity") == pytest.approx(speed[np.arange(40) // 4] / 4)
    back = mutants["reversed"]
    assert track(back, spec, "x_position") == pytest.approx(x[::-1])
    assert track(back, spec, "forward_velocity") == pytest.approx(-speed[::-1])
    assert sorted(track(mutants["shuffled"], spec, "x_position")) == pytest.approx(sorted(x))


def test_a_mirror_turns_velocities_and_turns_alike(example):
    trajectory, spec = example
    mirrored = mutants_of(trajectory, spec)["mirrored front to back"]
    assert track(mirrored, spec, "forward_velocity") == pytest.approx(
        -track(trajectory, spec, "forward_velocity"), abs=1e-5
    )
    assert track(mirrored, spec, "uprightness") == pytest.approx(
        track(trajectory, spec, "uprightness"), abs=1e-5
    )
    assert track(mirrored, spec, "pitch_turns") == pytest.approx(
        -track(trajectory, spec, "pitch_turns"), abs=1e-4
    )
    if "y" not in spec.robot.root.moves:
        return
    sided = mutants_of(trajectory, spec)["mirrored left to right"]
    for name, sign in (("lateral_velocity", -1), ("forward_velocity", 1), ("heading_turns", -1)):
        expected = sign * track(trajectory, spec, name)
        assert track(sided, spec, name) == pytest.approx(expected, abs=1e-4)
    again = mutants_of(sided, spec)["mirrored left to right"]
    assert again.columns["qpos"] == pytest.approx(trajectory.columns["qpos"], abs=1e-5)


def test_sensitive_criterion_is_distinguished_from_an_insensitive_one(example):
    trajectory, spec = example
    judge = JudgeCode(JUDGE)
    mutants = [judge(mutant, spec) for mutant in mutants_of(trajectory, spec).values()]
    found = {each.criterion: each for each in counts([judge(trajectory, spec)], [mutants])}
    assert found["runs"].caught >= 5 and found["runs"].changed >= 5
    assert found["is there"].caught == 0 and found["is there"].changed == 0
    assert found["upright"].changed >= 1  # tilted
    assert found["at 2 m/s (within 0.2 of 2)"].caught >= 3
    assert all(each.total == len(mutants) for each in found.values())
