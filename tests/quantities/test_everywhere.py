"""Every quantity on every environment that has it: shapes, finiteness, steps against recordings."""

import pytest
import torch

from telic import quantities as q
from telic.envs import make
from telic.envs.tasks import TASKS

FIELDS = ("qpos", "qvel", "xpos", "xquat", "cvel", "subtree_com", "contacts", "action")
STEPS, ENVS = 12, 3


def arguments(quantity, spec):
    named = {"body": spec.body_names[-1], "joint": spec.robot.limbs[-1].name, "point": (1.0, 2.0)}
    if spec.torso is None and quantity.name == "distance_to_point":
        return [named["point"], named["body"]]
    return [
        named[each] for each in quantity.arguments if each != "body" or len(quantity.arguments) == 1
    ]


@pytest.mark.parametrize("name", TASKS)
def test_steps_and_recording_agree(name):
    # short episodes, so that the memory has to start anew within the recording
    env = make(name, num_envs=ENVS, seed=4, max_episode_steps=5)
    env.reset()
    have = [each for each in q.QUANTITIES.values() if each.available(env.spec)]
    memories = {e.name: e.start(ENVS, spec=env.spec) for e in have if e.kind == "accumulated"}
    recorded = {field: [] for field in (*FIELDS, "episode_start")}
    stepped = {each.name: [] for each in have}
    actions = torch.rand(STEPS, ENVS, env.act_dim, generator=torch.Generator().manual_seed(0)) - 0.5
    for action in actions:
        info = env.step(action).info
        for each in have:
            if each.width is not None:
                memories[each.name], value = each.update(memories[each.name], info)
            else:
                value = each(info, *arguments(each, env.spec))
            stepped[each.name].append(value)
        for field, values in recorded.items():
            values.append(info[field])
    recording = q.Recording({k: torch.stack(v) for k, v in recorded.items()}, env.spec)
    for each in have:
        values = torch.stack(stepped[each.name])
        extra = () if each.per is None else (values.shape[-1],)
        assert values.shape == (STEPS, ENVS, *extra), each.name
        assert values.isfinite().all(), each.name
        if each.width is not None:
            whole = each.over(recording)
        else:
            whole = each(recording, *arguments(each, env.spec))
        assert torch.allclose(whole, values, atol=1e-6), each.name


def test_a_member_of_a_population_measures_only_its_own():
    env = make("Ant-v5", num_envs=4, seed=(1, 2))
    env.reset()
    info = env.step(torch.zeros(4, 8)).info
    mine = info.slice(slice(2, 4))
    assert torch.equal(q.height(mine), q.height(info)[2:])
    assert torch.equal(q.foot_contact(mine), q.foot_contact(info)[2:])
