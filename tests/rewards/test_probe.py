from pathlib import Path

import pytest
import torch

from telic import bench
from telic.envs import make
from telic.errors import RewardError
from telic.rewards.probe import probe
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.robots.build import build_robot
from telic.robots.record import guessed

from .conftest import RUN_FORWARD, WITH_MEMORY

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
HEADER = "class R(RewardFunction):\n    weights = {'a': 1.0}\n"


def batched(line, attributes=""):
    return (
        f"{HEADER}    {attributes}\n"
        f"    def compute(self, obs, action, next_obs, info):\n        {line}\n"
    )


def per_step(line):
    return f"def reward_fn(obs, action, next_obs, info):\n    {line}\n"


def findings(text, recording, **options):
    report = probe(load_reward(text, **options), recording)
    return {each.name: each.message for each in report.findings}


@pytest.mark.parametrize(
    "text",
    [
        batched("unused = obs * 2\n        v = torch.sqrt(obs[:, 0] - 9); return v, {'v': v}"),
        per_step("\n\n\n    v = float(np.log(obs[0] * 0)); return v, {'v': v}"),
    ],
)
def test_numbers_that_are_not_finite_name_their_term(text, small):
    with pytest.raises(RewardError) as caught:
        probe(load_reward(text), small)
    assert caught.value.term == "v"
    assert f'reward line {caught.value.line}, term "v" is ' in str(caught.value)
    assert " in 32 of 32 values" in str(caught.value)
    assert "(first at step 0)" in str(caught.value)
    assert "Check for a division, root, logarithm" in str(caught.value)


def test_the_count_and_first_step_of_bad_values_are_right(small):
    bad = small.transitions[2].info["x_velocity"].max().item() - 1e-6
    worse = sum((m.info["x_velocity"] >= bad).sum().item() for m in small.transitions)
    first = next(t for t, m in enumerate(small.transitions) if (m.info["x_velocity"] >= bad).any())
    text = batched(f"v = torch.sqrt({bad} - info['x_velocity']); return v, {{'v': v}}")
    with pytest.raises(RewardError, match=f"NaN in {worse} of 32 values .first at step {first}."):
        probe(load_reward(text), small)


def test_statistics_are_those_of_the_values(small):
    text = batched(
        "v = info['x_velocity']; c = -0.5 * action[:, 0]; return v + c, {'v': v, 'c': c}"
    )
    report = probe(load_reward(text), small)
    speed = torch.stack([moment.info["x_velocity"] for moment in small.transitions]).double()
    cost = torch.stack([-0.5 * moment.action[:, 0] for moment in small.transitions]).double()
    v, c = report.terms
    assert (v.name, c.name) == ("v", "c")
    assert v.mean == pytest.approx(speed.mean().item(), rel=1e-6)
    assert v.std == pytest.approx(speed.std(correction=0).item(), rel=1e-6)
    assert (v.min, v.max) == (speed.min().item(), speed.max().item())
    share = speed.abs().mean() / (speed.abs().mean() + cost.abs().mean())
    assert v.share == pytest.approx(share.item(), rel=1e-6)
    assert report.total.mean == pytest.approx((speed + cost).mean().item(), rel=1e-5)
    assert report.transitions == 32
    assert report.mode == "batched"
    assert report.microseconds_per_step > 0


def test_terms_that_do_not_sum_to_the_total_are_reported(small):
    found = findings(batched("v = obs[:, 0]; return v + 0.5, {'v': v}"), small)
    assert "The terms do not sum to the total" in found["terms_gap"]
    assert "terms_gap" not in findings(batched("v = obs[:, 0]; return v, {'v': v}"), small)


def test_dead_and_dominating_terms_are_named_with_their_line(small):
    text = batched(
        "v = obs[:, 0] + 5\n        terms = {\n            'v': v,\n            'z': 0 * v,\n"
        "        }\n        return v, terms"
    )
    found = findings(text, small)
    assert found["dead_term"] == 'reward line 8, term "z" was 0 in all 32 transitions of the probe.'
    assert 'reward line 7, term "v" is 100% of the reward' in found["dominating_term"]


def test_a_single_environment_is_enough(tmp_path):
    env = make("HalfCheetah-v5", num_envs=1, seed=0)
    mixing = load_reward(batched("v = info['x_velocity'] - obs.mean(); return v, {'v': v}"))
    with pytest.raises(RewardError, match="depends on other environments"):
        probe(mixing, env, transitions=32)
    report = probe(
        load_reward(per_step("v = float(obs[0]); return v, {'v': v}")), env, transitions=32
    )
    assert report.mode == "looped"
    env.close()


# ---- recordings


def test_a_recording_has_several_episodes_and_no_action_at_its_end():
    env = make("HalfCheetah-v5", num_envs=8, seed=0)
    recording = collect(env, transitions=128)
    assert (recording.num_envs, len(recording.transitions)) == (8, 16)
    starts = [bool(m.info["episode_start"].all()) for m in recording.transitions]
    assert [t for t, begins in enumerate(starts) if begins] == [0, 8, 12]
    ends = [bool(m.ended.all()) for m in recording.transitions]
    assert [t for t, end in enumerate(ends) if end] == [7, 11, 15]
    assert all(bool(m.action.any()) == (t < 12) for t, m in enumerate(recording.transitions))
    # the second part is from later on, away from the start
    assert recording.transitions[8].info["time"].min() > 2.0
    env.close()


# ---- the examples

BY_PATH = str(Path(__file__).parents[2] / "examples" / "obey_commands.py")


@pytest.mark.parametrize(
    "name, env_id",
    [
        pytest.param(str(RUN_FORWARD), "HalfCheetah-v5", id="run_forward"),
        pytest.param(BY_PATH, DOG, id="obey_commands"),
        pytest.param(str(WITH_MEMORY), "HalfCheetah-v5", id="backflip_memory"),
    ],
)
def test_an_example_is_sound(name, env_id, tmp_path):
    is_dog = env_id is DOG
    env_id = str(build_robot(guessed(DOG), tmp_path, "dog")) if is_dog else env_id
    env = make(env_id, num_envs=4, seed=0, **({"commands": {}} if is_dog else {}))
    report = probe(load_reward(name), env, transitions=32)
    env.close()
    assert report.mode == "batched"
    # A term may rest on the first steps; everything else would be a fault.
    assert {finding.name for finding in report.findings} <= {"dead_term"}
    assert report.spec.latex
    assert {term.name for term in report.spec.terms} == {term.name for term in report.terms}
    assert {term.name for term in report.spec.terms if term.weight is None} == set()
