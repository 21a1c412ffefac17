"""Reasons of unknown scores and of contradictions between judges, each listed once with a count."""

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.envs.tasks import TASKS
from telic.judges.episode import RecordedEpisode
from telic.judges.fusion import fuse, judge_doubted, resolve, unjudged
from telic.judges.verdict import unknown
from telic.quantities import QUANTITIES
from telic.storage.trajectories import RECORDED, Trajectory, TrajectoryFacts
from tests.judges.test_fusion import measured, watched


def test_every_reason_is_listed_once_with_a_count():
    verdicts = [
        measured(runs=1.0),
        unknown("code", "a"),
        unknown("code", "b"),
        unknown("code", "b"),
    ]
    assert unjudged(verdicts) == (
        "2 of 4 episodes could not be judged: b",
        "1 of 4 episodes could not be judged: a",
    )
    assert unjudged([measured(runs=0.0)]) == () == unjudged([])
    (line,) = unjudged([unknown("code", "x" * 1000)])
    assert len(line) < 400


def disputed(code, first, again):
    judge, vision = measured(runs=code), watched(first, runs=first)
    return resolve(judge, vision, watched(again, runs=again), fuse(judge, vision).disagreements)


def test_a_judge_that_most_pictures_contradict_is_doubted():
    reported = judge_doubted([disputed(1.0, 0.1, 0.2)] * 2 + [disputed(1.0, 1.0, 1.0)])
    assert reported is not None
    assert '"runs" in 2 of 3 watched episodes' in reported
    assert "code 1.00" in reported and "vision 0.20" in reported and "runs: 1 m/s" in reported


def test_a_failure_that_looks_right_casts_doubt_too():
    assert "code 0.00" in (judge_doubted([disputed(0.0, 0.9, 0.9)]) or "")


def test_only_what_looks_worse_than_it_measures_is_a_doubt_about_a_pass():
    assert judge_doubted([disputed(0.0, 0.9, 0.9)], only_less=True) is None
    assert judge_doubted([disputed(1.0, 0.1, 0.1)], only_less=True) is not None
    whole = fuse(measured(runs=1.0), watched(0.1, runs=1.0))
    assert judge_doubted([whole]) is not None and judge_doubted([whole], only_less=True) is None
    unseen = fuse(measured(runs=1.0), watched(0.1, runs=None))
    assert judge_doubted([unseen], only_less=True) is not None


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_quantity_of_a_task_can_be_measured_from_what_is_recorded(name):
    env = make(name, num_envs=1)
    env.reset()
    fields = [field for field in RECORDED if field in env.spec.info_keys]
    rows = []
    for _ in range(3):
        info = env.step(torch.zeros(1, env.spec.act_dim)).info
        rows.append({field: info[field][0].numpy().copy() for field in fields})
    columns = {field: np.stack([row[field] for row in rows]) for field in fields}
    columns["action"] = np.zeros((3, env.spec.act_dim), np.float32)
    facts = TrajectoryFacts(env_id=name, dt_s=env.spec.dt_s)
    env.close()
    episode = RecordedEpisode(Trajectory(columns, facts), env.spec)
    for quantity in QUANTITIES.values():
        if quantity.available(env.spec) and not quantity.arguments:
            assert len(episode[quantity.name]) == 3


def test_resolved_or_unwatched_disagreement_is_not_a_doubt():
    assert judge_doubted([disputed(1.0, 0.1, 0.9)] * 3) is None
    assert judge_doubted([measured(runs=1.0)] * 3) is None
    one_of_three = [disputed(1.0, 0.1, 0.2), *[disputed(1.0, 1.0, 1.0)] * 2]
    assert judge_doubted(one_of_three) is None
    assert judge_doubted([]) is None
