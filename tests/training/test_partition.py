"""Rewards that are different programs are trained by different processes, to the same numbers."""

import itertools
import json
import random

import pytest
import torch

from telic.core.events import TrainProgress
from telic.errors import BadFile, RewardError, TrainingFailed
from telic.sandbox import host
from telic.storage.files import read_json, read_json_lines, write_json
from telic.storage.layout import RunFolder
from telic.training.folder import create_run, status_of
from telic.training.job import RewardSource, TrainJob, member_groups, program_of
from telic.training.run import execute
from tests.session.quick import _work_here
from tests.training.small import CONTROL, SPEED, small_job, train_here
from tests.training.test_population import numbers, weights

FAILING = """
from telic import RewardFunction

class Failing(RewardFunction):
    def compute(self, obs, action, next_obs, info):
        raise ValueError("no")
"""


@pytest.fixture
def workers(monkeypatch) -> list[dict]:
    """Do the workers' work in this process; what each of them was given."""
    given = []

    def work(entry, payload, **options):
        given.append({"payload": payload, **options})
        return _work_here(entry, payload, **options)

    monkeypatch.setattr(host, "run_worker", work)
    return given


def three(**changes) -> TrainJob:
    options = {"steps": 512, "seeds": (1,), "evaluations": 1, **changes}
    return small_job(reward=[SPEED, CONTROL, None], **options)


def same(one, other) -> None:
    assert torch.equal(weights(one), weights(other))
    assert numbers(one) == numbers(other)


def test_only_rewards_that_are_one_program_but_for_its_weights_share_a_process():
    def of(source, **more):
        return program_of(RewardSource(name="r", source=source, **more))

    chance = random.Random(0)
    for _ in range(100):
        value = chance.choice([chance.uniform(-9, 9), chance.randint(-5, 5), 1e-30, 1e30])
        assert of(SPEED.replace('"speed": 1.0', f'"speed": {value!r}')) == of(SPEED)
    others = [
        SPEED.replace('"speed": 1.0', '"speed": float(1)'),
        SPEED.replace('"speed": 1.0', '"speed": True'),
        SPEED.replace('"speed": 1.0', '"spped": 1.0'),
        SPEED.replace("action**2", "action**3"),
        SPEED + "\nweights = {'a': 1}\n",
        SPEED.replace("    weights =", "    other = {'a': 1}\n    weights ="),
        SPEED.replace("    weights =", "    other = {'a': 2}\n    weights ="),
        "this is ( no Python",
        "(" * 5000,
        "x = " + "-" * 200_000 + "1",
        "\0",
        CONTROL,
    ]
    assert len({of(source) for source in [SPEED, *others]}) == len(others) + 1
    assert of(SPEED, ours=True) == of(CONTROL, ours=True) == of(None)


def test_a_process_may_write_to_no_folder_of_another(tmp_path, workers):
    run = execute(three(steps=256), tmp_path)
    writable = [set(each["writable"]) for each in workers]
    assert not any(one & other for one, other in itertools.pairwise(writable))
    for folders in writable:
        for folder in folders:
            assert folder.is_relative_to(run.path.absolute())
            rest = set().union(*(other for other in writable if other is not folders))
            assert not any(each.is_relative_to(folder) for each in rest)


@pytest.mark.slow
def test_a_reward_that_fails_costs_the_others_nothing(tmp_path, workers):
    job = small_job(reward=[FAILING, SPEED], steps=512)
    received = []
    with pytest.raises(RewardError, match="no"):
        execute(job, tmp_path, name="run", on_event=received.append)
    run = RunFolder(tmp_path / "run")
    alone = train_here(small_job(reward=SPEED, steps=512), tmp_path / "alone")
    assert status_of(run) == "failed" and read_json(run.summary)["status"] == "failed"
    member = next(each for each in run.members() if each.name == "reward2_seed_1")
    same(member, alone.members()[0])
    assert any("reward cannot be trained" in getattr(event, "message", "") for event in received)
    with pytest.raises(RewardError):
        execute(job, tmp_path, name="run")  # what is trained is not trained again
    assert [each["payload"]["job"]["rewards"][0]["name"] for each in workers] == [
        *("reward", "reward2", "reward"),
    ]


HOSTILE = """
import gc, json, os, pathlib, sys, threading
from telic import RewardFunction
import torch

def spoil():
    for each in gc.get_objects():
        if type(each).__name__ in ("Population", "Reward", "Collector"):
            for name, value in vars(each).items():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    value.data.mul_(1.7)
    here = pathlib.Path(os.getcwd())
    for path in [*here.parent.glob("*"), *here.parent.parent.rglob("*")]:
        try:
            path.write_text("spoiled")
        except OSError:
            pass

class Hostile(RewardFunction):
    calls = 0

    def compute(self, obs, action, next_obs, info):
        Hostile.calls += 1
        if Hostile.calls % 20 == 0:
            spoil()
        terms = {"speed": info["x_velocity"]}
        return terms["speed"], terms
"""


@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_unrestricted_reward_does_not_affect_the_other_reward(tmp_path, place):
    rewards = [SPEED]
    rewards.insert(place, HOSTILE)
    job = small_job(reward=rewards, trusted=True, steps=512)
    with pytest.raises(TrainingFailed):  # it spoiled all that its process held: itself
        execute(job, tmp_path, name="run")
    run = RunFolder(tmp_path / "run")
    alone = RunFolder(execute(small_job(reward=SPEED, steps=512), tmp_path, name="alone").path)
    (honest,) = (each for each in run.members() if "Speed" in each.reward_code.read_text())
    (twin,) = alone.members()
    same(honest, twin)
    for file, other in zip(honest.checkpoints(), twin.checkpoints(), strict=True):
        one, two = (torch.load(each.path, weights_only=True) for each in (file, other))
        assert one["flat"].equal(two["flat"])
    assert read_json(honest.summary)["last"] == read_json(twin.summary)["last"]
    assert json.dumps(read_json(honest.reward_spec)) == json.dumps(read_json(twin.reward_spec))


@pytest.mark.slow
def test_members_trained_apart_learn_what_they_learn_together(tmp_path, workers):
    together = train_here(three(), tmp_path / "together")
    received = []
    run = RunFolder(execute(three(), tmp_path / "apart", on_event=received.append).path)
    assert [len(each["payload"]["job"]["members"]) for each in workers] == [1, 1, 1]
    for one, other in zip(together.members(), run.members(), strict=True):
        same(one, other)
        assert read_json(one.summary)["last"] == read_json(other.summary)["last"]
    first, second = read_json(together.summary), read_json(run.summary)
    for name in ("total_timesteps", "best_member", "best_return", "members", "status"):
        assert first[name] == second[name]
    assert read_json(together.manifest)["shared_process"]
    assert not read_json(run.manifest)["shared_process"]
    kinds = [row["event"] for row in read_json_lines(run.events)]
    assert kinds.count("train.start") == 3 and kinds.count("train.end") == 1
    steps = [event.step for event in received if isinstance(event, TrainProgress)]
    assert steps == sorted(steps) and steps[-1] <= 512


@pytest.mark.parametrize("after", [pytest.param(each, marks=pytest.mark.slow) for each in (1, 3)])
def test_run_of_several_processes_resumes_where_it_stopped(tmp_path, workers, after):
    job = three()
    whole = RunFolder(execute(job, tmp_path / "whole").path)
    asked = []

    def soon() -> bool:
        asked.append(1)
        return len(asked) > after

    stopped = execute(job, tmp_path / "part", should_stop=soon)
    assert stopped.status == "stopped"
    again = execute(job, tmp_path / "part")
    assert again.path == stopped.path and again.status == "completed"
    for one, other in zip(whole.members(), RunFolder(again.path).members(), strict=True):
        same(one, other)
    assert again.summary["total_timesteps"] == read_json(whole.summary)["total_timesteps"]


@pytest.mark.parametrize("groups", [[["a"]], [["reward_seed_1"]], [[]], [["../x"], []]])
def test_a_manifest_that_speaks_of_others_is_refused(tmp_path, groups):
    run = RunFolder(tmp_path / "run")
    create_run(three(), run)
    write_json(run.manifest, {**read_json(run.manifest), "processes": groups})
    with pytest.raises(BadFile, match="are not those of this run"):
        member_groups(three(), run)
